// The picture itself: a funnel, heads, columns of rows, a line for each chunk, an answer.
//
// What a shell around it may call:
//   new Picture(select)     select(chunk id, or "" for none): the reader chose a row or a citation
//   el                      the element to put into the page
//   draw(model)             draws flow_model's data, as wide as `el`, at `step`, with `chosen` lit
//   step, chosen            set both before draw; draw again, or show, after a step
//   show(step, chosen)      the same data at another step, or with another chunk chosen
//   warm(id, key)           lights a chunk in every list, and tells its fate beside the row `key`;
//                           warm("", "") lets go.  A row's key is "list\nchunk id"
//   word(index or null)     lights a word of `model.words` in query, rows and answer
//   onWord                  set it to be told, with an index or null, when a word is pointed at
//   rove(key, focus)        which row Tab reaches; `at` is its key
//   plan                    where everything stands (layout.js): columns by name, x, width, right
// Data of an older shape, without tokens, prices and words, is drawn without them.

class Picture {
  constructor(select) {
    this.select = select;
    this.step = 0;
    this.chosen = "";
    this.warmed = "";
    this.lit = null; // the word that is pointed at
    this.at = ""; // the row that Tab reaches
    this.ruler = new Ruler();
    this.rows = new Rows(this.ruler);
    this.lines = new Lines();
    this.heads = new Heads(this.ruler);
    this.notes = new Notes({
      select: (id) => this.select(id),
      word: (index) => this.word(index),
    });
    this.frame = drawn("g", { class: "rl-frame", "aria-hidden": "true" });
    this.svg = drawn(
      "svg",
      { class: "rl-board", role: "group", "aria-label": "Candidates at every stage" },
      this.frame,
      this.rows.board,
      this.rows.tags,
    );
    this.hint = element("div", { class: "rl-hint", "aria-hidden": "true", hidden: true });
    const { queries, answer } = this.notes;
    const parts = [this.lines.svg, this.svg, queries, answer, this.hint];
    this.floor = element("div", { class: "rl-floor" }, ...parts);
    this.sheet = element(
      "div",
      { class: "rl-sheet" },
      this.heads.funnel,
      this.heads.el,
      this.floor,
    );
    const about = { class: "rl-scroll", role: "region", "aria-label": "Flow of candidates" };
    this.el = element("div", about, this.sheet);
    this.listen();
    new ResizeObserver(() => {
      this.width = this.el.clientWidth;
    }).observe(this.el);
  }

  // One listener of each kind for all rows, and for the labels of bars.  None is on an SVG element:
  // one that listens for focus would be focused itself.
  listen() {
    const keyOf = (event) => event.target.closest?.(".rl-row, .rl-tag")?.rlKey ?? "";
    const over = (event) => {
      const key = keyOf(event);
      this.warm(this.plan?.rows.get(key)?.id ?? "", key);
    };
    const acts = {
      pointerover: over,
      pointerleave: () => this.warm("", ""),
      focusin: (event) => {
        if (keyOf(event)) this.rove(keyOf(event), false);
        over(event);
      },
      focusout: () => this.warm("", ""),
      click: (event) => {
        const row = this.plan?.rows.get(keyOf(event));
        if (!row) return;
        this.rove(keyOf(event), true);
        this.select(this.chosen === row.id ? "" : row.id);
      },
      keydown: (event) => keyOf(event) && this.onKey(event),
    };
    for (const [name, act] of Object.entries(acts)) this.floor.addEventListener(name, act);
  }

  draw(model) {
    if (!this.ruler.family) this.ruler.use(getComputedStyle(this.el).fontFamily);
    const width = (this.width || this.el.clientWidth) - 2;
    const { model: drawnModel, plan } = this;
    const changed = model !== drawnModel;
    const focused = this.rows.board.contains(document.activeElement);
    if (changed || width !== plan.width || this.cutsChange()) this.layOut(model, width, changed);
    this.paint();
    if (!changed) return;
    this.reach(focused);
    if (drawnModel) this.warm("", "");
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), 800);
  }

  // What is reached, what is chosen: no list is read anew, classes change.
  show(step, chosen) {
    this.step = step;
    this.chosen = chosen;
    if (this.cutsChange()) this.layOut(this.model, this.plan.width, false);
    this.paint();
  }

  // A cut makes room for its words once the step that cuts is reached.
  cutsChange() {
    const { cuts, step } = this.plan;
    return cuts.some((place) => step >= place !== this.step >= place);
  }

  layOut(model, width, changed) {
    const knew = Boolean(this.model);
    const resized = width !== this.plan?.width;
    this.model = model;
    this.plan = layOut(model, width, this.step);
    this.rows.draw(this.plan, { step: this.step, flashing: knew && changed });
    this.lines.draw(this.plan, model.queries.length);
    this.drawFrame();
    if (changed || resized) this.heads.draw(this.plan, model);
    if (changed) {
      this.notes.drawQueries(model);
      this.notes.drawAnswer(model, [...this.plan.columns.values()].at(-1));
      if (this.lit !== null) this.word(null);
    }
    this.notes.place(this.plan);
    const { right, bottom } = this.plan;
    const size = { width: right, height: bottom, viewBox: `0 0 ${right} ${bottom}` };
    for (const svg of [this.svg, this.lines.svg]) fill(svg, size, []);
  }

  // After other data: Tab still reaches a row, and a focus that was lost with its row finds one.
  reach(focused) {
    const { rows } = this.plan;
    const reachable = (key) => rows.has(key) && rows.get(key).box.place <= this.step;
    const at = reachable(this.at) ? this.at : ([...rows.keys()].find(reachable) ?? "");
    this.rove(at, focused && !this.rows.board.contains(document.activeElement));
    if (at) this.el.removeAttribute("tabindex");
    else this.el.setAttribute("tabindex", "0"); // nothing inside to focus, and it may scroll
  }

  // What stands around the rows: the heads of lanes, rules where a list is cut, crosses.
  drawFrame() {
    const marks = [];
    const crosses = new Map();
    for (const box of this.plan.columns.values()) {
      const { x, width, place } = box;
      if (box.lane) marks.push(this.laneHead(box));
      if (box.cut) {
        const middle = box.cut.y + CUT_ROOM / 2;
        const side = width / 2 - 34; // of the words
        const rule = drawn("path", { d: `M${x} ${middle}h${side}m68 0h${side}` });
        const at = { x: x + width / 2, y: middle, dy: "0.34em", "text-anchor": "middle" };
        const words = drawn("text", at, box.cut.says);
        marks.push(drawn("g", { class: "rl-cut", "data-place": box.cut.place }, rule, words));
      }
      if (box.left.length) {
        const at = { class: "rl-lane", x: x + 2, y: box.bottom + 16, "data-place": place };
        marks.push(drawn("text", at, `left out by ${box.column.name}: ${box.left.length}`));
      }
    }
    for (const { card, box, left, x, y, height } of this.plan.rows.values()) {
      const { fate } = card;
      const loser = this.plan.columns.get(fate.step);
      if (!isLost(fate) || left || box.thin) continue;
      if (!loser?.column.after.includes(box.column.name)) continue;
      if (loser.left.includes(card)) continue; // its line goes on, and ends in the next column
      const cross = `M${x + box.width + 4} ${y + height / 2 - 2.5}l5 5m0 -5l-5 5`;
      crosses.set(fate.place, (crosses.get(fate.place) ?? "") + cross);
    }
    for (const [place, d] of crosses)
      marks.push(drawn("path", { class: "rl-end", "data-place": place, d }));
    this.frame.replaceChildren(...marks);
  }

  laneHead({ column, x, top, head, width, place }) {
    const name = this.ruler.fit(column.name, width, 12, true);
    const room = width + 4 - this.ruler.widthOf(name, 12, true); // past it run the lines
    const costs = costsOf(column);
    const two = head > 30; // a line for what it holds, a line for what that cost
    const held = [column.label, `${column.count}`].map((words) => `  ${words}`);
    const all = [...costs, took(column)].flatMap((cost) =>
      held.map((words) => `${words} · ${cost}`),
    );
    const below = drawn("tspan", { x: x + 2, dy: 15 }, this.ruler.firstThatFits(costs, width, 11));
    return drawn(
      "text",
      { class: "rl-lane", x: x + 2, y: top + 13, "data-place": place },
      drawn("tspan", { class: "rl-lane-name" }, name),
      this.ruler.firstThatFits(two ? held : all, room, 11),
      ...(two ? [below] : []),
      drawn("title", {}, `${column.name} · ${column.label} · ${costs[0]}`),
    );
  }

  paint() {
    const { step, chosen } = this;
    const before = this.painted;
    this.painted = step;
    const known = this.plan.cards.has(chosen);
    if (known) this.hint.hidden = true; // the panel tells more
    this.el.classList.toggle("rl-choosing", known);
    const look = { step, chosen: known ? chosen : "", warm: this.warmed, word: this.lit };
    look.shares = this.sharesOf(this.lit);
    this.rows.show(look);
    this.lines.show(look);
    this.heads.show(step);
    const queries = this.model.queries.length;
    const lanes = [...this.plan.columns.values()].filter(
      ({ column, place }) => place === 1 && this.plan.rows.has(`${column.name}\n${look.chosen}`),
    );
    const feeds = new Set(lanes.map((box) => queryOf(box, queries)));
    this.notes.show(look, this.model.stages.length, feeds);
    for (const node of this.frame.children)
      node.classList.toggle("rl-pending", step < Number(node.dataset.place));
    if (before === undefined || before === step) return;
    this.follow();
    this.reach(false);
  }

  // Where the picture is wider than its place, it scrolls to the column that has just come.
  follow() {
    const box = [...this.plan.columns.values()].findLast(({ place }) => place <= this.step);
    if (!this.width || this.plan.right <= this.width) return;
    const left = box && box.place > 0 ? Math.max(0, box.x + box.width + 4 - this.width) : 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.el.scrollTo({ left, behavior: still ? "auto" : "smooth" });
  }

  // Of each row's score: what share of its positive parts comes from a word.
  sharesOf(index) {
    const names = new Set(this.model?.words?.[index]?.names ?? []);
    if (!names.size) return null;
    const shares = new Map();
    for (const [key, { parts, left }] of this.plan.rows) {
      if (left) continue;
      let [from, all] = [0, 0];
      for (let at = 0; at < parts.length; at += 2) {
        if (parts[at + 1] <= 0) continue;
        all += parts[at + 1];
        if (names.has(parts[at])) from += parts[at + 1];
      }
      if (from > 0) shares.set(key, from / all);
    }
    return shares;
  }

  word(index) {
    if (index === this.lit) return;
    this.lit = index;
    this.el.classList.toggle("rl-wording", index !== null);
    if (this.plan) this.paint();
    this.onWord?.(index);
  }

  // Hover and focus: the chunk's lines light up and its fate is told beside it.
  warm(id, key) {
    if (id !== this.warmed) {
      this.warmed = id;
      if (this.plan) this.paint();
    }
    const row = this.plan?.rows.get(key);
    this.hint.hidden = !row || this.step < row.box.place || id === this.chosen;
    if (this.hint.hidden) return;
    const { card } = row;
    const told = isLost(card.fate) && this.step < card.fate.place ? card.title : inWords(card.fate);
    this.hint.replaceChildren(
      element("strong", {}, row.id),
      element("span", {}, card.heading || card.title),
      element("span", { class: "rl-hint-fate" }, told),
    );
    const { el, hint } = this;
    const left = Math.min(row.x, el.scrollLeft + el.clientWidth - 250);
    hint.style.left = `${Math.max(0, left)}px`;
    const below = row.y + row.height + 4;
    const lowest = el.scrollTop + el.clientHeight - hint.parentNode.offsetTop;
    const fits = below + hint.offsetHeight < lowest;
    hint.style.top = `${fits ? below : Math.max(0, row.y - hint.offsetHeight - 4)}px`;
  }

  rove(key, focus) {
    this.rows.drawn.get(this.at)?.node.setAttribute("tabindex", "-1");
    this.at = key;
    const node = this.rows.drawn.get(key)?.node;
    node?.setAttribute("tabindex", "0");
    if (focus) node?.focus();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = this.plan.rows.get(this.at);
    if (!here) return;
    const inPlace = (place) =>
      [...this.plan.rows].filter(([, row]) => row.box.place === place && this.step >= place);
    const column = inPlace(here.box.place);
    const index = column.findIndex(([key]) => key === this.at);
    const sideways = (by) => {
      const rows = inPlace(here.box.place + by);
      const same = rows.filter(([, row]) => row.id === here.id);
      const nearest = (a, b) => Math.abs(a[1].y - here.y) - Math.abs(b[1].y - here.y);
      return (same.length ? same : rows).sort(nearest)[0];
    };
    const moves = {
      ArrowDown: () => column[index + 1],
      ArrowUp: () => column[index - 1],
      ArrowRight: () => sideways(1),
      ArrowLeft: () => sideways(-1),
      Home: () => column[0],
      End: () => column.at(-1),
    };
    if (event.key === "Enter" || event.key === " ")
      this.select(this.chosen === here.id ? "" : here.id);
    else if (moves[event.key]) {
      const next = moves[event.key]();
      if (next) this.rove(next[0], true);
    } else return;
    event.preventDefault();
  }

  settle() {
    const focused = this.rows.board.contains(document.activeElement);
    this.rows.settle();
    if (focused && !this.rows.board.contains(document.activeElement)) this.rove(this.at, true);
  }
}
