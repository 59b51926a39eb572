// The rows of every list, and the labels that stay with bars.  A row is made once, then moved.

// Reading a style or a place back costs more than setting hundreds: what was set is kept here.
function put(now, name, value) {
  if (now.set[name] === value) return;
  now.set[name] = value;
  if (name === "transform") now.node.style.transform = value;
  else now.node.setAttribute(name, value);
}

// A bar is one node. Any other row is a pill with words on it.
function rowNode(kind) {
  const about = { role: "option", tabindex: "-1" };
  if (kind === "bar") return drawn("rect", about);
  const text = (name, x, more = {}) => drawn("text", { class: name, x, dy: "0.34em", ...more });
  return drawn(
    "g",
    about,
    drawn("rect", { class: "rl-pill", rx: 3 }),
    text("rl-rank", 17, { "text-anchor": "end" }),
    text("rl-label", 22),
    ...(kind === "left" ? [text("rl-why", 22)] : []),
  );
}

const kindOf = ({ left, box }) => (left ? "left" : box.thin ? "bar" : "row");

class Rows {
  constructor(ruler) {
    this.ruler = ruler;
    this.board = drawn("g");
    this.tags = drawn("g", { class: "rl-tags", "aria-hidden": "true" });
    this.lists = new Map();
    this.drawn = new Map(); // by "list\nchunk"
    this.tagged = new Map(); // the labels of bars, by the same key
    this.templates = new Map();
  }

  // `flashing`: rows that are new, or have another rank, flash once.
  draw(plan, { step, flashing }) {
    this.plan = plan;
    for (const [name, list] of this.lists)
      if (!plan.columns.has(name)) (list.remove(), this.lists.delete(name));
    for (const [name, box] of plan.columns) {
      if (!this.lists.has(name))
        this.lists.set(name, drawn("g", { role: "listbox", class: "rl-list" }));
      const list = this.lists.get(name);
      list.setAttribute("aria-label", `${name}, ${box.column.label}`);
    }
    const order = [...plan.columns.keys()].map((name) => this.lists.get(name));
    if (order.some((list, index) => this.board.children[index] !== list))
      this.board.append(...order);
    for (const [key, now] of this.drawn) {
      const row = plan.rows.get(key);
      if (!row || kindOf(row) !== now.kind) (now.node.remove(), this.drawn.delete(key));
    }
    const fresh = new Map(); // added to each list at once
    for (const [key, row] of plan.rows) {
      const now = this.drawn.get(key) ?? this.newRow(key, row, fresh);
      const moved = now.rank !== row.rank;
      Object.assign(now, row);
      now.source = this.sourceOf(row);
      this.write(now);
      if (flashing && moved && now.kind !== "bar" && step >= row.box.place) this.flash(now);
    }
    for (const [list, nodes] of fresh) list.append(...nodes);
  }

  newRow(key, row, fresh) {
    const kind = kindOf(row);
    if (!this.templates.has(kind)) this.templates.set(kind, rowNode(kind));
    const node = this.templates.get(kind).cloneNode(true);
    node.rlKey = key;
    const pieces = [...node.children].map((piece) => ({ node: piece, set: {} }));
    const now = { node, key, kind, pieces, set: {}, reached: false, flashed: "" };
    this.drawn.set(key, now);
    const list = this.lists.get(row.box.column.name);
    if (!fresh.has(list)) fresh.set(list, []);
    fresh.get(list).push(node);
    return now;
  }

  // Where a row comes from: its place in a list that its own list read.
  sourceOf({ id, box }) {
    for (const name of box.column.after) {
      const source = this.plan.rows.get(`${name}\n${id}`);
      if (source) return source;
    }
    return { x: 0, y: box.y };
  }

  write(now) {
    const { box, card, kind } = now;
    const [pill, rank, label, why] = kind === "bar" ? [now] : now.pieces;
    put(pill, "width", box.width);
    put(pill, "height", now.height >= 3 ? now.height - 1 : now.height);
    if (kind !== "bar") {
      const size = box.line < 15 ? 11 : 12;
      const middle = box.line / 2 + (why && box.wordy ? 1 : 0);
      const [room, bold] = [box.width - 24, card.marks.length > 0];
      const shown = this.ruler.fit(glyph(card) + now.id, room, size, bold);
      for (const [piece, text] of [[rank, String(now.rank)], [label, shown]]) {
        if (piece.text !== text) piece.node.textContent = piece.text = text;
        put(piece, "y", middle);
      }
      put(label, "font-size", size);
      if (why) {
        why.node.textContent = box.wordy ? this.ruler.fit(card.fate.reason, room, 11) : "";
        put(why, "y", box.line * 1.5 + 2);
      }
    }
    const [bar, out] = [kind === "bar" ? " rl-bar-row" : "", now.left ? " rl-leftout" : ""];
    now.dressed = `rl-row${bar}${markClasses(card)}${out}`;
    put(now, "aria-label", this.spoken(now));
    put(now, "aria-posinset", now.index + 1);
    put(now, "aria-setsize", box.column.rows.length + box.left.length);
  }

  spoken({ id, rank, card, box, left }) {
    const marks = { evidence: "holds the answer", cited: "cited by the answer" };
    marks["only-here"] = "in this prompt and not in the other one";
    const where = left ? `left out of ${box.column.name}` : `rank ${rank} in ${box.column.name}`;
    const meant = card.marks.map((mark) => marks[mark] ?? mark);
    return [id, card.title, where, ...meant, inWords(card.fate)].filter(Boolean).join(", ");
  }

  // What is reached, chosen, pointed at: classes alone, so that CSS does all the moving.
  // `look`: step, chosen, warm (chunk ids or ""), shares (of a word, by row).
  show(look) {
    for (const now of this.drawn.values()) {
      const { card, id } = now;
      const reached = look.step >= now.box.place;
      if (reached !== now.reached) {
        // Where several stages come or go at once, only the nearest one is seen to move.
        now.leaving = !reached && now.box.place === look.step + 1;
        now.still = reached && now.box.place !== look.step;
      }
      now.reached = reached;
      const at = reached ? now : now.source;
      put(now, "transform", `translate(${at.x}px, ${at.y}px)`);
      const share = reached ? look.shares?.get(now.key) : 0;
      let dress = now.dressed;
      if (!reached) dress += now.leaving ? " rl-pending rl-leaving" : " rl-pending";
      else if (now.still) dress += " rl-still";
      if (isLost(card.fate) && look.step >= card.fate.place) dress += " rl-lost";
      if (id === look.chosen) dress += " rl-chosen";
      if (id === look.warm) dress += " rl-warm";
      if (share > 0) dress += share > 0.3 ? " rl-worded rl-much" : " rl-worded";
      put(now, "class", dress + now.flashed);
      put(now, "aria-selected", String(id === look.chosen));
    }
    for (const [name, list] of this.lists)
      list.classList.toggle("rl-pending", look.step < this.plan.columns.get(name).place);
    this.drawTags(look);
  }

  // Bars that are marked, chosen or pointed at keep a label. The first of these has the first word.
  drawTags(look) {
    const runs = new Map();
    for (const now of this.drawn.values()) {
      if (!now.box.thin || now.left || !now.reached) continue;
      const [chosen, warm] = [now.id === look.chosen, now.id === look.warm];
      const worth = warm ? 4 : chosen ? 3 : now.card.marks.includes("evidence") ? 2 : 1;
      if (!chosen && !warm && !now.card.marks.length) continue;
      if (!runs.has(now.run)) runs.set(now.run, []);
      runs.get(now.run).push({ now, worth });
    }
    const wanted = new Set();
    for (const [run, many] of runs)
      for (const { now, y } of spread(run, many)) {
        wanted.add(now.key);
        this.tag(now, y, look);
      }
    for (const [key, tag] of this.tagged)
      if (!wanted.has(key)) (tag.node.remove(), this.tagged.delete(key));
  }

  tag(now, y, look) {
    let tag = this.tagged.get(now.key);
    if (!tag) {
      const back = drawn("rect", { rx: 3, height: TAG - 1, x: 8 });
      const words = drawn("text", { class: "rl-label", x: 11, y: 6, dy: "0.34em" });
      const node = drawn("g", {}, back, words);
      node.rlKey = now.key;
      tag = { node, back: { node: back, set: {} }, words, set: {} };
      this.tagged.set(now.key, tag);
      this.tags.append(node);
    }
    const room = now.box.width - 13; // a bar shows at both ends of its label
    const text = this.ruler.fit(`${now.rank} ${glyph(now.card)}${now.id}`, room - 6, 11, true);
    if (tag.text !== text) tag.words.textContent = tag.text = text;
    put(tag.back, "width", room);
    put(tag, "transform", `translate(${now.x}px, ${y}px)`);
    const warm = now.id === look.warm ? " rl-warm" : "";
    const chosen = now.id === look.chosen ? " rl-chosen" : "";
    // One that is there only while it is pointed at must not hide its neighbours from the pointer.
    const passing = warm && !chosen && !now.card.marks.length ? " rl-passing" : "";
    put(tag, "class", `rl-tag${markClasses(now.card)}${warm}${chosen}${passing}`);
  }

  // Another name for the same animation starts it again, with no need to ask the page for anything.
  flash(now) {
    now.flashed = now.flashed === " rl-flash" ? " rl-flash rl-again" : " rl-flash";
  }

  // Once rows have come to rest, their order in the document follows their order on screen.
  settle() {
    const orders = new Map([...this.lists.values()].map((list) => [list, []]));
    for (const key of this.plan.rows.keys()) {
      const now = this.drawn.get(key);
      const list = this.lists.get(now.box.column.name);
      orders.get(list)[now.index] = now.node;
      now.flashed = "";
      now.leaving = now.still = false;
    }
    for (const [list, order] of orders) {
      let at = list.firstChild;
      for (const node of order) {
        if (at === node) at = at.nextSibling;
        else list.insertBefore(node, at);
      }
    }
  }
}

const TAG = 13; // the height of a bar's label

// Labels of bars that stand close are moved apart, and stay within their run of bars.  Those that
// find no room are left out, the least worth first.
function spread({ top, bottom }, many) {
  const fit = Math.max(1, Math.floor((bottom - top) / TAG));
  const order = (a, b) => b.worth - a.worth || a.now.y - b.now.y;
  const taken = [...many].sort(order).slice(0, fit);
  taken.sort((a, b) => a.now.y - b.now.y);
  let free = top;
  for (const one of taken) {
    one.y = Math.max(free, one.now.y + one.now.height / 2 - TAG / 2);
    free = one.y + TAG;
  }
  let limit = Math.max(bottom, top + TAG) - TAG;
  for (const one of taken.reverse()) {
    one.y = Math.min(one.y, limit);
    limit = one.y - TAG;
  }
  return taken;
}
