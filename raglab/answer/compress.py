"""Compressing: of a source, only the sentences that share a word with the question.

    a sentence stays if it holds one of the question's stems, stop words aside
    a heading stays, and so does the head of a table of which a row stays

What stays, stays letter for letter, so a quote of it is found in the chunk.  "…" stands where
something was left out.  A source in which no sentence shares a word stays whole: then the words
say nothing about it.

It saves tokens, and it can take out the very sentence that answers in other words.  So it is off
unless a reader turns it on.

Left out: compressing by meaning, and by a language model that writes the source anew, whose
sentences are then nobody's (Xu, Shi, Choi 2023, "RECOMP").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from raglab.retrieve.tokens import Tokenizer
from raglab.sentences import sentence_spans

GAP = "…"
_terms = Tokenizer(drop_stop_words=True)


def matching(query: str, text: str) -> str:
    """The text's sentences that share a stem with the query, in their order.

    >>> matching("How long do refunds take?", "A refund takes days. Call us. Forms exist.")
    'A refund takes days. …'
    """
    asked = set(_terms(query))
    return only(text, lambda start, end: not asked.isdisjoint(_terms(text[start:end])))


def only(text: str, stays: Callable[[int, int], bool]) -> str:
    """The sentences of the text of which `stays(start, end)` is true, headings and table heads;
    the whole text where it is true of none."""
    spans = sentence_spans(text)
    sentences = [text[start:end] for start, end in spans]
    shared = [stays(start, end) for start, end in spans]
    if not any(shared):
        return text
    kept = _with_heads(sentences, shared)
    pieces = []
    for held, group in groupby(range(len(spans)), key=lambda n: kept[n]):
        places = list(group)
        whole = text[spans[places[0]][0] : spans[places[-1]][1]]
        pieces.append(whole if held else GAP)
    # A table's row needs a line of its own; elsewhere a blank is enough.
    return ("\n" if "|" in text else " ").join(pieces)


def _with_heads(sentences: Sequence[str], shared: Sequence[bool]) -> list[bool]:
    """Adds headings, and the first row and the rule of each table of which a row is kept."""
    kept = [stays or text.startswith("#") for text, stays in zip(sentences, shared, strict=True)]
    head: list[int] = []
    for place, text in enumerate(sentences):
        if not text.startswith("|"):
            head = []
            continue
        if len(head) < 2:
            head.append(place)
        if shared[place]:
            for above in head:
                kept[above] = True
    return kept
