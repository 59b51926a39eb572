"""Panels for the prompt and the answer: what is sent, and what stands on what.

Each function takes what it draws as values and callables, so this module knows no generator and no
rule by which an answer is checked.  Who takes the tokens is drawn in `budgetview.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Protocol

from markupsafe import Markup

from raglab.types import Answer, Context, Hit, Sentence
from raglab.views.bars import SOFT, tint
from raglab.views.budgetview import budget_drawing, budget_panel
from raglab.views.panel import Drawing, Knob, Panel
from raglab.views.plots import side

__all__ = [
    "answers_panel", "budget_drawing", "budget_panel", "citation_drawing", "citation_panel",
    "prompt_drawing", "prompt_panel",
]  # fmt: skip

WRONG = "var(--evidence, #a84300)"
BOX = "border:1px solid var(--edge, #d5dae0);border-radius:6px;padding:6px 10px;margin:6px 0"
LETTERS = (
    "white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:12px/1.5 ui-monospace,monospace"
)


class Found(Protocol):
    """Something wrong with a sentence of an answer; `sentence` counts from 1."""

    @property
    def sentence(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def words(self) -> str: ...


# -- the prompt -----------------------------------------------------------------------------------


def prompt_panel(
    assemble: Callable[[str], Context],
    prompts: Mapping[str, Callable[[str, Context], tuple[str, str]]],
    query: str,
) -> Panel:
    """The exact prompt. `prompts[name](query, context)` gives the rules and what is sent below."""

    def draw(query: str, prompt: str) -> Drawing:
        context = assemble(query)
        return prompt_drawing(*prompts[prompt](query, context), context)

    knobs = (
        Knob("query", "Query", query),
        Knob("prompt", "Prompt", next(iter(prompts)), choices=tuple(prompts)),
    )
    return Panel("The exact prompt", draw, knobs)


def prompt_drawing(system: str, prompt: str, context: Context) -> Drawing:
    """Rules and prompt, letter for letter; each source lights up with its chunk beside it."""
    rules = _letters(system, "the rules") if system else Markup("<p>No rules are sent.</p>")
    parts = Markup("").join(
        _letters(text, f"source {name}" if name else "", name)
        for name, text in _blocks(prompt, context)
        if text.strip()
    )
    chunks = Markup("").join(
        Markup('<li data-key="{}" tabindex="0" style="{}">[{}] <b>{}</b><br>{}</li>').format(
            hit.chunk.chunk_id, BOX, n, hit.chunk.chunk_id, hit.chunk.heading
        )
        for n, hit in enumerate(context.kept, start=1)
    )
    words = (
        f"{len(system):,} characters of rules, then {len(prompt):,} with {len(context.kept)} "
        f"source{'' if len(context.kept) == 1 else 's'}. "
    )
    fenced = bool(context.text) and context.text in prompt
    words += "Each source stands between tags." if fenced else "Nothing tells a source from a rule."
    return Drawing(side(rules + parts, Markup("<ol>{}</ol>").format(chunks)), words)


def _letters(text: str, title: str, key: str = "") -> Markup:
    head = Markup('<small style="color:{}">{}</small>').format(SOFT, title) if title else ""
    return Markup('<div data-key="{}" style="{}">{}<pre style="{}">{}</pre></div>').format(
        key or title or "the question", BOX, head, LETTERS, text.strip("\n")
    )


def _blocks(prompt: str, context: Context) -> list[tuple[str, str]]:
    """(chunk id or nothing, text): the prompt in pieces that join to the whole."""
    fenced = context.text in prompt
    edges = [(0, 0, "")]
    for n, hit in enumerate(context.kept, start=1):
        begin = prompt.find(f'<source number="{n}"' if fenced else hit.chunk.shown)
        end = prompt.find("</source>", begin) + 9 if fenced else begin + len(hit.chunk.shown)
        if begin >= edges[-1][1]:
            edges.append((begin, end, hit.chunk.chunk_id))
    pieces = []
    for (_, before, _), (begin, end, name) in pairwise([*edges, (len(prompt), len(prompt), "")]):
        pieces += [("", prompt[before:begin]), (name, prompt[begin:end])]
    return [(name, text) for name, text in pieces if text]


# -- the citations --------------------------------------------------------------------------------


def citation_panel(answer: Answer, context: Context, findings: Sequence[Found] = ()) -> Panel:
    """A sentence lights up with the words that it quotes; what is wrong with it stands below."""
    return Panel("What stands on what", lambda: citation_drawing(answer, context, findings), ())


def answers_panel(
    ask: Callable[[str], tuple[Answer, Context, Sequence[Found]]], questions: Sequence[str]
) -> Panel:
    """The same for several questions, one at a time."""
    return Panel(
        "What stands on what",
        lambda question: citation_drawing(*ask(question)),
        (Knob("question", "Question", questions[0], choices=tuple(questions)),),
    )


def citation_drawing(answer: Answer, context: Context, findings: Sequence[Found] = ()) -> Drawing:
    """Sentences on the left, the sources that they cite on the right."""
    sentences = answer.sentences or (Sentence(answer.text, answer.citations),)
    cited = sorted({one.number for sentence in sentences for one in sentence.citations})
    given = [n for n in cited if 1 <= n <= len(context.kept)]
    left = Markup("").join(
        _sentence(n, sentence, [found for found in findings if found.sentence == n])
        for n, sentence in enumerate(sentences, start=1)
    )
    right = Markup("").join(_source(n, context.kept[n - 1], sentences) for n in given)
    others = [n for n in range(1, len(context.kept) + 1) if n not in given]
    if others:
        named = ", ".join(f"[{n}] {context.kept[n - 1].chunk.chunk_id}" for n in others)
        right += Markup('<p style="color:{}">Not cited: {}</p>').format(SOFT, named)
    picture = side(Markup("<ol>{}</ol>").format(left), right)
    return Drawing(picture, _told(answer, sentences, given, findings))


def _told(
    answer: Answer, sentences: Sequence[Sentence], given: Sequence[int], findings: Sequence[Found]
) -> str:
    origin = f"Origin: {answer.origin}."
    if answer.refused:
        return f"A refusal: it claims nothing, so there is nothing to check. {origin}"
    count = sum(len(sentence.citations) for sentence in sentences)
    words = (
        f"{_many(len(sentences), 'sentence')}, {_many(count, 'citation')} "
        f"of {_many(len(given), 'source')}. "
    )
    if not findings:
        return f"{words}Nothing was found wrong. {origin}"
    told = "; ".join(f"sentence {found.sentence}, {found.kind}" for found in findings)
    return f"{words}Found wrong: {told}. {origin}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _sentence(n: int, sentence: Sentence, findings: Sequence[Found]) -> Markup:
    marks = Markup("").join(
        Markup(' <span data-key="source {}" style="color:{};font-weight:600">[{}]</span>').format(
            number, tint(0), number
        )
        for number in dict.fromkeys(one.number for one in sentence.citations)
    )
    wrong = Markup("").join(
        Markup('<br><span style="color:{}"><b>✕ {}.</b> {}</span>').format(
            WRONG, found.kind.capitalize(), found.words
        )
        for found in findings
    )
    return Markup(
        '<li data-key="sentence {}" tabindex="0" style="{};border-left:4px solid {}">'
        '<small style="color:{}">S{}</small> <bdi>{}</bdi>{}{}</li>'
    ).format(n, BOX, tint(n - 1), SOFT, n, sentence.text, marks, wrong)


def _source(number: int, hit: Hit, sentences: Sequence[Sentence]) -> Markup:
    """The source's text; what is quoted carries the keys of the sentences that quote it."""
    text = hit.chunk.shown
    at: list[tuple[int, ...]] = [()] * len(text)  # a letter -> the sentences that quote it
    for n, sentence in enumerate(sentences, start=1):
        for one in sentence.citations:
            begin = text.find(one.quote) if one.number == number and one.quote.strip() else -1
            for place in range(begin, begin + len(one.quote) if begin >= 0 else begin):
                at[place] = tuple(dict.fromkeys((*at[place], n)))
    pieces = Markup("").join(
        _piece(text[run[0] : run[-1] + 1], quoting)
        for quoting, run in ((k, list(g)) for k, g in groupby(range(len(text)), at.__getitem__))
    )
    return Markup(
        '<div data-key="source {}" tabindex="0" style="{}"><small style="color:{}">[{}] {}, {}'
        '</small><div style="white-space:pre-wrap;overflow-wrap:anywhere">{}</div></div>'
    ).format(number, BOX, SOFT, number, hit.chunk.chunk_id, hit.chunk.heading, pieces)


def _piece(text: str, quoting: Sequence[int]) -> Markup:
    if not quoting:
        return Markup("{}").format(text)
    inner = Markup(
        '<mark style="color:inherit;background:color-mix(in srgb, {} 26%, transparent);'
        'border-bottom:2px solid {}">{}</mark>'
    ).format(tint(quoting[0] - 1), tint(quoting[0] - 1), text)
    for n in quoting:
        inner = Markup('<span data-key="sentence {}">{}</span>').format(n, inner)
    names = " ".join(f"S{n}" for n in quoting)
    return inner + Markup('<sup style="color:{}"> {}</sup>').format(SOFT, names)
