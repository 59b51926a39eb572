// The picture itself: columns of rows, a line for each chunk.

class Picture {
  constructor(select) {
    this.select = select;
    this.step = 0;
    this.chosen = "";
    this.drawnRows = new Map();
    this.drawnLines = new Map();
    this.lists = new Map();
    this.at = ""; // the row that Tab reaches
    this.heads = element("div", { class: "rl-heads" });
    this.lineLayers = ["lost", "plain", "marked"].map((name) =>
      drawn("g", { class: `rl-${name}-lines` }),
    );
    this.frame = drawn("g", { class: "rl-frame", "aria-hidden": "true" });
    this.board = drawn("g");
    this.svg = drawn(
      "svg",
      { role: "group", "aria-label": "Candidates at every stage" },
      this.frame,
      ...this.lineLayers,
      this.board,
    );
    this.queries = element("div", { class: "rl-queries" });
    this.answer = element("div", { class: "rl-answer", role: "group", "aria-label": "Answer" });
    this.hint = element("div", { class: "rl-hint", "aria-hidden": "true", hidden: true });
    this.sheet = element(
      "div",
      { class: "rl-sheet" },
      this.heads,
      this.svg,
      this.queries,
      this.answer,
      this.hint,
    );
    this.el = element(
      "div",
      { class: "rl-scroll", role: "region", "aria-label": "Flow of candidates" },
      this.sheet,
    );
    this.board.addEventListener("keydown", (event) => this.onKey(event));
    this.pen = document.createElement("canvas").getContext("2d");
    this.elided = new Map();
  }

  draw(model) {
    const changed = this.model && this.model !== model;
    this.family = getComputedStyle(this.el).fontFamily;
    const before = this.plan;
    this.model = model;
    this.plan = layOut(model, Math.max(this.el.clientWidth - 2, 640), this.step);
    const focused =
      document.activeElement?.closest?.(".rl-row") && this.board.contains(document.activeElement);
    this.drawLists();
    this.drawRows(changed ? before : null);
    this.drawLines();
    this.drawFrame();
    this.drawHeads();
    this.drawQueries();
    this.drawAnswer();
    this.show(this.step, this.chosen);
    if (changed) this.warm("", "");
    const reachable = [...this.plan.rows.keys()].filter(
      (key) => this.plan.rows.get(key).box.place <= this.step,
    );
    const at = reachable.includes(this.at) ? this.at : (reachable[0] ?? "");
    this.rove(at, focused && !this.board.contains(document.activeElement));
    if (at) this.el.removeAttribute("tabindex");
    else this.el.setAttribute("tabindex", "0"); // nothing inside to focus, and it may scroll
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), 800);
  }

  drawLists() {
    for (const [name, list] of this.lists)
      if (!this.plan.columns.has(name)) (list.remove(), this.lists.delete(name));
    for (const [name, box] of this.plan.columns) {
      if (!this.lists.has(name))
        this.lists.set(name, drawn("g", { role: "listbox", class: "rl-list" }));
      const list = this.lists.get(name);
      list.setAttribute("aria-label", `${name}, ${box.column.label}`);
      this.board.append(list);
    }
  }

  drawRows(before) {
    for (const [key, row] of this.drawnRows)
      if (!this.plan.rows.has(key)) (row.node.remove(), this.drawnRows.delete(key));
    for (const [key, row] of this.plan.rows) {
      const { card, box } = row;
      let now = this.drawnRows.get(key);
      if (!now) {
        now = { node: this.newRow(key, row.id), key };
        now.node.style.transform = `translate(${row.x}px, ${row.y}px)`; // it fades in where it belongs
        this.drawnRows.set(key, now);
        this.lists.get(box.column.name).append(now.node);
      }
      const was = before?.rows.get(key);
      Object.assign(now, row);
      now.source = this.sourceOf(row);
      const { node } = now;
      const marked = card.marks.length > 0;
      const small = row.height < 15 ? 11 : 12;
      node.style.fontSize = `${small}px`;
      const [pill, rank, label, second] = node.children;
      pill.setAttribute("width", box.width);
      pill.setAttribute("height", row.height - 1);
      const line = row.left ? this.plan.height + 2 : row.height;
      rank.textContent = row.rank;
      rank.setAttribute("y", line / 2);
      label.setAttribute("y", line / 2);
      const room = box.width - 24;
      label.textContent = this.elide((marked ? glyph(card) : "") + row.id, room, small, marked);
      second.textContent = row.left ? this.elide(card.fate.reason, room, 11, false) : "";
      second.setAttribute("y", line * 1.5 - 1);
      node.setAttribute("aria-label", this.spoken(row));
      node.setAttribute(
        "aria-posinset",
        box.left.length && row.left
          ? box.column.rows.length + 1 + box.left.indexOf(card)
          : row.index + 1,
      );
      node.setAttribute("aria-setsize", box.column.rows.length + box.left.length);
      node.classList.toggle("rl-evidence", card.marks.includes("evidence"));
      node.classList.toggle("rl-cited", card.marks.includes("cited"));
      node.classList.toggle("rl-leftout", Boolean(row.left));
      if (before && (!was || was.rank !== row.rank) && this.step >= box.place) this.flash(node);
    }
  }

  newRow(key, id) {
    const node = drawn(
      "g",
      {
        class: "rl-row rl-pending",
        role: "option",
        tabindex: "-1",
        "aria-selected": "false",
        onclick: () => {
          this.rove(key, true);
          this.select(this.chosen === id ? "" : id);
        },
        onpointerenter: () => this.warm(id, key),
        onpointerleave: () => this.warm("", ""),
        onfocus: () => {
          this.rove(key, false);
          this.warm(id, key);
        },
        onblur: () => this.warm("", ""),
      },
      drawn("rect", { class: "rl-pill", rx: 3 }),
      drawn("text", { class: "rl-rank", x: 17, dy: "0.34em", "text-anchor": "end" }),
      drawn("text", { class: "rl-label", x: 22, dy: "0.34em" }),
      drawn("text", { class: "rl-why", x: 22, dy: "0.34em" }),
    );
    return node;
  }

  sourceOf(row) {
    for (const name of row.box.column.after) {
      const source = this.plan.rows.get(`${name}\n${row.id}`);
      if (source) return source;
    }
    return { x: 0, y: row.box.y };
  }

  spoken({ id, rank, card, box, left }) {
    const marks = card.marks.map((mark) =>
      mark === "evidence" ? "holds the answer" : "cited by the answer",
    );
    const where = left ? `left out of ${box.column.name}` : `rank ${rank} in ${box.column.name}`;
    return [id, card.title, where, ...marks, inWords(card.fate)].filter(Boolean).join(", ");
  }

  drawLines() {
    const wanted = new Set();
    for (const row of this.plan.rows.values()) {
      for (const name of row.box.column.after) {
        const source = this.plan.rows.get(`${name}\n${row.id}`);
        if (!source || source.left) continue;
        const key = `${name}\n${row.box.column.name}\n${row.id}`;
        const path = bezier(
          source.x + source.box.width,
          source.y + source.height / 2,
          row.x,
          row.y + row.height / 2,
        );
        this.line(wanted, key, path, row.id, row.box.place, row.card);
      }
    }
    for (const box of this.plan.columns.values()) {
      if (box.column.after.length) continue;
      const middle = (box.y + box.bottom) / 2;
      const path = `${bezier(QUERY_WIDTH, this.queryTop(box) + 14, box.x - 8, middle)}M${box.x - 4} ${box.y}h-4V${box.bottom - 1}h4`;
      this.line(wanted, `\n${box.column.name}`, path, "", box.place, null);
    }
    for (const [key, line] of this.drawnLines)
      if (!wanted.has(key)) (line.node.remove(), this.drawnLines.delete(key));
  }

  line(wanted, key, path, id, place, card) {
    wanted.add(key);
    let now = this.drawnLines.get(key);
    if (!now) {
      now = { node: drawn("path", { class: "rl-line", pathLength: 1, "aria-hidden": "true" }) };
      this.drawnLines.set(key, now);
    }
    now.node.setAttribute("d", path);
    Object.assign(now, { id, place, card });
  }

  // The query that feeds a lane: the pipeline names the lanes of its second query "dense 2".
  queryOf(box) {
    const number = Number(/ (\d+)$/.exec(box.column.name)?.[1] ?? 1);
    return Math.min(number, this.model.queries.length) - 1;
  }

  queryTop(box) {
    const lanes = [...this.plan.columns.values()].filter((one) => one.place === 1);
    const first = lanes.find((one) => this.queryOf(one) === this.queryOf(box));
    return first.y - (first.lane ? LANE_HEAD - 2 : 0);
  }

  drawFrame() {
    const marks = [];
    for (const box of this.plan.columns.values()) {
      const { column, x, y, width } = box;
      if (box.lane) {
        const name = drawn("tspan", { class: "rl-lane-name" }, column.name);
        const room = width + 4 - this.widthOf(column.name, 12, true); // past it run the lines
        const long = `  ${column.label} · ${took(column)}`;
        const short = `  ${column.count} · ${took(column)}`;
        marks.push(
          drawn(
            "text",
            { class: "rl-lane", x: x + 2, y: y - 8, "data-place": box.place },
            name,
            this.widthOf(long, 11) <= room ? long : short,
          ),
        );
      }
      if (box.cut) {
        const middle = box.cut.y + CUT_ROOM / 2;
        marks.push(
          drawn(
            "g",
            { class: "rl-cut", "data-place": box.cut.place },
            drawn("path", { d: `M${x} ${middle}h${width / 2 - 34}m68 0h${width / 2 - 34}` }),
            drawn(
              "text",
              { x: x + width / 2, y: middle, dy: "0.34em", "text-anchor": "middle" },
              box.cut.says,
            ),
          ),
        );
      }
      if (box.left.length)
        marks.push(
          drawn(
            "text",
            { class: "rl-lane", x: x + 2, y: box.bottom + 16, "data-place": box.place },
            `left out by ${column.name}: ${box.left.length}`,
          ),
        );
    }
    for (const row of this.plan.rows.values()) {
      const { fate } = row.card;
      const loser = this.plan.columns.get(fate.step);
      if (!isLost(fate) || row.left || !loser?.column.after.includes(row.box.column.name)) continue;
      if (loser.left.includes(row.card)) continue; // its line goes on, and ends in the next column
      marks.push(
        drawn("path", {
          class: "rl-end",
          "data-place": fate.place,
          d: `M${row.x + row.box.width + 4} ${row.y + row.height / 2 - 2.5}l5 5m0 -5l-5 5`,
        }),
      );
    }
    this.frame.replaceChildren(...marks);
  }

  drawHeads() {
    const { columns, places, unit } = this.plan;
    const heads = this.model.stages
      .filter((stage) => stage.place < places.length)
      .map((stage) => {
        const boxes = [...columns.values()].filter((box) => box.place === stage.place);
        const [box] = boxes;
        const lines = [];
        if (boxes.length === 1) {
          const { label, tokens, budget } = box.column;
          const grouped = (count) => count.toLocaleString("en");
          lines.push(
            label,
            budget ? `${grouped(tokens)} of ${grouped(budget)} tokens` : took(box.column),
          );
        } else if (boxes.length) lines.push(`${boxes.length} side by side`);
        else
          lines.push(
            this.model.queries.length > 1 ? `${this.model.queries.length} queries` : "1 query",
            ...(stage.ms ? [took(stage)] : []),
          );
        const head = element(
          "div",
          { class: "rl-head", "data-place": stage.place },
          element("strong", {}, boxes.length === 1 ? box.column.name : stage.title),
          ...(box?.column.budget ? [element("small", {}, took(box.column))] : []),
          ...lines.map((words) => element("span", {}, words)),
        );
        head.style.left = `${box ? box.x : 0}px`;
        head.style.width = `${box ? box.width : QUERY_WIDTH + FEED - 6}px`;
        return head;
      });
    this.heads.replaceChildren(...heads);
    this.heads.style.width = `${Math.max(this.plan.right, unit)}px`;
  }

  drawQueries() {
    const tops = new Map();
    for (const box of this.plan.columns.values())
      if (box.place === 1) tops.set(this.queryOf(box), this.queryTop(box));
    const notes = this.model.queries.map(({ text, origin }, index) => {
      const note = element("p", { class: "rl-query", title: `${text} (${origin})` }, text);
      note.style.top = `${tops.get(index) ?? 4 + index * 60}px`;
      note.style.width = `${QUERY_WIDTH}px`;
      return note;
    });
    this.queries.replaceChildren(...notes);
  }

  drawAnswer() {
    const { answer, stages } = this.model;
    const last = [...this.plan.columns.values()].at(-1);
    this.answer.hidden = !answer || !last;
    let bottom = this.plan.bottom;
    if (answer && last) {
      const stage = stages.at(-1);
      const source = new Map(last.column.rows.map(([id, rank]) => [rank, id]));
      const pick = (number, words) =>
        source.has(number)
          ? element(
              "button",
              {
                type: "button",
                class: "rl-cite",
                "aria-label": `Citation ${number}, ${source.get(number)}`,
                onclick: () => this.select(source.get(number)),
              },
              words,
            )
          : words;
      const words = answer.text.split(/(\[\d+\][.,;:]?)/).map((piece) => {
        const [, number, stop] = /^\[(\d+)\](\W?)$/.exec(piece) ?? [];
        return number
          ? element("span", { class: "rl-together" }, pick(Number(number), `[${number}]`), stop)
          : piece;
      });
      this.answer.replaceChildren(
        element(
          "p",
          { class: "rl-answer-head" },
          element("strong", {}, answer.refused ? "No answer" : "Answer"),
          ` ${answer.origin} `,
          element("span", { class: "rl-together" }, `· ${took(stage)}`),
        ),
        element("p", { class: "rl-answer-text" }, ...words),
        element(
          "ol",
          { class: "rl-quotes" },
          ...answer.citations.map((one) =>
            element(
              "li",
              {},
              pick(one.number, `[${one.number}] ${one.chunk_id}`),
              element("q", {}, one.quote.length > 140 ? `${one.quote.slice(0, 139)}…` : one.quote),
            ),
          ),
        ),
      );
      this.answer.style.left = `${last.x}px`;
      this.answer.style.width = `${last.width}px`;
      this.answer.style.top = `${last.end + this.heads.offsetHeight + 10}px`;
      bottom = Math.max(bottom, last.end + this.answer.offsetHeight + 20);
    }
    fill(
      this.svg,
      { width: this.plan.right, height: bottom, viewBox: `0 0 ${this.plan.right} ${bottom}` },
      [],
    );
    this.queries.style.top = `${this.heads.offsetHeight}px`;
  }

  // What is reached, what is chosen: classes alone, so that CSS does all the moving.
  show(step, chosen) {
    this.step = step;
    this.chosen = chosen;
    const known = this.plan.cards.has(chosen);
    if (known) this.hint.hidden = true; // the panel tells more
    this.el.classList.toggle("rl-choosing", known);
    for (const { node, x, y, source, box, card, id } of this.drawnRows.values()) {
      const reached = step >= box.place;
      const at = reached ? { x, y } : source;
      node.style.transform = `translate(${at.x}px, ${at.y}px)`;
      node.classList.toggle("rl-pending", !reached);
      node.classList.toggle("rl-lost", isLost(card.fate) && step >= card.fate.place);
      node.classList.toggle("rl-chosen", id === chosen);
      node.setAttribute("aria-selected", String(id === chosen));
    }
    for (const { node, id, place, card } of this.drawnLines.values()) {
      const lost = card && isLost(card.fate) && step >= card.fate.place;
      const marks = card?.marks ?? [];
      node.classList.toggle("rl-pending", step < place);
      node.classList.toggle("rl-lost", Boolean(lost));
      node.classList.toggle("rl-evidence", marks.includes("evidence"));
      node.classList.toggle("rl-cited", marks.includes("cited"));
      node.classList.toggle("rl-from-query", !card);
      node.classList.toggle("rl-chosen", Boolean(id) && id === chosen);
      const layer = this.lineLayers[(id && id === chosen) || marks.length ? 2 : lost ? 0 : 1];
      if (node.parentNode !== layer) layer.append(node);
    }
    for (const node of [...this.frame.children, ...this.heads.children])
      node.classList.toggle("rl-pending", step < Number(node.dataset.place));
    for (const [name, list] of this.lists)
      list.classList.toggle("rl-pending", step < this.plan.columns.get(name).place);
    this.answer.classList.toggle("rl-pending", step < this.model.stages.length - 1);
  }

  // Hover and focus: the chunk's lines light up and its fate is told beside it.
  warm(id, key) {
    for (const one of [...this.drawnRows.values(), ...this.drawnLines.values()])
      one.node.classList.toggle("rl-warm", Boolean(id) && one.id === id);
    const row = this.plan.rows.get(key);
    this.hint.hidden = !row || this.step < row.box.place || id === this.chosen;
    if (this.hint.hidden) return;
    const { card } = row;
    const told = isLost(card.fate) && this.step < card.fate.place ? card.title : inWords(card.fate);
    this.hint.replaceChildren(
      element("strong", {}, row.id),
      element("span", {}, card.heading || card.title),
      element("span", { class: "rl-hint-fate" }, told),
    );
    const left = Math.min(row.x, this.el.scrollLeft + this.el.clientWidth - 250);
    this.hint.style.left = `${Math.max(0, left)}px`;
    const below = row.y + this.heads.offsetHeight + row.height + 4;
    const fits = below + this.hint.offsetHeight < this.el.scrollTop + this.el.clientHeight;
    this.hint.style.top = `${fits ? below : below - row.height - this.hint.offsetHeight - 8}px`;
  }

  rove(key, focus) {
    this.drawnRows.get(this.at)?.node.setAttribute("tabindex", "-1");
    this.at = key;
    const node = this.drawnRows.get(key)?.node;
    node?.setAttribute("tabindex", "0");
    if (focus) node?.focus();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = this.drawnRows.get(this.at);
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

  flash(node) {
    node.classList.remove("rl-flash");
    void node.getBoundingClientRect(); // lets the animation start anew
    node.classList.add("rl-flash");
  }

  // Once rows have come to rest, their order in the document follows their order on screen.
  settle() {
    const focused = this.board.contains(document.activeElement);
    for (const [key, row] of this.plan.rows) {
      const { node } = this.drawnRows.get(key);
      node.classList.remove("rl-flash");
      const list = this.lists.get(row.box.column.name);
      const place = row.left
        ? row.box.column.rows.length + row.box.left.indexOf(row.card)
        : row.index;
      if (list.children[place] !== node) list.insertBefore(node, list.children[place] ?? null);
    }
    if (focused && !this.board.contains(document.activeElement)) this.rove(this.at, true);
  }

  widthOf(text, size, bold = false) {
    this.pen.font = `${bold ? "600 " : ""}${size}px ${this.family}`;
    return this.pen.measureText(text).width;
  }

  elide(text, room, size, bold) {
    const key = `${text}\n${Math.floor(room)}\n${size}\n${bold}`;
    if (!this.elided.has(key))
      this.elided.set(
        key,
        this.shortened(text, (words) => this.widthOf(words, size, bold) <= room),
      );
    return this.elided.get(key);
  }

  shortened(text, fits) {
    if (fits(text)) return text;
    const tail = /#[^#]{1,6}$/.exec(text)?.[0] ?? ""; // "handbook-refunds#12" keeps its number
    const cut = (length) => `${text.slice(0, length).trimEnd()}…${tail}`;
    let [low, high] = [1, text.length - tail.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (fits(cut(middle))) low = middle;
      else high = middle - 1;
    }
    return cut(low);
  }
}
