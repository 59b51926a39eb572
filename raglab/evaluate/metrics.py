"""How good is a ranking: six measures, each from a run and its qrels.

    precision@k  = relevant documents in the first k / k
    recall@k     = relevant documents in the first k / relevant documents
    hit@k        = 1 if a relevant document is in the first k, else 0       (trec_eval: success@k)
    RR@k         = 1 / rank of the first relevant document, 0 if it stands past k
    AP@k         = Σ_{relevant at rank i <= k}  precision@i  / relevant documents
    nDCG@k       = DCG@k / DCG@k of the best order,   DCG@k = Σ_{i=1..k}  gain_i / log2(i + 1)

MRR and MAP are the means of RR and AP over the queries.  All lie between 0 and 1.

Precision, recall and AP: Manning, Raghavan and Schütze 2008, "Introduction to Information
Retrieval", chapter 8.  RR: Voorhees 1999, "The TREC-8 Question Answering Track Report".  nDCG:
Järvelin and Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques"; the gain is the
grade itself, as in trec_eval.  The others count a grade above 0 as relevant.

Which one?  A prompt takes a few chunks in any order: recall at that number.  A reader looks at
the top first: RR or nDCG.  Only nDCG sees that a document is more relevant than another.

Left out: how sure a mean is (`intervals.py`), and documents that nobody judged; they count as
not relevant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Judged = Mapping[str, int]  # doc_id -> grade; 0 and absent are not relevant
Measure = Callable[[Sequence[str], Judged, int], float]
Qrels = Mapping[str, Judged]  # query_id -> what is relevant to it


def precision(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """Share of relevant documents among k places; a place that is empty is not relevant.

    >>> precision(["a", "b", "c"], {"a": 1, "c": 1}, 2)
    0.5
    """
    return sum(_relevant(ranked, judged, k)) / k


def recall(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """Share of the relevant documents among the first k; 0 where none is relevant.

    >>> recall(["a", "b", "c"], {"a": 1, "c": 1}, 2)
    0.5
    """
    total = _total(judged)
    return sum(_relevant(ranked, judged, k)) / total if total else 0.0


def hit(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """1.0 where a relevant document is among the first k, else 0.0.

    >>> hit(["a", "b"], {"b": 1}, 1), hit(["a", "b"], {"b": 1}, 2)
    (0.0, 1.0)
    """
    return float(any(_relevant(ranked, judged, k)))


def reciprocal_rank(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """1 / the rank of the first relevant document, 0 where the first k hold none.

    >>> reciprocal_rank(["a", "b", "c", "d"], {"d": 1, "b": 1}, 10)
    0.5
    """
    places = enumerate(_relevant(ranked, judged, k), start=1)
    return next((1 / place for place, relevant in places if relevant), 0.0)


def average_precision(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """The precision at each relevant document, averaged; one that is not found adds 0.

    >>> average_precision(["a", "b", "c"], {"a": 1, "c": 1, "z": 1}, 10)  # (1/1 + 2/3 + 0) / 3
    0.5555555555555555
    """
    total, found, precisions = _total(judged), 0, 0.0
    for place, relevant in enumerate(_relevant(ranked, judged, k), start=1):
        if relevant:
            found += 1
            precisions += found / place
    return precisions / total if total else 0.0


def ndcg(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """Normalized discounted cumulative gain of the first k; 0 where none is relevant.

    >>> round(ndcg(["b", "a"], {"a": 1}, 10), 4)  # 1 / log2(3)
    0.6309
    """
    gains = [
        judged[doc_id] if relevant else 0
        for doc_id, relevant in zip(ranked[:k], _relevant(ranked, judged, k), strict=True)
    ]
    best = sorted((grade for grade in judged.values() if grade > 0), reverse=True)[:k]
    return _dcg(gains) / _dcg(best) if best else 0.0


def values(
    measure: Measure, run: Mapping[str, Sequence[str]], qrels: Qrels, k: int
) -> dict[str, float]:
    """query_id -> the measure, for each judged query; one that the run leaves out has 0.

    >>> values(recall, {"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"b": 1}}, 10)
    {'q1': 1.0, 'q2': 0.0}
    """
    return {
        query_id: measure(run.get(query_id, ()), judged, k) for query_id, judged in qrels.items()
    }


def mean(measure: Measure, run: Mapping[str, Sequence[str]], qrels: Qrels, k: int) -> float:
    """Mean over all judged queries; one that the run leaves out counts as 0."""
    return sum(values(measure, run, qrels, k).values()) / len(qrels)


def _relevant(ranked: Sequence[str], judged: Judged, k: int) -> list[bool]:
    """For each of the first k, whether it is relevant; what is repeated counts once."""
    return [
        judged.get(doc_id, 0) > 0 and doc_id not in ranked[:place]
        for place, doc_id in enumerate(ranked[:k])
    ]


def _total(judged: Judged) -> int:
    return sum(grade > 0 for grade in judged.values())


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))
