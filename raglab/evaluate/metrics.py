"""How good is a ranking: recall@k and nDCG@k, from a run and its qrels.

    recall@k = relevant documents in the first k / relevant documents
    DCG@k    = Σ_{i=1..k}  gain_i / log2(i + 1)
    nDCG@k   = DCG@k / DCG@k of the best order

The gain is the relevance grade itself, as in trec_eval; Järvelin and Kekäläinen 2002, "Cumulated
gain-based evaluation of IR techniques".  Both lie between 0 and 1.

Left out: the other measures, and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Judged = Mapping[str, int]  # doc_id -> grade; 0 and absent are not relevant
Measure = Callable[[Sequence[str], Judged, int], float]


def recall(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """Share of the relevant documents among the first k; 0 where none is relevant.

    >>> recall(["a", "b", "c"], {"a": 1, "c": 1}, 2)
    0.5
    """
    relevant = {doc_id for doc_id, grade in judged.items() if grade > 0}
    return len(relevant & set(ranked[:k])) / len(relevant) if relevant else 0.0


def ndcg(ranked: Sequence[str], judged: Judged, k: int) -> float:
    """Normalized discounted cumulative gain of the first k; 0 where none is relevant.

    >>> round(ndcg(["b", "a"], {"a": 1}, 10), 4)  # 1 / log2(3)
    0.6309
    """
    gains = [max(0, judged.get(doc_id, 0)) for doc_id in ranked[:k]]
    best = sorted((grade for grade in judged.values() if grade > 0), reverse=True)[:k]
    return _dcg(gains) / _dcg(best) if best else 0.0


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def mean(
    measure: Measure, run: Mapping[str, Sequence[str]], qrels: Mapping[str, Judged], k: int
) -> float:
    """Mean over all judged queries; one that the run leaves out counts as 0."""
    return sum(measure(run.get(q, ()), judged, k) for q, judged in qrels.items()) / len(qrels)
