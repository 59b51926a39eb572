"""Which stage lost the answer: for each golden question the first thing that went wrong.

Debug in the order in which a pipeline works.  What an early stage lost, no later one brings back:

    not in the corpus   no document says it
    severed             no chunk holds a quote whole
    no access           the asker may not read the chunks that hold it
    past the limit      the quote stands behind the last word piece that the encoder reads
    not retrieved       it is in no retriever's list
    lost in fusion      it was in a list, and not in the fused one
    dropped by rerank   the reranker let it go, or put it below the cut from a place above it
    cut by keep         ranked too low for the prompt, before and after the rerank
    duplicate           merged into a source that lacks the quote
    over the budget     there was no room for it
    judged not relevant an agent read it, and left it out of its answer's context
    compressed away     its source is in the prompt, without the sentence
    refused             the context holds it, and the answer says that it does not
    wrong               the context holds it, and the answer says something else
    uncited             the answer is right, and names no source that holds the evidence
    right

A question that nothing answers was either *refused, as it should be*, or *answered from nothing*.

Of several quotes, the one that was lost first tells the story.  What decides about a lost chunk is
`raglab.fates`, the same that the Explorer asks.

Left out: two things wrong at once.  Mend the first, and the next one shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from raglab.evaluate.evidence import holds, shows
from raglab.evaluate.judge import Judge
from raglab.evaluate.outcomes import Outcome, cites_evidence, for_asker, outcomes, right
from raglab.fates import Wanted, all_chunks, first_loss, hits_of, holding, may_see, rank_in
from raglab.pipeline import Pipeline
from raglab.types import Chunk, Context, Document, Embedder, Evidence, Question

NOWHERE, SEVERED, BARRED, UNREAD = "not in the corpus", "severed", "no access", "past the limit"
UNFOUND, UNFUSED, DROPPED = "not retrieved", "lost in fusion", "dropped by rerank"
CUT, MERGED, OVER = "cut by keep", "duplicate", "over the budget"
IGNORED, SQUEEZED = "judged not relevant", "compressed away"
REFUSED, WRONG, UNCITED, RIGHT = "refused", "wrong", "uncited", "right"
LOST = (
    NOWHERE,
    SEVERED,
    BARRED,
    UNREAD,
    UNFOUND,
    UNFUSED,
    DROPPED,
    CUT,
    MERGED,
    OVER,
    IGNORED,
    SQUEEZED,
)
STAGES = (*LOST, REFUSED, WRONG, UNCITED, RIGHT)
REFUSED_WELL, ANSWERED = "refused, as it should be", "answered from nothing"
EVERY = (*STAGES, REFUSED_WELL, ANSWERED)
GOOD = (RIGHT, REFUSED_WELL)

Reads = Callable[[Chunk], int]
"""How many characters of a chunk's indexed text the encoder reads."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What became of a question: a stage of `EVERY`, and why in words."""

    query_id: str
    kind: str
    stage: str
    reason: str
    missed_by: tuple[str, ...] = ()  # the lists of retrieval that lack a quote of the evidence

    @property
    def in_context(self) -> bool:
        """Did all of the evidence reach the prompt? False where there is none."""
        return self.stage in (REFUSED, WRONG, UNCITED, RIGHT)


def reading(embedder: Embedder) -> Reads:
    """As far as this encoder reads: to the end of its last word piece."""

    def reads(chunk: Chunk) -> int:
        spans = embedder.spans(chunk.indexed_text)
        return (
            spans[embedder.limit - 1][1] if len(spans) > embedder.limit else len(chunk.indexed_text)
        )

    return reads


def attribute(
    pipeline: Pipeline,
    questions: Sequence[Question],
    documents: Sequence[Document],
    judge: Judge,
    embedder: Embedder,
    *,
    progress: bool = False,
) -> tuple[Attribution, ...]:
    """Asks every question, and says of each what went wrong first. The pipeline needs its kit."""
    reads, texts = reading(embedder), {one.doc_id: one.text for one in documents}
    made = outcomes(pipeline, questions, progress=progress)
    return tuple(attribution(pipeline, one, texts, judge, reads) for one in made)


def attribution(
    pipeline: Pipeline, outcome: Outcome, texts: Mapping[str, str], judge: Judge, reads: Reads
) -> Attribution:
    """Of one question. `texts`: doc_id -> the document's text; `pipeline` is the one that ran."""
    question, answer = outcome.question, outcome.trace.answer

    def said(stage: str, reason: str, missed: tuple[str, ...] = ()) -> Attribution:
        return Attribution(question.query_id, question.kind, stage, reason, missed)

    if not question.answerable or not question.evidence:
        if right(question, answer, judge):
            return said(REFUSED_WELL, "nothing answers it, and the answer says so")
        return said(ANSWERED, "nothing answers it, and yet there is an answer")
    mine = for_asker(pipeline, question)
    missed = _missed_by(outcome)
    context = outcome.trace.context
    gone = [quote for quote in question.evidence if not shows(context, quote)]
    if gone:
        fates = [_lost(mine, outcome, quote, texts, reads) for quote in gone]
        stage, reason = min(fates, key=lambda fate: LOST.index(fate[0]))
        return said(stage, reason, missed)
    if answer.refused:
        return said(REFUSED, "the context holds the evidence, and the answer is a refusal", missed)
    if not right(question, answer, judge):
        return said(WRONG, "the context holds the evidence, and the answer lacks it", missed)
    if not cites_evidence(outcome):
        return said(UNCITED, "right, and no source that it cites holds the evidence", missed)
    return said(RIGHT, "right, from a source that holds the evidence", missed)


def counts(attributions: Sequence[Attribution]) -> dict[str, int]:
    """stage -> how many questions, in the order of `EVERY`; a stage without any is left out.

    >>> counts([Attribution("q1", "table", RIGHT, ""), Attribution("q2", "table", SEVERED, "")])
    {'severed': 1, 'right': 1}
    """
    found = Counter(one.stage for one in attributions)
    return {stage: found[stage] for stage in EVERY if found[stage]}


def counts_by_kind(attributions: Sequence[Attribution]) -> dict[str, dict[str, int]]:
    """kind -> its counts, "all" last."""
    groups: dict[str, list[Attribution]] = {}
    for one in attributions:
        groups.setdefault(one.kind, []).append(one)
    return {kind: counts(group) for kind, group in (groups | {"all": list(attributions)}).items()}


def missed(attributions: Sequence[Attribution]) -> dict[str, int]:
    """list of retrieval -> the questions of which it lacks a quote.

    >>> one = Attribution("q1", "table", RIGHT, "", missed_by=("dense",))
    >>> missed([one, Attribution("q2", "table", UNFOUND, "", missed_by=("dense", "sparse"))])
    {'dense': 2, 'sparse': 1}
    """
    return dict(Counter(name for one in attributions for name in one.missed_by))


def context_recall_bound(attributions: Sequence[Attribution]) -> float | None:
    """The most that this system can answer: the share, from 0 to 1, of the questions with an answer
    whose evidence reached the prompt whole. None where no question has an answer.

    With a context recall of 60%, no generator answers more than 60% from its sources:

    >>> lost = [Attribution(f"q{n}", "table", UNFOUND, "") for n in (1, 2)]
    >>> there = [Attribution(f"q{n}", "table", RIGHT, "") for n in (3, 4)]
    >>> all_five = [*lost, *there, Attribution("q5", "table", REFUSED, "")]
    >>> context_recall_bound(all_five), answered_right(all_five)
    (0.6, 0.4)
    """
    known = [one for one in attributions if one.stage in STAGES]
    return sum(one.in_context for one in known) / len(known) if known else None


def answered_right(attributions: Sequence[Attribution]) -> float | None:
    """The share of the questions with an answer that are right, cited or not, with their evidence
    in the prompt. Never above `context_recall_bound`."""
    known = [one for one in attributions if one.stage in STAGES]
    return sum(one.stage in (RIGHT, UNCITED) for one in known) / len(known) if known else None


# -- one quote -----------------------------------------------------------------------------------


def _lost(
    pipeline: Pipeline, outcome: Outcome, quote: Evidence, texts: Mapping[str, str], reads: Reads
) -> tuple[str, str]:
    """The stage that lost a quote which is not in the prompt, and why."""
    if quote.quote not in texts.get(quote.doc_id, ""):
        return NOWHERE, f"{quote.doc_id} does not say it, or is not there"
    holders = holding((quote,), all_chunks(pipeline))
    if not holders:
        return SEVERED, f"no chunk of {quote.doc_id} holds the quote whole"
    seen = [chunk for chunk in holders if may_see(pipeline, chunk)]
    if seen and all(_unread(chunk, quote, reads) for chunk in seen):
        return UNREAD, f"{seen[0].chunk_id} holds it behind what the encoder reads"
    loss = first_loss(pipeline, outcome.trace, Wanted(quotes=(quote,)))
    if loss is None:  # its chunk is in the prompt
        return SQUEEZED, f"what the prompt holds of {quote.doc_id} was compressed"
    reason = f"{loss.chunk_id}: {loss.reason}" if loss.chunk_id else loss.reason
    if loss.access:
        return BARRED, loss.reason
    if loss.stage == "assemble":
        starts = {"duplicate": MERGED, "same section": MERGED, "over the budget": OVER}
        starts |= {IGNORED: IGNORED}
        stage = next((to for start, to in starts.items() if loss.reason.startswith(start)), CUT)
        was = rank_in(outcome.trace.ranking("fused"), loss.chunk_id)
        if stage == CUT and was and was <= _keep(outcome.trace.context):
            return DROPPED, f"{reason}; rank {was} in fused"
        return stage, reason
    return {"retrieve": UNFOUND, "fuse": UNFUSED}.get(loss.stage, DROPPED), reason


def _keep(context: Context) -> int:
    """How many hits assembly looked at: all before the first that it says was cut."""
    return min((d.hit.rank for d in context.dropped if ", cut at " in d.reason), default=1) - 1


def _unread(chunk: Chunk, quote: Evidence, reads: Reads) -> bool:
    """Does the quote begin behind the last character that the encoder reads of the chunk?"""
    at = chunk.indexed_text.find(quote.quote, len(chunk.indexed_text) - len(chunk.text))
    return at >= 0 and at >= reads(chunk)


def _missed_by(outcome: Outcome) -> tuple[str, ...]:
    """The lists of retrieval of which no chunk holds some quote."""
    return tuple(
        step.name
        for step in outcome.trace.last_round().stage("retrieve")
        if not all(
            any(holds(hit.chunk, quote) for hit in hits_of(step))
            for quote in outcome.question.evidence
        )
    )
