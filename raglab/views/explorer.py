"""The Explorer: a live pipeline to play with.

    Explorer(pipeline, questions)

Ask a question, step through the stages, turn a dial and see what it changes, set a second pipeline
beside the first, predict before you look, and ask of any chunk why it is not in the prompt.

All state lives in traits, so whatever a reader does by hand can be done from Python too.  The
drawing is the flow's; this module asks the pipeline, and passes on what it answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import traitlets

from raglab.explore.aside import Aside
from raglab.explore.dials import dials, idle
from raglab.explore.lines import lines
from raglab.explore.surprise import kinds, surprise
from raglab.explore.whynot import WhyNot, change, rescuing_dials, why_not
from raglab.fates import Wanted, missing
from raglab.files import write_whole
from raglab.kit import Kit, Value
from raglab.learn import Attempt, KnobChallenge, Progress, judge, judge_knob, order_challenge
from raglab.pipeline import Pipeline
from raglab.types import Question, RagLabError
from raglab.views.changes import changes, in_words
from raglab.views.explorerasked import answer
from raglab.views.explorerpage import SCRIPT, STYLE, page
from raglab.views.explorerrun import Run, ask, compared, cut_differently
from raglab.views.explorershown import by_kind, challenges, knob_question, shown_dial
from raglab.views.figures import flow_svg
from raglab.views.flow import Flow
from raglab.views.model import Model

EMPTY = "The query is empty: type a question, then press Enter."
FIRST = "What can I ask here?"


class Explorer(Flow):
    """A pipeline, asked again and again. `questions` are golden ones, to choose from."""

    _esm = SCRIPT
    _css: Any = STYLE

    title = traitlets.Unicode("Explorer").tag(sync=True)
    idle: Any = traitlets.List().tag(sync=True)  # knobs that turn nothing now
    presets = traitlets.Dict().tag(sync=True)  # name -> whole settings
    kinds: Any = traitlets.List().tag(sync=True)  # golden questions, by kind
    surprises: Any = traitlets.List().tag(sync=True)
    undoable = traitlets.Int(0).tag(sync=True)  # how many steps back there are
    comparing = traitlets.Bool(False).tag(sync=True)
    other = traitlets.Dict().tag(sync=True)  # the second pipeline's flow_model
    other_settings = traitlets.Dict().tag(sync=True)
    other_idle: Any = traitlets.List().tag(sync=True)
    difference = traitlets.Unicode("").tag(sync=True)
    predicting = traitlets.Bool(False).tag(sync=True)
    challenges = traitlets.Dict().tag(sync=True)
    guess = traitlets.Dict().tag(sync=True)  # {place, order}
    reveal = traitlets.Dict().tag(sync=True)
    score = traitlets.Unicode("").tag(sync=True)
    knob_question = traitlets.Dict().tag(sync=True)
    knob_guess = traitlets.Unicode("").tag(sync=True)
    whynot = traitlets.Dict().tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)  # of a search, from 0 to 1

    def __init__(
        self,
        pipeline: Pipeline,
        questions: Sequence[Question] = (),
        *,
        query: str = "",
        progress: Progress | None = None,
    ) -> None:
        self._opened = pipeline
        self._questions = {question.text: question for question in questions}
        self._kept = progress or Progress()
        self._tries: dict[str, int] = {}  # surprise -> how often it was asked for
        self._searched = Aside(pipeline.memo, 4096)  # what surprises ran: no question runs twice
        self._past: list[tuple[str, dict[str, Value]]] = []
        self._undoing = False
        self._failed = False  # the last turn did not run: the picture is of `_now` still
        found = dials(pipeline)
        settings: dict[str, Value] = {dial.name: dial.value for dial in found}
        first = query or next(iter(self._questions), FIRST)
        self._run = ask(pipeline, settings, first, self._questions)
        self._other: Run | None = None
        kit = pipeline.kit or Kit()
        super().__init__(
            self._run.trace,
            data=self._run.model,
            query=first,
            knobs=[shown_dial(dial) for dial in found],
            settings=settings,
            idle=list(idle(self._run.pipeline, pipeline)),
            presets={name: {**settings, **preset} for name, preset in kit.presets.items()},
            kinds=by_kind(questions),
            surprises=self._surprises(),
            other_settings={**settings, **next(iter(kit.presets.values()), {})},
            score=self._kept.words(),
        )
        self._now = (first, settings)
        self.observe(self._ask, names=["query", "settings"])
        self.observe(self._compare, names=["comparing", "other_settings"])
        self.observe(self._challenge, names=["predicting"])
        self.observe(self._judge, names=["guess"])
        self.observe(self._judge_knob, names=["knob_guess"])
        self.on_msg(self._heard)

    # -- asking ------------------------------------------------------------------------------------

    def _ask(self, change: object) -> None:
        asked = (self.query, dict(self.settings))
        if asked == self._now and not self._failed:
            return  # both traits came in one message, and the first of them ran already
        if not self.query.strip():
            self._not_run(EMPTY)
            return
        try:
            with self._working():
                run = ask(self._opened, self.settings, self.query, self._questions)
        except Exception as error:  # whatever a stage raises is told, and the last picture stays
            self._not_run(in_words(error))
            return
        if asked != self._now and not self._undoing:
            self._past.append(self._now)
        self._now, self._failed = asked, False
        self._show(run)

    def _not_run(self, words: str) -> None:
        """The picture stays as it was, and undo goes back to what it shows."""
        self._failed = True
        self.status, self.undoable = words, len(self._past) + 1

    def _show(self, run: Run) -> None:
        before, self._run = self._run, run
        with self.hold_sync():
            if self.predicting:
                self.status = "Another run: predict what it found."  # what changed would tell it
            elif cut_differently(run, before):
                kept, tokens = len(run.trace.context.kept), run.trace.context.tokens
                self.status = (
                    f"The documents are cut in another way: these are other chunks. {kept} of "
                    f"them are in the prompt, with {tokens:,} tokens."
                )
                self.selected = ""
            else:
                self.status = changes(before.model, run.model)
            self.step = min(self.step, len(run.model["stages"]) - 1)
            self.idle = list(idle(run.pipeline, self._opened))
            self.surprises = self._surprises()
            self.undoable = len(self._past)
            self.whynot = {}
            self.data = run.model
            self._challenge()
            if self.comparing:
                self._compare()

    def undo(self) -> None:
        """Back to the query and settings before the last change; nothing where there is none."""
        if not self._failed and not self._past:
            self.status = "There is nothing to undo."
            return
        query, settings = self._now if self._failed else self._past.pop()
        self._undoing = True
        try:
            with self.hold_trait_notifications():
                self.query, self.settings = query, settings
        finally:
            self._undoing = False
        self.undoable = len(self._past)

    def surprise(self, kind: str, *, ask: bool = False) -> None:
        """Asks a golden question that has this property now, with the dials as they stand.

        ask: put each question to a live model where the pipeline has one."""
        tries = self._tries.get(kind, 0)
        self._tries[kind] = tries + 1
        try:
            with self._working():
                found = surprise(
                    self._run.pipeline,
                    tuple(self._questions.values()),
                    kind,
                    seed=tries,
                    ask=ask,
                    memo=self._searched,
                    on_progress=self._tell,
                )
        except RagLabError as error:
            self.status = in_words(error)
            return
        if found.question:
            with self.hold_trait_notifications():
                self.query, self.settings = found.question.text, self._now[1]
            if self._failed:
                return  # what went wrong is told already
        self.status = found.said

    def _surprises(self) -> list[Model]:
        there = kinds(self._run.pipeline) if self._questions else {}
        return [{"name": name, "label": label} for name, label in there.items()]

    # -- a second pipeline beside the first --------------------------------------------------------

    def _compare(self, change: object = None) -> None:
        if not self.comparing:
            self._other = None
            with self.hold_sync():
                self.data, self.other, self.difference = self._run.model, {}, ""
            return
        try:
            with self._working():
                other = ask(self._opened, self.other_settings, self._now[0], self._questions)
        except Exception as error:
            self._other = None
            with self.hold_sync():
                self.data, self.other, self.difference = self._run.model, {}, ""
                self.status = in_words(error).replace("This did not run", "B did not run", 1)
            return
        self._other = other
        a, b, words = compared(self._run, other)
        with self.hold_sync():
            self.other_idle = list(idle(other.pipeline, self._opened))
            self.data, self.other, self.difference = a, b, words

    # -- predict, then reveal ----------------------------------------------------------------------

    def _challenge(self, change: object = None) -> None:
        asked = self.predicting
        with self.hold_sync():
            self.challenges = challenges(self._run) if asked else {}
            self.knob_question = knob_question(self._run, self._opened) if asked else {}
            self.knob_guess = ""
            self.guess, self.reveal = {}, {}  # the same guess of another run is another guess

    def _judge(self, change: object) -> None:
        challenge = self.challenges.get(str(self.guess.get("place")))
        if challenge is None:
            return
        try:
            made = order_challenge(self._run.trace, challenge["step"], self._run.evidence)
            if made is None:
                raise RagLabError(f"there is nothing to predict at {challenge['step']}")
            judged = judge(made, tuple(self.guess["order"]))
        except Exception as error:
            self.status = in_words(error)
            return
        self._record("order", made.step, judged.score)
        self.reveal = {
            "place": str(self.guess["place"]), "words": judged.words, "score": judged.score,
            "right": judged.right, "pairs": judged.pairs,
        }  # fmt: skip

    def _judge_knob(self, change: object) -> None:
        if not (self.knob_guess and self.knob_question):
            return
        found = self.why_not()
        if found is None:
            self.knob_guess = ""
            return
        options = self.knob_question["options"]
        label = self.knob_guess
        if label == "Rewriter" and label not in rescuing_dials(found) and found.skipped:
            said = f"This cannot be judged here: {'; '.join(found.skipped)}."
        else:
            truth = tuple(one for one in rescuing_dials(found) if one in options)
            made = KnobChallenge(self.knob_question["question"], tuple(options), truth)
            judged = judge_knob(made, label)
            self._record("knob", "context", judged.score)
            said = judged.words
        self.whynot = {**self.whynot, "guess": said}

    def _record(self, kind: str, what: str, score: float) -> None:
        self._kept.record(Attempt.now(kind, what, self._run.trace.query.text, score))
        self.score = self._kept.words()

    # -- why not this one? -------------------------------------------------------------------------

    def why_not(self, chunk_id: str = "", *, sizes: bool = False) -> WhyNot | None:
        """Which stage lost a chunk, and which one dial would have kept it; without an id, of the
        evidence that the prompt lacks. With `sizes` other chunk sizes are tried too, each of which
        may need an index built. The finding is in `whynot` too."""
        wanted = self._wanted(chunk_id)
        if wanted is None:
            return None
        try:
            with self._working():
                found = why_not(
                    self._opened,
                    self._now[1],
                    self._run.trace.query,
                    wanted,
                    sizes=sizes,
                    on_progress=self._tell,
                )
        except Exception as error:
            self._no_finding(chunk_id, in_words(error))
            return None
        lost = found.loss is not None and not found.loss.access
        self.whynot = {
            "chunk": chunk_id,
            "words": found.words,
            "tried": found.tried,
            "skipped": list(found.skipped),
            "sizes": lost and not chunk_id and not sizes and len(self._sizes) > 1,
            "rescues": [
                {
                    "dial": one.dial, "label": one.label, "was": one.was, "value": one.value,
                    "words": f"{change(one)}.", "access": one.access,
                }
                for one in found.rescues
            ],
        }  # fmt: skip
        return found

    def _wanted(self, chunk_id: str) -> Wanted | None:
        if chunk_id:
            return Wanted(chunk_id)
        question = self._run.question
        if question is None or not question.evidence:
            self._no_finding(
                "", "This is no golden question: no chunk is known to hold its answer."
            )
            return None
        wanted = missing(question, self._run.trace.context)
        if wanted is None:
            self._no_finding("", "All the evidence for this question is in the prompt.")
        return wanted

    def _no_finding(self, chunk_id: str, words: str) -> None:
        """Said in the panel too, which waits for an answer."""
        self.status = words
        self.whynot = {
            "chunk": chunk_id, "words": words, "tried": 0, "skipped": [], "sizes": False,
            "rescues": [],
        }  # fmt: skip

    @property
    def _sizes(self) -> Sequence[str]:
        return tuple((self._opened.kit or Kit()).sizes)

    # -- sharing -----------------------------------------------------------------------------------

    def page(self) -> str:
        """All that is shown now, as one page that works from a file with no kernel."""
        return page(self, self._run, self._other)

    def export_html(self, path: Path | str) -> Path:
        """Write the page."""
        return write_whole(path, self.page())

    def svg(self) -> str:
        """The picture's last state as a standalone SVG."""
        return flow_svg(self.data)

    def code(self) -> str:
        """The Python lines that rebuild this very pipeline and ask this query."""
        return lines(self._opened, self._now[1], self._run.trace.query)

    @property
    def shown_settings(self) -> dict[str, Value]:
        """The dials of the run that is shown; `settings` may hold a turn that did not run."""
        return self._now[1]

    @property
    def trace(self) -> Any:
        """The run that is shown, as data: `trace.save(path)`, `Trace.load(path)`."""
        return self._run.trace

    # -- what the widget's script asks for ---------------------------------------------------------

    def _heard(self, widget: object, content: dict[str, Any], buffers: object) -> None:
        try:
            answer(self, content)
        except Exception as error:
            self.status = in_words(error)

    def run_of(self, side: str) -> Run:
        """The run of pipeline "a" or "b". Raises RagLabError where there is no second one."""
        if side != "b":
            return self._run
        if self._other is None:
            raise RagLabError("there is no second pipeline: compare first")
        return self._other

    # -- small things ------------------------------------------------------------------------------

    def _tell(self, done: int, total: int) -> None:
        self.progress = round(done / max(1, total), 2)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """While it lasts the widget says that it is busy."""
        self.busy = True
        try:
            yield
        finally:
            self.busy, self.progress = False, 0.0

    def __repr__(self) -> str:
        return super().__repr__().replace("Flow(", "Explorer(", 1)
