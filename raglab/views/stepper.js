// The stepper: Previous, Play, Next, and a button for each stage.
// `at()` is the stage that is shown, `goTo(place)` asks for another, `draw` shows where they are.

const PACE = 1400; // milliseconds a stage, when played

function stepper({ stages, at, goTo }) {
  let playing = 0;
  const last = () => stages().length - 1;
  const to = (place) => {
    stop();
    goTo(Math.max(0, Math.min(last(), place)));
  };
  const prev = button("Previous", () => to(at() - 1));
  const play = button("Play", () => (playing ? stop() : start()), { class: "rl-play" });
  const next = button("Next", () => to(at() + 1));
  const steps = element("ol", { class: "rl-steps", "aria-label": "Stages" });
  const says = element("p", { class: "rl-says" });
  const el = element(
    "div",
    { class: "rl-bar", role: "group", "aria-label": "Steps", onkeydown: onKey },
    prev,
    play,
    next,
    steps,
  );

  function start() {
    if (at() === last()) goTo(0);
    playing = setInterval(() => {
      const before = at();
      goTo(before + 1);
      if (at() === last() || at() === before) stop(); // at the end, or something holds it back
    }, PACE);
    play.textContent = "Pause";
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = { ArrowLeft: at() - 1, ArrowRight: at() + 1, Home: 0, End: last() }[event.key];
    if (place === undefined) return;
    event.preventDefault();
    to(place);
    if (document.activeElement.disabled || document.activeElement === document.body) play.focus();
    else if (steps.contains(document.activeElement)) steps.children[at()].firstChild.focus();
  }

  function draw() {
    if (steps.children.length !== stages().length)
      steps.replaceChildren(
        ...stages().map((stage) => element("li", {}, button(stage.title, () => to(stage.place)))),
      );
    [...steps.children].forEach((item, place) => {
      item.firstChild.textContent = stages()[place].title;
      item.classList.toggle("rl-done", place <= at());
      if (place === at()) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    });
    prev.disabled = at() === 0;
    next.disabled = at() === last();
    const stage = stages()[at()];
    says.replaceChildren(
      element("strong", {}, `${at() + 1} of ${last() + 1}, ${stage.title}: `),
      stage.says,
    );
  }

  return { el, says, draw, stop };
}
