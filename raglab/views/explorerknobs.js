// The knobs, stage by stage, and the presets that turn several at once.
// Of two pipelines, A and B, one is turned at a time.

// Which stage's knobs stand in one column of the picture, and by which name the reader knows them.
const KNOB_COLUMNS = [
  ["ingest", "rewrite"],
  ["retrieve"],
  ["fuse"],
  ["rerank"],
  ["assemble", "generate"],
];
const KNOB_STAGES = {
  ingest: "Ingest",
  rewrite: "Query",
  retrieve: "Retrieve",
  fuse: "Fuse",
  rerank: "Rerank",
  assemble: "Assemble",
  generate: "Answer",
};
const NO_SUCH_KNOB = "the chosen stage has no such knob";
const NARROWEST = 120; // pixels: a narrower column of the picture holds no knob
const GUTTER = 8;

const asOpened = (knobs) => Object.fromEntries(knobs.map(({ name, value }) => [name, value]));

// In which knobs two pipelines differ, as the first of them has it.
function differing(knobs, mine, other) {
  return knobs
    .filter(({ name }) => name in mine && name in other && mine[name] !== other[name])
    .map(({ name, label }) => `${label} ${mine[name]}`)
    .join("; ");
}

// One pipeline's settings: what they are, and how to turn them.
function settingsOf({ model, put }, trait) {
  const now = () => ({ ...asOpened(model.get("knobs")), ...model.get(trait) });
  const send = (turned) => put(trait, { ...now(), ...turned });
  return { now, ...turner(send, () => model.get("busy")) };
}

function knobPanel(ctx) {
  const { model, watch } = ctx;
  const sides = { a: settingsOf(ctx, "settings"), b: settingsOf(ctx, "other_settings") };
  let turned = "a"; // whose knobs are in the reader's hands
  let groups = [];
  const side = () => sides[turned];
  const idle = () => model.get(turned === "a" ? "idle" : "other_idle") ?? [];
  const inHand = {
    turn: (name, value) => side().turn(name, value),
    holds: (name) => side().holds(name),
  };

  const grid = element("div", { class: "rl-groups" });
  // The help of the knob in hand, once for all of them: their inputs name theirs as a description.
  const told = element("p", { class: "rl-told", "aria-hidden": "true" });
  const whose = element(
    "div",
    { class: "rl-seg", role: "group", "aria-label": "Whose knobs" },
    ...Object.keys(sides).map((one) =>
      button(`Knobs of ${one.toUpperCase()}`, () => take(one), { "data-side": one }),
    ),
  );
  const el = element("div", { class: "rl-drawer", role: "group" }, whose, grid, told);
  const presets = element("div", { class: "rl-seg", role: "group" });
  const openAll = button("Knobs", () => {
    const open = groups.some(({ fold }) => !fold.open);
    for (const { fold } of groups) fold.open = open;
  });

  function take(one) {
    side().flush();
    turned = one;
    sync();
  }

  function draw() {
    const knobs = ctx.offline ? [] : model.get("knobs"); // with no kernel nothing would turn
    groups = [];
    const stacks = KNOB_COLUMNS.map((stages) => {
      const stack = element("div", { class: "rl-stack" });
      for (const stage of stages) {
        const of = knobs.filter((knob) => knob.stage === stage);
        if (!of.length) continue;
        const group = knobGroup(KNOB_STAGES[stage], of, inHand, told);
        group.fold.addEventListener("toggle", () => {
          const open = groups.every(({ fold }) => fold.open);
          openAll.setAttribute("aria-expanded", String(open));
        });
        groups.push(group);
        stack.append(group.fold);
      }
      return stack;
    });
    grid.replaceChildren(...stacks);
    openAll.setAttribute("aria-expanded", "false");
    el.hidden = openAll.hidden = presets.hidden = !knobs.length;
    const named = { ...model.get("presets"), "as opened": asOpened(knobs) };
    presets.replaceChildren(
      ...Object.keys(named).map((name) =>
        button(name, () => side().turnAll(named[name]), { "data-preset": name }),
      ),
    );
    sync();
  }

  function sync() {
    const comparing = model.get("comparing");
    if (!comparing) turned = "a";
    const settings = side().now();
    for (const group of groups) group.show(settings, idle());
    whose.hidden = !comparing;
    for (const one of whose.children)
      one.setAttribute("aria-pressed", String(one.dataset.side === turned));
    const of = comparing ? ` of ${turned.toUpperCase()}` : "";
    el.setAttribute("aria-label", `Knobs${of}`);
    presets.setAttribute("aria-label", `Presets${of}`);
    const opened = asOpened(model.get("knobs"));
    for (const one of presets.children) {
      const preset = { ...opened, ...model.get("presets")[one.dataset.preset] };
      const fits = Object.keys(opened).every((name) => settings[name] === preset[name]);
      one.setAttribute("aria-pressed", String(fits));
    }
  }

  // Each stack of groups stands over its column of the picture, where the columns are wide enough.
  function align(plan) {
    const boxes = plan ? [...plan.columns.values()] : [];
    const at = KNOB_COLUMNS.slice(1).map(([stage]) =>
      boxes.find((box) => box.column.stage === stage),
    );
    const fits = at.every((box) => box?.width >= NARROWEST);
    grid.classList.toggle("rl-aligned", fits);
    if (fits) at.unshift({ x: 0, width: at[0].x - GUTTER }); // the query's column holds no list
    grid.style.gridTemplateColumns = fits
      ? at
          .flatMap(({ x, width }, index) => {
            const next = at[index + 1];
            return next ? [`${width}px`, `${next.x - x - width}px`] : [`${width}px`];
          })
          .join(" ")
      : "";
  }

  watch(["knobs", "presets"], draw);
  watch(["settings", "other_settings", "idle", "other_idle", "comparing"], sync);
  watch(["busy"], () => Object.values(sides).forEach((one) => one.flush()));
  draw();
  const stop = () => Object.values(sides).forEach((one) => one.stop());
  return { el, openAll, presets, align, stop };
}

// The knobs of one stage, folded away under the stage's name and what was turned in it.
function knobGroup(title, knobs, inHand, told) {
  const fields = knobs.map((knob) => groupedKnob(knob, inHand, told));
  const count = element("span", { class: "rl-turned-count" });
  const words = element("span", { class: "rl-turned-words" });
  const fold = element(
    "details",
    { class: "rl-group" },
    element("summary", {}, element("strong", {}, title), count, words),
    ...fields.map(({ node }) => node),
  );
  function show(settings, idle) {
    for (const { knob, show } of fields) show(settings[knob.name], idle.includes(knob.name));
    const away = knobs.filter(({ name, value }) => settings[name] !== value);
    count.textContent = away.length ? `${away.length} turned` : "";
    words.textContent = away
      .map(({ name, label, value }) => `${label} ${settings[name]}, was ${value}`)
      .join("; ");
  }
  return { fold, show };
}

function groupedKnob(knob, inHand, told) {
  const ids = { help: freshId(), none: freshId() };
  const described = { "aria-describedby": `${ids.help} ${ids.none}` };
  const { label, shown, input, show: showValue } = knobField(knob, inHand, described);
  const none = element("small", { id: ids.none, hidden: true }, NO_SUCH_KNOB);
  const reset = button(
    "↺",
    () => {
      inHand.turn(knob.name, knob.value);
      input.focus(); // this button is about to go
    },
    {
      class: "rl-reset",
      title: `Reset to ${knob.value}`,
      "aria-label": `Reset ${knob.label} to ${knob.value}`,
    },
  );
  let away = false;
  const tell = () => {
    told.textContent = `${knob.label}: ${knob.help}${away ? ` Opened at ${knob.value}.` : ""}`;
  };
  const node = element(
    "div",
    {
      class: knob.choices ? "rl-knob rl-choice" : "rl-knob",
      "data-knob": knob.name,
      onfocusin: tell,
      onpointerenter: tell,
    },
    label,
    shown,
    input,
    reset,
    none,
    element("span", { id: ids.help, hidden: true }, knob.help),
  );
  function show(value, idle) {
    showValue(value);
    away = value !== knob.value;
    input.disabled = idle;
    none.hidden = !idle;
    reset.classList.toggle("rl-gone", !away);
    node.classList.toggle("rl-turned", away);
    node.classList.toggle("rl-idle", idle);
  }
  return { knob, node, show };
}
