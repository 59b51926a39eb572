// A document with its chunk boundaries, one pane for each strategy.
// chunkmap.py joins layout.js, controls.js and chunkmap.js.  Text reaches the page as text alone.

const TINTS = 4;
const SIDE_BY_SIDE = 3;
const HOW =
  "Point at a chunk, or move with the arrow keys, to see what it holds. A click keeps it, Escape lets it go.";

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// What is known of one chunk, in words.
function chunkInWords(card, map) {
  const told = [card.id, card.heading];
  if (card.pieces !== null) told.push(count(card.pieces, "word piece"));
  told.push(count(card.end - card.start, "character"));
  if (card.shared) {
    const { pieces, characters } = card.shared;
    const much = pieces === null ? count(characters, "character") : count(pieces, "word piece");
    told.push(`shares ${much} with chunk ${card.number + 1}`);
  }
  if (card.past) told.push(`the encoder does not read its last ${count(card.past, "word piece")}`);
  if (card.section) {
    const section = map.sections.find((one) => one.number === card.section);
    told.push(
      `stands for section §${card.section}, ${count(section.end - section.start, "character")}`,
    );
  }
  const held = map.quotes.filter((quote) => quote.held.includes(card.id));
  if (held.length) told.push(`holds quote ${held.map((quote) => quote.number).join(", ")} whole`);
  return told.filter(Boolean);
}

// One strategy's picture: figures, text, quotes.
class Pane {
  constructor(name, tell) {
    this.name = name;
    this.tell = tell; // (pane, card or null, how: "point", "focus", "choose")
    this.at = 0; // the chunk that Tab reaches
    this.figures = element("ul", { class: "rl-figures" });
    this.text = element("div", { class: "rl-document" });
    this.body = element(
      "div",
      { class: "rl-sheet-of-text", role: "region", "aria-label": `The text as ${name} cuts it` },
      this.text,
    );
    this.quotes = element("ul", { class: "rl-held-list", "aria-label": `Quotes, ${name}` });
    this.el = element(
      "section",
      { class: "rl-pane", "aria-label": name },
      element("h2", {}, name),
      this.figures,
      this.body,
      this.quotes,
    );
    this.text.addEventListener("keydown", (event) => this.onKey(event));
    this.text.addEventListener("pointerover", (event) =>
      this.tell(this, this.cardAt(event.target), "point"),
    );
    this.text.addEventListener("pointerleave", () => this.tell(this, null, "point"));
    this.text.addEventListener("click", (event) => this.onClick(event));
    this.text.addEventListener("focusin", (event) => {
      const card = this.cardAt(event.target);
      this.rove(card);
      this.tell(this, card, "focus");
    });
    this.text.addEventListener("focusout", (event) => {
      event.target.classList.remove("rl-quiet");
      this.tell(this, null, "focus");
    });
  }

  draw(data, map) {
    const focused = this.text.contains(document.activeElement);
    this.map = map;
    this.cards = new Map(map.chunks.map((card) => [card.number, card]));
    this.marks = new Map(); // chunk number -> its button
    this.spans = new Map(map.chunks.map((card) => [card.number, []]));
    this.cardOf = new WeakMap();
    this.text.replaceChildren(...this.segments(data, map));
    this.figures.replaceChildren(...map.says.map((words) => element("li", {}, words)));
    this.quotes.replaceChildren(...map.quotes.map(quoteRow));
    this.quotes.hidden = !map.quotes.length;
    this.rove(this.cards.get(this.at) ?? map.chunks[0]);
    if (this.marks.size) this.body.removeAttribute("tabindex");
    else this.body.setAttribute("tabindex", "0"); // nothing inside to focus, and it may scroll
    if (focused) this.marks.get(this.at)?.focus({ preventScroll: true });
  }

  segments(data, map) {
    const [low] = data.window;
    const letters = Array.from(data.text); // by character, as Python counts them
    const quotes = new Map(map.quotes.map((quote) => [quote.number, quote]));
    const nodes = [];
    for (const segment of map.segments) {
      nodes.push(...this.marksAt(segment.start, segment, map, low));
      const span = element(
        "span",
        { class: segmentClass(segment, quotes) },
        letters.slice(segment.start - low, segment.end - low).join(""),
      );
      const [first, last] = [segment.chunks[0], segment.chunks.at(-1)];
      if (segment.chunks.length > 1) {
        span.style.setProperty("--one", `var(--tint-${first % TINTS})`);
        span.style.setProperty("--two", `var(--tint-${last % TINTS})`);
      }
      for (const number of segment.chunks) this.spans.get(number).push(span);
      if (segment.chunks.length) this.cardOf.set(span, this.cards.get(last));
      nodes.push(span);
    }
    return nodes;
  }

  // What stands between two pieces of text: ends, sections, cuts, and the chunks' own numbers.
  marksAt(offset, segment, map, low) {
    const here = (start) => Math.max(start, low) === offset;
    const note = (words, kind) =>
      element("span", { class: `rl-note rl-note-${kind}`, "aria-hidden": "true" }, words);
    const ends = map.chunks.filter((card) => card.end === offset && segment.chunks.length);
    const nodes = ends
      .filter((card) => card.shared)
      .map((card) => note(`${card.number} ends`, "end"));
    if (map.quotes.some((quote) => quote.cuts.includes(offset))) nodes.push(note("✂", "severed"));
    nodes.push(
      ...map.sections
        .filter((one) => here(one.start))
        .map((one) => note(`§${one.number}`, "section")),
    );
    for (const number of segment.chunks) {
      const card = this.cards.get(number);
      if (here(card.start) && !this.marks.has(number)) nodes.push(this.mark(card, map));
      if (card.cut === offset) nodes.push(note(`${card.past} not read`, "unread"));
    }
    const before = segment.chunks.map((number) => this.cards.get(number - 1));
    const begins = (card) => this.cards.get(card.number + 1).start === offset;
    const { shared } = before.find((card) => card?.shared && begins(card)) ?? {};
    if (shared) nodes.push(note(`${shared.pieces ?? shared.characters} shared`, "shared"));
    return nodes;
  }

  mark(card, map) {
    const mark = button(String(card.number), () => {}, {
      class: `rl-boundary rl-tint-${card.number % TINTS}`,
      "aria-label": `Chunk ${card.number}: ${chunkInWords(card, map).join(", ")}`,
      tabindex: "-1",
    });
    this.marks.set(card.number, mark);
    this.cardOf.set(mark, card);
    return mark;
  }

  cardAt = (node) => this.cardOf?.get(node) ?? null;

  rove(card) {
    if (!card) return;
    this.marks.get(this.at)?.setAttribute("tabindex", "-1");
    this.at = card.number;
    this.marks.get(this.at)?.setAttribute("tabindex", "0");
  }

  // `kind` is "warm" for what is pointed at, "chosen" for what was clicked.
  light(card, kind) {
    for (const node of this.el.querySelectorAll(`.rl-${kind}`)) node.classList.remove(`rl-${kind}`);
    if (!card || !this.marks.has(card.number)) return;
    const nodes = [this.marks.get(card.number), ...this.spans.get(card.number)];
    for (const node of nodes) node.classList.add(`rl-${kind}`);
  }

  onKey(event) {
    event.target.classList.remove("rl-quiet");
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const numbers = [...this.marks.keys()];
    const place = numbers.indexOf(this.at);
    const last = numbers.length - 1;
    const to = {
      ArrowLeft: place - 1,
      ArrowUp: place - 1,
      ArrowRight: place + 1,
      ArrowDown: place + 1,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const mark = this.marks.get(numbers[Math.max(0, Math.min(last, to))]);
    mark.focus({ preventScroll: true });
    this.reveal(mark);
  }

  onClick(event) {
    const card = this.cardAt(event.target);
    if (!card || !document.getSelection().isCollapsed) return; // the reader is copying text
    this.rove(card);
    const mark = this.marks.get(card.number);
    if (event.detail) mark.classList.add("rl-quiet"); // by mouse or finger: no focus ring
    mark.focus({ preventScroll: true });
    this.tell(this, card, "choose");
  }

  // Scrolls the pane alone, never the page.
  reveal(node) {
    const box = this.body.getBoundingClientRect();
    const at = node.getBoundingClientRect();
    if (at.top < box.top + 12 || at.bottom > box.bottom - 48)
      this.body.scrollTop += at.top - box.top - box.height / 3;
  }
}

function segmentClass(segment, quotes) {
  const names = ["rl-segment"];
  if (segment.chunks.length > 1) names.push("rl-overlap");
  else if (segment.chunks.length) names.push(`rl-tint-${segment.chunks[0] % TINTS}`);
  if (segment.chunks.length && segment.past.length === segment.chunks.length)
    names.push("rl-unread");
  if (segment.quotes.length)
    names.push(
      segment.quotes.every((number) => quotes.get(number).held.length) ? "rl-whole" : "rl-severed",
    );
  return names.join(" ");
}

function quoteRow(quote) {
  const glyph = quote.held.length ? "✓" : quote.start === null ? "–" : "✂";
  const kind = quote.held.length ? "rl-is-whole" : "rl-is-severed";
  return element(
    "li",
    { class: quote.start === null ? "" : kind },
    element("span", { class: "rl-glyph", "aria-hidden": "true" }, glyph),
    element("span", {}, element("q", {}, quote.text), ` Quote ${quote.number} is ${quote.says}.`),
  );
}

function legend() {
  const key = (kind, sample, words) =>
    element("li", {}, element("span", { class: kind, "aria-hidden": "true" }, sample), words);
  return element(
    "ul",
    { class: "rl-map-legend", "aria-label": "How to read this" },
    key("rl-boundary rl-tint-0", "3", "chunk 3 begins"),
    key("rl-segment rl-overlap", "text", "shared by two chunks"),
    key("rl-segment rl-whole", "text", "a quote that a chunk holds whole"),
    key("rl-segment rl-severed", "✂ text", "a quote that was severed"),
    key("rl-segment rl-unread", "text", "past what the encoder reads"),
  );
}

function render({ model, el }) {
  const data = () => model.get("data");
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  let panes = new Map();
  let chosen = null; // { pane, card }
  let focused = null;
  let leader = null; // the pane that the others scroll with

  const status = element("p", { class: "rl-status", hidden: true });
  const live = element("div", { class: "rl-live", role: "status", "aria-live": "polite" });
  const line = element("div", { class: "rl-line-of-facts", role: "group", "aria-label": "Chunk" });
  const names = element("fieldset", { class: "rl-names" });
  const knobs = element("div", { class: "rl-knobs" });
  const asGiven = button("As given", () => put("settings", keptPart()), { class: "rl-as-given" });
  const controls = element("div", { class: "rl-controls" }, names, knobs, asGiven);
  const previous = button("Previous part", () => turn(-1));
  const next = button("Next part", () => turn(1));
  const where = element("span", {});
  const parts = element(
    "div",
    { class: "rl-bar rl-parts-bar", role: "group", "aria-label": "Parts of the document" },
    previous,
    next,
    where,
  );
  const grid = element("div", { class: "rl-panes" });
  const root = element(
    "div",
    { class: "raglab-flow raglab-map", onkeydown: rootKey },
    controls,
    parts,
    line,
    status,
    grid,
    legend(),
    live,
  );
  let knobBox;

  const announce = (words) => {
    live.textContent = words;
  };
  const keptPart = () => {
    const { part } = model.get("settings");
    return part === undefined ? {} : { part };
  };

  function turn(by) {
    put("settings", { ...model.get("settings"), part: data().part + by });
  }

  function drawKnobs() {
    knobBox = knobRow(model, put);
    knobs.replaceChildren(...knobBox.nodes);
    asGiven.hidden = !knobBox.nodes.length;
    drawSettings();
  }

  function drawSettings() {
    knobBox.sync();
    const { size, overlap } = model.get("settings");
    const held = document.activeElement === asGiven; // a disabled button would lose the focus
    asGiven.disabled = size === undefined && overlap === undefined;
    if (held && asGiven.disabled) knobs.querySelector("input").focus();
  }

  function drawNames() {
    const all = data().strategies;
    const shown = model.get("shown");
    names.hidden = all.length < 2;
    if (names.querySelectorAll("input").length !== all.length)
      names.replaceChildren(
        element("legend", {}, `Strategies${all.length > SIDE_BY_SIDE ? `, up to ${SIDE_BY_SIDE}` : ""}`),
        ...all.map((name) => {
          const box = element("input", { type: "checkbox", value: name, onchange: choose });
          return element("label", {}, box, name);
        }),
      );
    for (const box of names.querySelectorAll("input")) {
      box.checked = shown.includes(box.value);
      box.disabled = box.checked ? shown.length === 1 : shown.length >= SIDE_BY_SIDE;
    }
  }

  function choose() {
    const boxes = [...names.querySelectorAll("input")];
    put("shown", boxes.filter((box) => box.checked).map((box) => box.value));
  }

  function drawParts() {
    const { length, part, parts: count } = data();
    const [low, high] = data().window;
    parts.hidden = high - low === length;
    previous.hidden = next.hidden = Boolean(data().still); // no kernel behind the buttons
    const held = [previous, next].find((one) => one === document.activeElement);
    previous.disabled = part === 0;
    next.disabled = part === count - 1;
    if (held?.disabled) (held === next ? previous : next).focus();
    const to = (number) => number.toLocaleString("en");
    const place = `characters ${to(low)} to ${to(high)} of ${to(length)}`;
    where.textContent = `Part ${part + 1} of ${count}: ${place}.`;
  }

  function drawPanes() {
    const wanted = data().maps.filter((map) => model.get("shown").includes(map.name));
    const before = panes;
    panes = new Map(
      wanted.map((map) => [map.name, before.get(map.name) ?? new Pane(map.name, tell)]),
    );
    const same = before.size === panes.size && [...panes.keys()].every((name) => before.has(name));
    if (!same) grid.replaceChildren(...[...panes.values()].map((pane) => pane.el));
    grid.style.setProperty("--panes", wanted.length);
    focused = null;
    for (const map of wanted) {
      const pane = panes.get(map.name);
      pane.draw(data(), map);
      pane.body.onscroll ??= () => follow(pane);
      if (!before.has(map.name)) requestAnimationFrame(() => toQuote(pane));
    }
    if (chosen && panes.get(chosen.pane.name) !== chosen.pane) chosen = null;
    if (chosen) chosen.card = chosen.pane.cards.get(chosen.card.number);
    if (!chosen?.card) chosen = null;
    for (const pane of panes.values())
      pane.light(chosen?.pane === pane ? chosen.card : null, "chosen");
    drawLine(focused ?? chosen);
  }

  const toQuote = (pane) => {
    const first = pane.text.querySelector(".rl-whole, .rl-severed");
    if (first) pane.reveal(first);
  };

  // Panes hold the same text, so they scroll together, by their share of it.
  function follow(leading) {
    if (leader && leader !== leading) return;
    leader = leading;
    clearTimeout(follow.rest);
    follow.rest = setTimeout(() => (leader = null), 120);
    const room = (body) => body.scrollHeight - body.clientHeight;
    const share = leading.body.scrollTop / Math.max(1, room(leading.body));
    for (const pane of panes.values())
      if (pane !== leading) pane.body.scrollTop = share * room(pane.body);
  }

  function tell(pane, card, how) {
    if (how === "choose") {
      chosen = chosen?.pane === pane && chosen.card === card ? null : { pane, card };
      for (const one of panes.values()) one.light(chosen?.pane === one ? card : null, "chosen");
      announce(chosen ? `Chose ${inLine(chosen)}` : "No chunk is chosen.");
    }
    if (how === "focus") focused = card ? { pane, card } : null;
    const pointed = how === "point" && card ? { pane, card } : null;
    for (const one of panes.values())
      one.light((pointed ?? focused)?.pane === one ? (pointed ?? focused).card : null, "warm");
    drawLine(pointed ?? focused ?? chosen);
  }

  const inLine = ({ pane, card }) => `${pane.name}: ${chunkInWords(card, pane.map).join(" · ")}.`;

  function drawLine(found) {
    line.classList.toggle("rl-hint-line", !found);
    line.textContent = found ? inLine(found) : HOW;
    if (line.scrollHeight > line.clientHeight) line.setAttribute("tabindex", "0");
    else line.removeAttribute("tabindex");
  }

  function letGo() {
    chosen = null;
    for (const pane of panes.values()) pane.light(null, "chosen");
    drawLine(focused);
    announce("No chunk is chosen.");
  }

  // JupyterLab listens for single keys ("d d" deletes a cell): none may leave the widget.
  function rootKey(event) {
    if (event.key === "Escape" && chosen) letGo();
    if (event.key !== "Tab" && !event.ctrlKey && !event.metaKey && !event.altKey)
      event.stopPropagation();
  }

  function onData() {
    drawNames();
    drawParts();
    drawPanes();
  }

  function onShown() {
    drawNames();
    drawPanes();
    announce(`Shown: ${model.get("shown").join(", ")}.`);
  }

  function onStatus() {
    status.textContent = model.get("status");
    status.hidden = !status.textContent;
    if (status.textContent) announce(status.textContent);
  }

  const onBusy = () => root.setAttribute("aria-busy", String(model.get("busy")));

  const watched = {
    data: onData,
    shown: onShown,
    settings: drawSettings,
    knobs: drawKnobs,
    status: onStatus,
    busy: onBusy,
  };
  for (const [name, act] of Object.entries(watched)) model.on(`change:${name}`, act);

  el.append(root);
  drawKnobs();
  onData();
  onStatus();
  onBusy();

  return () => {
    clearTimeout(follow.rest);
    for (const [name, act] of Object.entries(watched)) model.off(`change:${name}`, act);
  };
}

export default { render };
