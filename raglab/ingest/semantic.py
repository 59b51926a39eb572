"""Semantic chunking: cut where the subject changes, as the encoder sees it.

Each sentence is embedded, on its own or with its neighbours.  The distance between one and the
next is

    distance(i) = 1 - v_i · v_{i+1}

and a break is set where that distance is among the largest, above a percentile of all distances
in the document (the idea is Greg Kamradt's, "5 Levels of Text Splitting", 2024).  What is still
longer than `size` is cut at its largest inner distance until it fits.

A window of one neighbour on each side smooths the distances and costs three times the encoder's
time; the default does without.  Either way it costs a pass of the encoder for each sentence, and
whether it earns that is measured, not assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raglab.ingest.chunk import Counter, Span, check_sizes, cut_all, fit
from raglab.sentences import sentence_spans
from raglab.types import Chunk, Document, Embedder, RagLabError


@dataclass(frozen=True)
class Semantic:
    """Chunks of whole sentences that belong together, of at most `size` word pieces."""

    embedder: Embedder
    percentile: float = 80.0
    size: int = 200
    window: int = 0  # neighbours on each side that a sentence is embedded with

    def __post_init__(self) -> None:
        check_sizes(self.size, 0)
        if not 0 <= self.percentile <= 100:
            raise RagLabError(f"percentile={self.percentile}: it must lie between 0 and 100")

    def chunk(self, document: Document) -> tuple[Chunk, ...]:
        count = Counter(self.embedder.spans(document.text))
        sentences = [
            piece
            for sentence in sentence_spans(document.text)
            for piece in fit(document.text, sentence, count, self.size)
        ]
        gaps = self.distances(document.text, sentences)
        limit = float(np.percentile(gaps, self.percentile)) if gaps else 0.0
        groups = [[0]] if sentences else []
        for number, gap in enumerate(gaps, start=1):
            if gap > limit:
                groups.append([])
            groups[-1].append(number)
        spans = []
        for group in groups:
            for part in self._fitting(group, sentences, gaps, count):
                spans.append((sentences[part[0]][0], sentences[part[-1]][1]))
        return cut_all(document, spans)

    def distances(self, text: str, sentences: Sequence[Span]) -> list[float]:
        """1 - cosine between each sentence and the next, each read with its neighbours."""
        if len(sentences) < 2:
            return []
        last = len(sentences) - 1
        around = [
            text[sentences[max(0, i - self.window)][0] : sentences[min(last, i + self.window)][1]]
            for i in range(len(sentences))
        ]
        vectors = self.embedder.embed(around)
        cosines = (vectors[:-1] * vectors[1:]).sum(axis=1)
        return [round(1 - float(cosine), 6) for cosine in cosines]

    def _fitting(
        self, group: list[int], sentences: Sequence[Span], gaps: Sequence[float], count: Counter
    ) -> list[list[int]]:
        """The group, cut at its widest gaps until each part fits; among equal gaps, the middle."""
        done: list[list[int]] = []
        waiting = [group]
        while waiting:
            part = waiting.pop()
            if (
                len(part) == 1
                or count((sentences[part[0]][0], sentences[part[-1]][1])) <= self.size
            ):
                done.append(part)
                continue
            middle = len(part) / 2
            widest = max(range(1, len(part)), key=lambda i: (gaps[part[i] - 1], -abs(i - middle)))
            waiting += [part[widest:], part[:widest]]
        return done
