// The Explorer: what the reader asks and turns, the stepper, one picture or two, and the panels.
// State lives in the model's traits.  A panel is a function of `ctx`, which is all that it knows.

function explorerContext(model, live) {
  const cleanups = [];
  const acts = { word: [], selected: [] };
  let sideChosen = "a";
  const on = (event, act) => {
    model.on(event, act);
    cleanups.push(() => model.off(event, act));
  };
  const again = () => acts.selected.forEach((act) => act());
  const ctx = {
    model,
    offline: Boolean(model.get("offline")),
    put(name, value) {
      model.set(name, value);
      model.save_changes();
    },
    send(content) {
      if (!ctx.offline) model.send(content);
    },
    // Several traits may come in one message: what watches them acts once, when all are there.
    watch(names, act) {
      let asked = false;
      const soon = () => {
        if (asked) return;
        asked = true;
        queueMicrotask(() => {
          asked = false;
          if (!ctx.gone) act();
        });
      };
      for (const name of names) on(`change:${name}`, soon);
      if (names.includes("selected")) acts.selected.push(soon);
    },
    onMessage: (act) => on("msg:custom", (content) => act(content)),
    announce(words) {
      live.textContent = words;
    },
    choose(id, side = "a") {
      const turned = id && id === model.get("selected");
      sideChosen = side;
      if (turned) again(); // of the other run, or cited once more
      else ctx.put("selected", id);
    },
    data: (side = "a") => model.get(side === "b" ? "other" : "data"),
    side: () => (model.get("comparing") ? sideChosen : "a"),
    onWord: (act) => acts.word.push(act),
    word(index) {
      for (const act of acts.word) act(index);
    },
    gone: false,
    leave() {
      ctx.gone = true;
      for (const cleanup of cleanups) cleanup();
    },
  };
  ctx.watch(["comparing"], () => {
    if (model.get("comparing") || sideChosen === "a") return;
    sideChosen = "a";
    again();
  });
  return ctx;
}

function render({ model, el }) {
  const live = element("div", { class: "rl-live", role: "status", "aria-live": "polite" });
  const ctx = explorerContext(model, live);
  const { put, watch, announce, data } = ctx;
  const zoom = zoomPanel(ctx);
  const whyNot = whynotPanel(ctx);
  const predict = predictPanel(ctx);
  const share = sharePanel(ctx);

  // -- how far the picture goes ------------------------------------------------------------------

  const last = () => data().stages.length - 1;
  // The first stage that must stay hidden until it is predicted.
  function firstHeld() {
    const held = model.get("predicting") && data().stages.find(({ place }) => predict.holds(place));
    return held ? held.place : Infinity;
  }
  const within = (place) => Math.max(0, Math.min(place, last(), firstHeld() - 1));
  const shown = () => within(model.get("step"));
  function goTo(place) {
    put("step", within(place));
    if (place > within(place))
      announce(`The prediction comes first: then ${data().stages[firstHeld()].title} is shown.`);
  }
  const stages = stepper({ stages: () => data().stages, at: shown, goTo });

  // -- the parts, built once ---------------------------------------------------------------------

  const knobs = knobPanel(ctx);
  const drawing = pictures(ctx, {
    shown,
    held: () => firstHeld() < Infinity,
    onPlan: knobs.align,
  });
  const undo = button("Undo", () => ctx.send({ do: "undo" }));
  const toggle = (words, name) => button(words, () => put(name, !model.get(name)));
  const compare = toggle("Compare", "comparing");
  const predicts = toggle("Predict", "predicting");
  const asTable = button(
    "Show as table",
    () => {
      const pressed = asTable.getAttribute("aria-pressed") !== "true";
      asTable.setAttribute("aria-pressed", String(pressed));
      drawing.table(pressed);
    },
    { "aria-pressed": "false" },
  );
  const ask = askForm(ctx);
  const status = element("p", { class: "rl-status" });
  const bar = element("progress", { max: 1, "aria-label": "How far the search is" });
  const percent = element("span", { "aria-hidden": "true" });
  const progress = element("div", { class: "rl-progress" }, "Searching ", bar, percent);
  const root = element(
    "section",
    { class: "raglab-flow raglab-explorer", onkeydown: onKey },
    ask,
    element(
      "div",
      { class: "rl-tools", role: "group", "aria-label": "Tools" },
      knobs.presets,
      knobs.openAll,
      undo,
      element("div", { class: "rl-modes" }, compare, predicts, asTable, share.el),
    ),
    element("div", { class: "rl-where" }, stages.el, stages.says),
    element("div", { class: "rl-news" }, status, progress),
    predict.el,
    element(
      "div",
      { class: "rl-main" },
      element("div", { class: "rl-left" }, knobs.el, drawing.el),
      element("div", { class: "rl-aside" }, zoom.el, whyNot.el),
    ),
    live,
  );

  // -- what a change draws anew ------------------------------------------------------------------

  let before = [shown(), firstHeld()];
  function onStep() {
    const now = [shown(), firstHeld()];
    stages.draw();
    if (String(now) === String(before)) return;
    if (now[0] !== before[0]) announce(stages.says.textContent);
    before = now;
    drawing.draw();
  }

  // With new challenges the picture goes back to before the first of them.
  function onChallenges() {
    if (model.get("step") !== shown()) put("step", shown());
    onStep();
  }

  function onSelected() {
    const card = data(ctx.side()).chunks?.find((one) => one.id === model.get("selected"));
    const fate = card && firstHeld() === Infinity ? ` ${sentence(inWords(card.fate))}` : "";
    announce(card ? `Chose ${card.id}.${fate}` : "Nothing is chosen.");
  }

  function onStatus() {
    status.textContent = model.get("status");
    status.hidden = !status.textContent;
    if (status.textContent) announce(status.textContent);
  }

  function onToggles() {
    const comparing = model.get("comparing");
    compare.setAttribute("aria-pressed", String(comparing));
    predicts.setAttribute("aria-pressed", String(model.get("predicting")));
    // A page with no kernel can compare and ask only what lies in it.
    compare.hidden = ctx.offline && !data("b")?.stages;
    predicts.hidden = ctx.offline && !Object.keys(model.get("challenges") ?? {}).length;
  }

  function onUndoable() {
    const count = model.get("undoable");
    const focused = document.activeElement === undo;
    undo.textContent = count ? `Undo (${count})` : "Undo";
    undo.disabled = !count;
    if (focused && !count) compare.focus();
  }

  function onWork() {
    const done = model.get("progress");
    root.setAttribute("aria-busy", String(model.get("busy")));
    progress.hidden = !done;
    bar.value = done;
    percent.textContent = ` ${Math.round(done * 100)}%`;
  }

  const onTitle = () => root.setAttribute("aria-label", model.get("title"));

  function onDifference() {
    if (model.get("difference") && firstHeld() === Infinity) announce(model.get("difference"));
  }

  // -- keys --------------------------------------------------------------------------------------

  function onKey(event) {
    const command = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (command && event.key.toLowerCase() === "z") {
      event.stopPropagation(); // JupyterLab would undo a change to the notebook
      if (!isText(event.target)) {
        event.preventDefault();
        if (model.get("undoable")) ctx.send({ do: "undo" });
        else announce("There is nothing to undo.");
      }
    }
    if (event.key === "Escape") {
      drawing.cool();
      if (model.get("selected")) {
        if (zoom.el.contains(document.activeElement)) drawing.rove(ctx.side());
        ctx.choose("", ctx.side());
      }
    }
    keepKeys(event);
  }

  // -- beginning and end -------------------------------------------------------------------------

  watch(["step", "data", "reveal", "guess"], onStep);
  watch(["predicting", "challenges"], onChallenges);
  watch(["selected"], onSelected);
  watch(["status"], onStatus);
  watch(["comparing", "predicting", "other", "challenges"], onToggles);
  watch(["undoable"], onUndoable);
  watch(["busy", "progress"], onWork);
  watch(["title"], onTitle);
  watch(["difference"], onDifference);
  ask.hidden = undo.hidden = ctx.offline;
  onTitle();
  stages.draw();
  onToggles();
  onUndoable();
  onWork();
  status.textContent = model.get("status");
  status.hidden = !status.textContent;
  drawing.draw();
  el.append(root);

  return () => {
    ctx.leave();
    stages.stop();
    knobs.stop();
    drawing.stop();
  };
}

// Where Ctrl+Z has a meaning of its own.
const isText = (node) => node.matches('input[type="text"], textarea');

export default { render };
