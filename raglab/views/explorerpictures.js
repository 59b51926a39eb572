// One picture, or two of them, A and B: the same step, the same chunk chosen, the same table.

const SIDES = ["a", "b"];
const ORDER = ["rewrite", "retrieve", "fuse", "rerank", "assemble", "generate"];

// Where `step` of one pipeline is in another, which may have more stages or fewer.
function sameStage(step, from, to) {
  if (from.stages.length === to.stages.length) return step;
  const reached = ORDER.indexOf(from.stages[step].stage);
  return to.stages.findLastIndex(({ stage }) => ORDER.indexOf(stage) <= reached);
}

// `shown()` is the stage to draw; while a prediction holds the rest back, `held()` is true.
// `onPlan(plan)` hears where the columns of A stand, or null where they stand elsewhere.
function pictures(ctx, { shown, held, onPlan }) {
  const { model, watch, choose, data } = ctx;
  let asTable = false;
  const veils = new WeakMap();
  const comparing = () => model.get("comparing");
  const there = (side) => side === "a" || (comparing() && Boolean(data("b").stages));
  const stepOf = (side) => (side === "a" ? shown() : sameStage(shown(), data("a"), data("b")));
  const views = Object.fromEntries(SIDES.map((side) => [side, view(side)]));
  const difference = element("p", { class: "rl-difference" });
  const el = element(
    "div",
    { class: "rl-pictures" },
    difference,
    ...SIDES.map((side) => views[side].frame),
  );

  function view(side) {
    const picture = new Picture((id) => choose(id, side));
    picture.onWord = (index) => ctx.word(index);
    const differs = element("span", {});
    const head = element(
      "h2",
      { class: "rl-side-head" },
      element("strong", { class: "rl-letter" }, side.toUpperCase()),
      differs,
    );
    const table = element("div", { class: "rl-table", role: "region", tabindex: "0" });
    const frame = element("div", { class: "rl-side-frame" }, head, picture.el, table);
    return { picture, head, differs, table, frame, width: 0 };
  }

  function drawHeads() {
    el.classList.toggle("rl-comparing", comparing());
    const settings = { a: model.get("settings"), b: model.get("other_settings") };
    difference.textContent = comparing() && !held() ? model.get("difference") : "";
    difference.hidden = !difference.textContent;
    for (const side of SIDES) {
      const { picture, head, differs, table } = views[side];
      const other = side === "a" ? "b" : "a";
      const words = differing(model.get("knobs"), settings[side], settings[other]);
      head.hidden = !comparing();
      differs.textContent = words || (model.get("knobs").length ? "set like the other" : "");
      const of = comparing() ? `, ${side.toUpperCase()}` : "";
      picture.el.setAttribute("aria-label", `Flow of candidates${of}`);
      table.setAttribute("aria-label", `Candidates as a table${of}`);
    }
  }

  function draw() {
    drawHeads();
    for (const side of SIDES) views[side].frame.hidden = !there(side);
    for (const side of SIDES) {
      const { picture, table } = views[side];
      picture.el.hidden = asTable;
      table.hidden = !asTable;
      table.replaceChildren(
        ...(asTable && there(side)
          ? [chunkTable(data(side), (id) => choose(id, side), held() ? stepOf(side) : Infinity)]
          : []),
      );
      drawPicture(side);
    }
  }

  function drawPicture(side) {
    const { picture } = views[side];
    if (asTable || !there(side) || !picture.el.clientWidth) return;
    views[side].width = picture.el.clientWidth;
    picture.step = stepOf(side);
    picture.chosen = model.get("selected");
    picture.draw(held() ? veiled(data(side)) : data(side));
    if (side === "a") onPlan(comparing() && beside() ? null : picture.plan);
  }

  // While the reader predicts, nothing tells which chunks reach the prompt or are cited.
  function veiled(run) {
    if (!veils.has(run)) {
      const unmarked = (card) => ({ ...card, marks: card.marks.filter((mark) => mark === "evidence") });
      veils.set(run, { ...run, chunks: run.chunks.map(unmarked) });
    }
    return veils.get(run);
  }

  const beside = () => views.a.frame.offsetTop === views.b.frame.offsetTop && there("b");

  function show() {
    for (const side of SIDES)
      if (there(side) && views[side].picture.plan && !asTable)
        views[side].picture.show(stepOf(side), model.get("selected"));
  }

  const sizes = new ResizeObserver(() => {
    for (const side of SIDES)
      if (views[side].picture.el.clientWidth !== views[side].width) drawPicture(side);
  });
  for (const side of SIDES) sizes.observe(views[side].picture.el);

  ctx.onWord((index) => {
    for (const { picture } of Object.values(views)) if (picture.plan) picture.word(index);
  });
  watch(["data", "other", "comparing"], draw);
  watch(["settings", "other_settings", "difference", "knobs"], drawHeads);
  watch(["selected"], show);
  return {
    el,
    draw,
    cool() {
      for (const { picture } of Object.values(views)) if (picture.plan) picture.warm("", "");
    },
    rove: (side) => views[side].picture.rove(views[side].picture.at, true),
    table: (as) => {
      asTable = as;
      draw();
    },
    stop: () => sizes.disconnect(),
  };
}
