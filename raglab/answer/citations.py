"""Citations: how a sentence says what it stands on, and what can be checked without judging.

A model is asked to write one sentence a line, each followed by what supports it, a source's number
and a short quote from it:

    An approved refund takes five days. [2: "within five business days"]

So each claim can be looked up.  `check` marks what is wrong with an answer as it stands:

    unknown source    a number that was never given
    no citation       a sentence that names no source
    no quote          a mark without words from the source, such as [2]
    not in source     a quote that its source does not hold
    nothing shared    no word of the sentence stands in the source that it cites

White space and the kind of quotation mark may differ between a quote and its source; nothing else.

Left out: whether the source *supports* the sentence.  A quote may be there and prove nothing: a
citation says where something stands, not that it answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.sax.saxutils import unescape

from raglab.retrieve.tokens import Tokenizer
from raglab.sentences import sentence_spans
from raglab.types import Answer, Chunk, Citation, Context, Sentence

_MARK = re.compile(
    r'\[(?P<one>\d{1,6}): "(?P<quote>[^\n]+?)"\](?=$|[\s.,;:!?\[])'  # [2: "within five days"]
    r"|\[(?P<bare>\d{1,6}(?:\s*,\s*\d{1,6})*)\]"  # [2] or [2, 3]
)
_KINDS = ("'‘’‚‛", '"“”„‟')  # quotation marks that count as one
_terms = Tokenizer(drop_stop_words=True)

UNKNOWN, UNCITED, UNQUOTED = "unknown source", "no citation", "no quote"
MISQUOTED, UNRELATED = "not in source", "nothing shared"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a sentence of an answer."""

    sentence: int  # its place in the answer, from 1
    kind: str  # one of the kinds above
    words: str
    number: int = 0  # of the citation that is meant, if one is


# -- reading a reply ------------------------------------------------------------------------------


def read_sentences(reply: str, context: Context) -> tuple[Sentence, ...]:
    r"""The sentences of a reply, each with all that it cites, numbers that were never given too.

    A line ends a sentence.  A mark belongs to the sentence that it stands in or behind.  One
    without a quote, such as [2], is taken as it is, with an empty quote.

    >>> read_sentences('It takes a day. [1: "one day"]\nOr two [3].', Context("", (), (), 0, 0))[1]
    Sentence(text='Or two.', citations=(Citation(number=3, chunk_id='', quote=''),))
    """
    text, marks = _without_marks(re.sub(r"\s*\n\s*", "\n\n", reply.strip()))
    spans = sentence_spans(text)
    cited: list[dict[Citation, None]] = [{} for _ in spans]  # each once, in their order
    for place, number, quote in marks:
        at = next((n for n, (_, end) in enumerate(spans) if place <= end), len(spans) - 1)
        if spans:
            cited[at][_citation(number, quote, context)] = None
    return tuple(
        Sentence(text[start:end], tuple(found))
        for (start, end), found in zip(spans, cited, strict=True)
    )


def _without_marks(reply: str) -> tuple[str, list[tuple[int, int, str]]]:
    """The reply without its marks; of each the place where it stood, the number and the quote."""
    text, marks, at = "", [], 0
    for found in _MARK.finditer(reply):
        text = (text + reply[at : found.start()]).rstrip()
        at = found.end()
        numbers = (found["one"] or found["bare"]).split(",")
        marks += [(len(text), int(number), found["quote"] or "") for number in numbers]
        if reply[at : at + 1].isalnum():
            text += " "
    return text + reply[at:], marks


def _citation(number: int, quote: str, context: Context) -> Citation:
    """With the quote as it stands in its source, where it is there."""
    if not 1 <= number <= len(context.kept):
        return Citation(number, "", quote)
    chunk = context.kept[number - 1].chunk
    # The model read the source with its "<" escaped, and may have copied that.
    for wording in (quote, unescape(quote)):
        if span := located(wording, chunk.shown):
            return Citation(number, chunk.chunk_id, chunk.shown[slice(*span)])
    return Citation(number, chunk.chunk_id, quote)


def located(quote: str, text: str) -> tuple[int, int] | None:
    r"""Where the quote stands in the text, whatever its white space and quotation marks.

    >>> located('the  "free" plan', "Of the\n“free” plan")
    (3, 18)
    >>> located("the Free plan", "the free plan"), located(" ", "a b")
    (None, None)
    """
    words = [_any_mark(re.escape(word)) for word in quote.split()]
    found = re.search(r"\s+".join(words), text) if words else None
    return found.span() if found else None


def _any_mark(pattern: str) -> str:
    for kinds in _KINDS:
        pattern = re.sub(f"[{kinds}]", f"[{kinds}]", pattern)
    return pattern


def said(answer: Answer) -> tuple[Sentence, ...]:
    """The answer, sentence by sentence; read from its text where the generator did not say."""
    if answer.sentences or answer.refused:
        return answer.sentences
    repeated = " ".join(f"{one.quote} [{one.number}]" for one in answer.citations)
    if answer.text == repeated:  # it repeats what it quotes, and nothing else
        return tuple(Sentence(one.quote, (one,)) for one in answer.citations)
    known = {one.number: one for one in answer.citations}
    return tuple(
        replace(
            sentence,
            citations=tuple(known.get(one.number, one) for one in sentence.citations),
        )
        for sentence in read_sentences(answer.text, Context("", (), (), 0, 0))
    )


# -- checking an answer ---------------------------------------------------------------------------


def check(answer: Answer, context: Context) -> tuple[Finding, ...]:
    """What is wrong with the answer, in the order of its sentences. A refusal has nothing wrong."""
    if answer.refused:
        return ()
    return tuple(
        finding
        for place, sentence in enumerate(said(answer), start=1)
        for finding in _wrong(place, sentence, context)
    )


def _wrong(place: int, sentence: Sentence, context: Context) -> Iterator[Finding]:
    if not sentence.citations:
        yield Finding(place, UNCITED, "This sentence cites no source.")
    for one in sentence.citations:
        if not 1 <= one.number <= len(context.kept):
            given = f"the sources are [1] to [{len(context.kept)}]" if context.kept else "none was"
            yield Finding(place, UNKNOWN, f"[{one.number}] was never given: {given}.", one.number)
            continue
        chunk = context.kept[one.number - 1].chunk
        if not one.quote.strip():
            words = f"[{one.number}] comes without a quote, so it cannot be looked up."
            yield Finding(place, UNQUOTED, words, one.number)
        elif not located(one.quote, chunk.shown):
            words = f"[{one.number}], {chunk.chunk_id}, does not hold “{one.quote}”."
            yield Finding(place, MISQUOTED, words, one.number)
        if not shares(sentence.text, chunk):
            words = f"No word of this sentence stands in [{one.number}], {chunk.chunk_id}."
            yield Finding(place, UNRELATED, words, one.number)


def shares(sentence: str, chunk: Chunk) -> bool:
    """Does a word of the sentence, stop words aside, stand in the chunk or above it?

    A sentence of stop words alone has nothing to share, and passes.
    """
    own = set(_terms(sentence))
    held = set(_terms(f"{chunk.title} {chunk.heading} {chunk.shown}"))
    return not own or not own.isdisjoint(held)
