"""Where sentences end: a rule that a reader can hold in the head.

A sentence ends at `.`, `!` or `?` (or a full-width one), with any closing quotes, where white
space follows and the next word does not start in lower case.  A line break ends one too where
lines stand for themselves: table rows, list items, headings, code.  Known abbreviations do not
end a sentence.

Left out: everything that a statistical splitter knows.  "Dr. No" is one sentence here, because
"Dr." is listed; an unlisted abbreviation before a capital splits in two.
"""

from __future__ import annotations

import re
from itertools import pairwise

_END = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[^\sa-z])|(?<=[。！？])")
_LINE = re.compile(
    r"^[ \t]*#{1,6}[ \t].*\n"  # a heading
    r"|\n(?=\s*(?:[|#>*+-]|\d+[.)]\s|```))"  # before a table row, list item, quote, heading, code
    r"|(?<=\|)\n|\n\s*\n",  # after a table row; between paragraphs
    re.MULTILINE,
)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|et al|etc|Dr|Mr|Ms|Mrs|No|Fig|approx)\.)$")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the sentences, white space between them left out.

    >>> text = "RRF adds ranks, e.g. 1/61. It needs no scores."
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['RRF adds ranks, e.g. 1/61.', 'It needs no scores.']
    """
    cuts = {0, len(text)}
    cuts.update(match.end() for match in _LINE.finditer(text))
    for match in _END.finditer(text):
        if not _ABBREVIATION.search(text, max(0, match.start() - 12), match.start()):
            cuts.add(match.end())
    ordered = sorted(cuts)
    spans = []
    for start, end in pairwise(ordered):
        piece = text[start:end]
        lead = len(piece) - len(piece.lstrip())
        body = piece.strip()
        if body:
            spans.append((start + lead, start + lead + len(body)))
    return spans
