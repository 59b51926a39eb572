// The widget around the picture: stepper, knobs, panel, table.  State lives in the model's traits.

const PACE = 1400; // milliseconds a stage, when played

// A bar for each part of a score; bars left of the axis are negative.
function bars(parts, names) {
  const pairs = [];
  for (let i = 0; i < parts.length; i += 2) pairs.push([names[parts[i]], parts[i + 1]]);
  const top = Math.max(0, ...pairs.map(([, value]) => value));
  const low = Math.min(0, ...pairs.map(([, value]) => value));
  const span = top - low || 1;
  return element(
    "ul",
    { class: "rl-parts" },
    ...pairs.map(([name, value]) => {
      const bar = element("span", { class: value < 0 ? "rl-addend rl-negative" : "rl-addend" });
      bar.style.left = `${((Math.min(0, value) - low) / span) * 100}%`;
      bar.style.width = `${(Math.abs(value) / span) * 100}%`;
      const axis = element("span", { class: "rl-axis" });
      axis.style.left = `${(-low / span) * 100}%`;
      return element(
        "li",
        {},
        element("span", { class: "rl-part-name" }, name),
        element("span", { class: "rl-track", "aria-hidden": "true" }, bar, axis),
        element("span", { class: "rl-part-value" }, figure(value)),
      );
    }),
  );
}

const figure = (value) => {
  const size = Math.abs(value);
  return value === 0
    ? "0"
    : size < 0.1
      ? value.toPrecision(3)
      : size < 100
        ? value.toFixed(3)
        : value.toFixed(1);
};

// Everything known of one chunk.
function chunkPanel(model, card, close) {
  const found = model.columns.flatMap((column) =>
    column.rows
      .filter(([id]) => id === card.id)
      .map(([, rank, score, parts]) => ({ column, rank, score, parts })),
  );
  const about = [card.heading, card.source, card.updated && `updated ${card.updated}`].filter(
    Boolean,
  );
  return [
    element(
      "div",
      { class: "rl-panel-top" },
      element("h2", {}, card.title || card.id),
      element(
        "button",
        { type: "button", class: "rl-close", "aria-label": "Clear the selection", onclick: close },
        "Clear",
      ),
    ),
    element("p", { class: "rl-id" }, card.id),
    ...about.map((words) => element("p", { class: "rl-about" }, words)),
    ...marksInWords(card).map((words) =>
      element("p", { class: `rl-mark ${words[0] === "★" ? "rl-evidence" : "rl-cited"}` }, words),
    ),
    element(
      "p",
      { class: isLost(card.fate) ? "rl-fate rl-lost" : "rl-fate" },
      sentence(inWords(card.fate)),
    ),
    element("h3", {}, "Text"),
    element("div", { class: "rl-text" }, card.text),
    element("h3", {}, "Rank and score at every stage"),
    ...found.flatMap(({ column, rank, score, parts }) => [
      element(
        "h4",
        {},
        element("span", {}, column.name),
        element("span", {}, column.stage === "assemble" ? `prompt [${rank}]` : `rank ${rank}`),
        element("span", {}, `score ${figure(score)}`),
      ),
      ...(column.stage === "assemble" ? [] : [bars(parts, model.names)]),
    ]), // the reranker's, once more
  ];
}

function welcomePanel(model) {
  const key = (kind, words) =>
    element(
      "li",
      {},
      element("span", { class: `rl-key rl-key-${kind}`, "aria-hidden": "true" }),
      words,
    );
  const verdict = model.verdict.length
    ? [
        element("h2", {}, "Where is the answer?"),
        ...model.verdict.map((words) => element("p", { class: "rl-verdict" }, words)),
      ]
    : [];
  return [
    ...verdict,
    element("h2", {}, "How to read this"),
    element(
      "p",
      {},
      "A row is a rank, a line is a chunk. Choose a row to see its text and what its score is made of.",
    ),
    element(
      "ul",
      { class: "rl-legend" },
      key("plain", "still in the running"),
      key("evidence", "★ holds the answer"),
      key("cited", "● cited by the answer"),
      key("lost", "× lost, and where"),
    ),
    element(
      "p",
      { class: "rl-keys" },
      "Keys: arrows move among rows, Enter chooses, Escape clears. In the bar above, left and right step, Home and End jump.",
    ),
  ];
}

function chunkTable(model, choose) {
  const ranks = model.columns.map((column) => new Map(column.rows.map(([id, rank]) => [id, rank])));
  const head = [
    "Chunk",
    ...model.columns.map((column) => `${column.name} (${column.label}, ${took(column)})`),
    "What became of it",
  ];
  return element(
    "table",
    {},
    element("caption", {}, `Every candidate for: ${model.query}`),
    element(
      "thead",
      {},
      element("tr", {}, ...head.map((words) => element("th", { scope: "col" }, words))),
    ),
    element(
      "tbody",
      {},
      ...model.chunks.map((card) =>
        element(
          "tr",
          {},
          element(
            "th",
            { scope: "row" },
            element(
              "button",
              { type: "button", class: "rl-cite", onclick: () => choose(card.id) },
              card.id,
            ),
          ),
          ...ranks.map((at) => element("td", {}, String(at.get(card.id) ?? ""))),
          element("td", {}, [...marksInWords(card), inWords(card.fate)].join("; ")),
        ),
      ),
    ),
  );
}

const marksInWords = (card) =>
  card.marks.map((mark) => (mark === "evidence" ? "★ holds the answer" : "● cited by the answer"));

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

function render({ model, el }) {
  const data = () => model.get("data");
  const last = () => data().stages.length - 1;
  const step = () => Math.min(model.get("step"), last());
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  let playing = 0;
  let asTable = false;

  const goTo = (place) => put("step", Math.max(0, Math.min(last(), place)));
  const choose = (id) => put("selected", id);
  const picture = new Picture(choose);

  const prev = button("Previous", () => {
    stop();
    goTo(step() - 1);
  });
  const play = button("Play", () => (playing ? stop() : start()), { class: "rl-play" });
  const next = button("Next", () => {
    stop();
    goTo(step() + 1);
  });
  const steps = element("ol", { class: "rl-steps", "aria-label": "Stages" });
  const tableToggle = button(
    "Show as table",
    () => {
      asTable = !asTable;
      drawBody();
    },
    { "aria-pressed": "false", class: "rl-table-toggle" },
  );
  const bar = element(
    "div",
    { class: "rl-bar", role: "group", "aria-label": "Steps", onkeydown: barKey },
    prev,
    play,
    next,
    steps,
    tableToggle,
  );
  const says = element("p", { class: "rl-says" });
  const status = element("p", { class: "rl-status", hidden: true });
  const live = element("div", { class: "rl-live", role: "status", "aria-live": "polite" });
  const table = element("div", {
    class: "rl-table",
    role: "region",
    "aria-label": "Candidates as a table",
    tabindex: "0",
    hidden: true,
  });
  const panel = element("div", {
    class: "rl-panel",
    role: "region",
    "aria-label": "Chunk details",
    tabindex: "0",
  });
  const main = element(
    "div",
    { class: "rl-main" },
    element("div", { class: "rl-left" }, picture.el, table),
    panel,
  );
  const controls = element("div", { class: "rl-controls" });
  const root = element(
    "div",
    { class: "raglab-flow", onkeydown: rootKey },
    controls,
    bar,
    says,
    status,
    main,
    live,
  );

  let knobs;
  let ask;
  function drawControls() {
    const alive = model.get("knobs").length > 0; // no knobs, no kernel behind them
    controls.hidden = !alive;
    if (!alive) return;
    ask = element("input", { type: "text", autocomplete: "off", "aria-label": "Query" });
    ask.value = model.get("query");
    const form = element(
      "form",
      {
        class: "rl-ask",
        onsubmit: (event) => {
          event.preventDefault();
          put("query", ask.value);
        },
      },
      element("label", {}, element("span", {}, "Query"), ask),
      element("button", { type: "submit" }, "Run"),
    );
    knobs = knobRow(model, put);
    controls.replaceChildren(form, element("div", { class: "rl-knobs" }, ...knobs.nodes));
  }

  function drawSteps() {
    if (steps.children.length !== data().stages.length)
      steps.replaceChildren(
        ...data().stages.map((stage) =>
          element(
            "li",
            {},
            button(stage.title, () => {
              stop();
              goTo(stage.place);
            }),
          ),
        ),
      );
    [...steps.children].forEach((item, place) => {
      item.classList.toggle("rl-done", place <= step());
      if (place === step()) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    });
    prev.disabled = step() === 0;
    next.disabled = step() === last();
    says.replaceChildren(
      element("strong", {}, `${step() + 1} of ${last() + 1}, ${data().stages[step()].title}: `),
      data().stages[step()].says,
    );
  }

  function drawBody() {
    tableToggle.setAttribute("aria-pressed", String(asTable));
    picture.el.hidden = asTable;
    table.hidden = !asTable;
    if (asTable) table.replaceChildren(chunkTable(data(), choose));
    else table.replaceChildren();
    if (!asTable && picture.el.clientWidth) picture.draw(data());
  }

  function drawPanel() {
    const card = data().chunks.find((one) => one.id === model.get("selected"));
    panel.replaceChildren(
      ...(card ? chunkPanel(data(), card, () => choose("")) : welcomePanel(data())),
    );
    panel.scrollTop = 0;
  }

  const announce = (words) => {
    live.textContent = words;
  };

  function onStep() {
    drawSteps();
    picture.step = step();
    if (!asTable && picture.plan) picture.draw(data());
    announce(says.textContent);
  }

  function onSelected() {
    drawPanel();
    if (picture.plan) picture.show(step(), model.get("selected"));
    const card = data().chunks.find((one) => one.id === model.get("selected"));
    announce(card ? `Chose ${card.id}. ${sentence(inWords(card.fate))}` : "Nothing is chosen.");
  }

  function onData() {
    picture.step = step();
    picture.chosen = model.get("selected");
    drawSteps();
    drawBody();
    drawPanel();
  }

  function onStatus() {
    status.textContent = model.get("status");
    status.hidden = !status.textContent;
    if (status.textContent) announce(status.textContent);
  }

  const onBusy = () => root.setAttribute("aria-busy", String(model.get("busy")));
  const onSettings = () => knobs?.sync();
  const onQuery = () => {
    if (ask && document.activeElement !== ask) ask.value = model.get("query");
  };

  function start() {
    if (step() === last()) goTo(0);
    playing = setInterval(() => {
      goTo(step() + 1);
      if (step() === last()) stop();
    }, PACE);
    play.textContent = "Pause";
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  }

  function barKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: step() - 1, ArrowRight: step() + 1, Home: 0, End: last() }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    stop();
    goTo(to);
    if (document.activeElement.disabled || document.activeElement === document.body) play.focus();
    else if (steps.contains(document.activeElement)) steps.children[step()].firstChild.focus();
  }

  // JupyterLab listens for single keys ("d d" deletes a cell): none may leave the widget.
  function rootKey(event) {
    if (event.key === "Escape") {
      picture.warm("", "");
      if (model.get("selected")) {
        if (panel.contains(document.activeElement)) picture.rove(picture.at, true);
        choose("");
      }
    }
    if (event.key !== "Tab" && !event.ctrlKey && !event.metaKey && !event.altKey)
      event.stopPropagation();
  }

  const watched = {
    data: onData,
    step: onStep,
    selected: onSelected,
    status: onStatus,
    busy: onBusy,
    settings: onSettings,
    query: onQuery,
    knobs: drawControls,
  };
  for (const [name, act] of Object.entries(watched)) model.on(`change:${name}`, act);

  el.append(root);
  drawControls();
  onData();
  onStatus();
  onBusy();
  let width = 0;
  const sizes = new ResizeObserver(() => {
    if (asTable || picture.el.clientWidth === width) return;
    width = picture.el.clientWidth;
    picture.draw(data());
  });
  sizes.observe(picture.el);

  return () => {
    stop();
    sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(`change:${name}`, act);
  };
}

export default { render };
