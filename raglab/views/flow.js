// The widget around the picture: stepper, knobs, panel, table.  State lives in the model's traits.

function render({ model, el }) {
  const data = () => model.get("data");
  const last = () => data().stages.length - 1;
  const step = () => Math.min(model.get("step"), last());
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  let asTable = false;

  const choose = (id) => put("selected", id);
  const picture = new Picture(choose);
  const stages = stepper({
    stages: () => data().stages,
    at: step,
    goTo: (place) => put("step", place),
  });
  const tableToggle = button(
    "Show as table",
    () => {
      asTable = !asTable;
      drawBody();
    },
    { "aria-pressed": "false", class: "rl-table-toggle" },
  );
  stages.el.append(tableToggle);
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
    stages.el,
    stages.says,
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
    stages.draw();
    picture.step = step();
    if (!asTable && picture.plan) picture.draw(data());
    announce(stages.says.textContent);
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
    stages.draw();
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

  function rootKey(event) {
    if (event.key === "Escape") {
      picture.warm("", "");
      if (model.get("selected")) {
        if (panel.contains(document.activeElement)) picture.rove(picture.at, true);
        choose("");
      }
    }
    keepKeys(event);
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
    stages.stop();
    sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(`change:${name}`, act);
  };
}

export default { render };
