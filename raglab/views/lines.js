// The lines: one for each chunk that goes from one list to the next, one from a query to each list.
// Hundreds of plain ones appear together, as one group; those that mean something draw themselves.

class Lines {
  constructor() {
    this.groups = new Map(); // by place: the plain lines that lead there
    this.marked = drawn("g", { class: "rl-marked-lines" });
    this.svg = drawn("svg", { class: "rl-lines", "aria-hidden": "true" }, this.marked);
    this.drawn = new Map();
  }

  draw(plan, queries) {
    this.plan = plan;
    this.wanted = new Set();
    const moved = new Set();
    for (const row of plan.rows.values()) {
      const { box, card } = row;
      for (const name of box.column.after) {
        const source = plan.rows.get(`${name}\n${row.id}`);
        if (!source || source.left) continue;
        const path = bezier(
          source.x + source.box.width,
          source.y + source.height / 2,
          row.x,
          row.y + row.height / 2,
        );
        const about = { id: row.id, place: box.place, card, lane: "" };
        this.line(`${name}\n${box.column.name}\n${row.id}`, path, about, moved);
      }
    }
    for (const box of plan.columns.values()) {
      if (box.column.after.length) continue;
      const middle = (box.y + box.bottom) / 2;
      const from = plan.notes[queryOf(box, queries)].top + 14;
      const bracket = `M${box.x - 4} ${box.y}h-4V${box.bottom - 1}h4`;
      const path = bezier(QUERY_WIDTH, from, box.x - 8, middle) + bracket;
      const about = { id: "", place: box.place, card: null, lane: box.column.name };
      this.line(`\n${box.column.name}`, path, about, moved);
    }
    for (const [key, line] of this.drawn)
      if (!this.wanted.has(key)) (line.node.remove(), this.drawn.delete(key));
    for (const place of moved) this.arrive(place);
  }

  line(key, path, about, moved) {
    this.wanted.add(key);
    let now = this.drawn.get(key);
    if (!now) {
      now = { node: drawn("path"), set: {} };
      this.drawn.set(key, now);
    }
    if (now.set.d !== undefined && now.set.d !== path) moved.add(about.place);
    put(now, "d", path);
    Object.assign(now, about);
  }

  group(place) {
    if (!this.groups.has(place)) {
      const now = { node: drawn("g", { class: "rl-reach" }), set: {} };
      this.groups.set(place, now);
      this.svg.insertBefore(now.node, this.marked);
    }
    return this.groups.get(place);
  }

  // The plain lines to a place fade in: their rows are on the move, and they would not follow.
  arrive(place) {
    const now = this.group(place);
    const name = now.set.class === "rl-reach rl-arrive" ? "rl-arrive rl-again" : "rl-arrive";
    put(now, "class", `rl-reach ${name}`);
  }

  show(look) {
    for (const place of this.groups.keys())
      if (look.step >= place && !(this.step >= place)) this.arrive(place);
    this.step = look.step;
    for (const now of this.drawn.values()) {
      const { id, place, card, lane } = now;
      const lost = card && isLost(card.fate) && look.step >= card.fate.place;
      const chosen = id && id === look.chosen;
      const fed = lane && look.chosen && this.plan.rows.has(`${lane}\n${look.chosen}`);
      let dress = "rl-line";
      if (card) dress += markClasses(card);
      else dress += fed ? " rl-from-query rl-fed" : " rl-from-query";
      if (look.step < place) dress += " rl-pending";
      if (lost) dress += " rl-lost";
      if (chosen) dress += " rl-chosen";
      if (id && id === look.warm) dress += " rl-warm";
      put(now, "class", dress);
      const layer = chosen || !card || card.marks.length ? this.marked : this.group(place).node;
      if (now.layer === layer) continue;
      now.layer = layer;
      if (layer === this.marked) now.node.setAttribute("pathLength", 1); // they draw themselves
      else now.node.removeAttribute("pathLength");
      // Those that will be lost lie below those that go on.
      if (layer !== this.marked && isLost(card.fate)) layer.prepend(now.node);
      else layer.append(now.node);
    }
  }
}
