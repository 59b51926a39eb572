"""How good is an answer: nine measures, plain fractions but for one.

    faithfulness        supported sentences / sentences of the answer
    hallucination rate  answers with an unsupported sentence / answers
    answer relevance    cosine of the query's and the answer's vectors
    context precision   Σ_{supporting at rank i} precision@i / supporting chunks in the context
    context recall      golden quotes that the context holds / golden quotes
    refusal precision   unanswerable questions refused / questions refused
    refusal recall      unanswerable questions refused / unanswerable questions
    citation recall     sentences that their citations support together / sentences
    citation precision  citations that are needed / citations

Faithfulness and relevance: Es et al. 2023, "RAGAS"; the two of the context: the documentation of
the Ragas library (the paper measures a context's relevance).  RAGAS has a model make
questions from the answer and compares those with the query; here the answer itself is compared,
which needs no model and likes answers that repeat the question.  Citations: Gao et al. 2023,
"Enabling Large Language Models to Generate Text with Citations" (ALCE).

A share of nothing is None: a refusal has no sentence that could be unfaithful.  All others lie
between 0 and 1, the cosine between -1 and 1.  A judge says what supports what (`judge.py`), and a
measure is as good as its judge.

Left out: fluency, and whether the answer is right (`outcomes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raglab.answer.citations import located, said
from raglab.evaluate.judge import Judge
from raglab.types import Answer, Chunk, Context


def share(flags: Sequence[bool]) -> float | None:
    """How many of them are true, from 0 to 1; None where there are none.

    >>> share([True, False]), share([])
    (0.5, None)
    """
    return sum(flags) / len(flags) if flags else None


def faithfulness(supported: Sequence[bool]) -> float | None:
    """Of an answer: for each sentence, whether the context supports it (Es et al. 2023).

    >>> faithfulness([True, True, False, True])
    0.75
    """
    return share(supported)


def hallucination_rate(answers: Sequence[Sequence[bool]]) -> float | None:
    """Share of the answers that hold a sentence which the context does not support. Answers
    without a sentence do not count.

    >>> hallucination_rate([[True, False], [True], []])
    0.5
    """
    return share([not all(supported) for supported in answers if supported])


def answer_relevance(query: NDArray[np.floating], answer: NDArray[np.floating]) -> float:
    """Cosine of two vectors [d], from -1 to 1; 0 where one is all zeros.

    >>> answer_relevance(np.array([1.0, 0.0]), np.array([3.0, 4.0]))
    0.6
    """
    length = float(np.linalg.norm(query) * np.linalg.norm(answer))
    return float(query @ answer) / length if length else 0.0


def context_precision(supporting: Sequence[bool]) -> float | None:
    """For each place of the context, best first, whether it supports the golden answer: the mean of
    precision@i at the places that do (Ragas documentation). 0 where none does.

    >>> context_precision([True, False, True])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    if not supporting:
        return None
    at = [place for place, one in enumerate(supporting, start=1) if one]
    return sum(found / place for found, place in enumerate(at, start=1)) / len(at) if at else 0.0


def context_recall(held: Sequence[bool]) -> float | None:
    """For each golden quote or claim, whether the context holds it (Ragas documentation).

    >>> context_recall([True, False, False, False])
    0.25
    """
    return share(held)


def refusal_precision(refused: Sequence[bool], answerable: Sequence[bool]) -> float | None:
    """Of what was refused, the share that has no answer. None where nothing was refused.

    >>> refusal_precision([True, True, False], [False, True, False])
    0.5
    """
    return share([not known for no, known in zip(refused, answerable, strict=True) if no])


def refusal_recall(refused: Sequence[bool], answerable: Sequence[bool]) -> float | None:
    """Of what has no answer, the share that was refused. None where all has one.

    >>> refusal_recall([True, True, False], [False, True, False])
    0.5
    """
    return share([no for no, known in zip(refused, answerable, strict=True) if not known])


@dataclass(frozen=True, slots=True)
class Cited:
    """A sentence beside what it cites: do all of its citations together support it, does each of
    them alone, and do the others without it?"""

    together: bool
    alone: tuple[bool, ...] = ()
    without: tuple[bool, ...] = ()  # of the same length


def citation_recall(sentences: Sequence[Cited]) -> float | None:
    """Share of sentences that their citations, taken together, support; one that cites nothing is
    not supported (Gao et al. 2023).

    >>> citation_recall([Cited(True, (True,), (False,)), Cited(False)])
    0.5
    """
    return share([one.together and bool(one.alone) for one in sentences])


def citation_precision(sentences: Sequence[Cited]) -> float | None:
    """Share of citations that are needed. One is not where its sentence is unsupported, or where it
    does not support the sentence and the others do without it (Gao et al. 2023).

    >>> citation_precision([Cited(True, (True, False), (False, True))])
    0.5
    """
    needed = [
        one.together and (alone or not without)
        for one in sentences
        for alone, without in zip(one.alone, one.without, strict=True)
    ]
    return share(needed)


# -- asking a judge ------------------------------------------------------------------------------


def supports(sentence: str, chunks: Sequence[Chunk], judge: Judge) -> bool:
    """What stands in a chunk letter for letter is supported by it; of all else the judge decides.

    So an answer that only repeats its sources is faithful by construction.
    """
    if not chunks:
        return False
    if any(located(sentence, chunk.shown) for chunk in chunks):
        return True
    return judge.judge(sentence, chunks).supported


def supported(answer: Answer, context: Context, judge: Judge) -> tuple[bool, ...]:
    """For each sentence of the answer, whether the context supports it. None for a refusal."""
    chunks = [hit.chunk for hit in context.kept]
    return tuple(supports(one.text, chunks, judge) for one in said(answer) if one.text.strip())


def cited(answer: Answer, context: Context, judge: Judge) -> tuple[Cited, ...]:
    """Each sentence of the answer beside its citations; a source that was never given supports
    nothing."""
    by_id = {hit.chunk.chunk_id: hit.chunk for hit in context.kept}
    found = []
    for sentence in said(answer):
        if not sentence.text.strip():
            continue
        ids = list(dict.fromkeys(one.chunk_id for one in sentence.citations))
        sources = [[by_id[name]] if name in by_id else [] for name in ids]

        def others(left_out: int, sources: list[list[Chunk]] = sources) -> list[Chunk]:
            return [one for n, group in enumerate(sources) if n != left_out for one in group]

        alone = tuple(supports(sentence.text, group, judge) for group in sources)
        # What one source supports alone, all support together: so it is taken.
        together = any(alone) or supports(sentence.text, others(-1), judge)
        without = tuple(
            any(yes for m, yes in enumerate(alone) if m != n)
            or (len(ids) > 2 and supports(sentence.text, others(n), judge))
            for n in range(len(ids))
        )
        found.append(Cited(together, alone, without))
    return tuple(found)
