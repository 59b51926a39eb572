// The two ends of the picture: the queries' words, and the answer's sentences.

const WORDS = /([\p{L}\p{N}_]+)/u;
const CITE = String.raw`\[\d+(?:\s*,\s*\d+)*\]`;
const CITING = new RegExp(`(${CITE})`);
// A sentence ends at a stop, with the citations that follow it, before a space and no small letter.
const STOP = String.raw`[.!?]["')\]]*(?:\s*${CITE})*[.,;:]?(?=\s+[^\s\p{Ll}]|\s*$)`;
const ENDS = new RegExp(String.raw`${STOP}|${CITE}(?=\s+\p{Lu})|\n+`, "gu");

// Do they begin alike?  "policies" and "polici" do.  words.py matches words and parts like this.
function startsLike(word, other) {
  const same = Math.max(3, Math.min(word.length, other.length) - 1);
  if (word === other || word.length < same || other.length < same) return word === other;
  return word.slice(0, same) === other.slice(0, same);
}

function sentencesOf(text) {
  const found = [];
  let from = 0;
  for (const end of text.matchAll(ENDS)) {
    const to = end.index + end[0].length;
    if (to > from) found.push(text.slice(from, to));
    from = to;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

class Notes {
  // `act`: select(chunk id), word(index or null)
  constructor(act) {
    this.act = act;
    this.queries = element("div", {
      class: "rl-queries",
      role: "group",
      "aria-label": "Query. A word lights up where it counts.",
      onkeydown: (event) => this.onKey(event),
      onpointerover: (event) => this.point(event.target),
      onpointerleave: () => this.point(null),
      onfocusin: (event) => this.point(event.target),
      onfocusout: () => this.act.word(null),
      onclick: (event) => event.target.closest(".rl-asked")?.focus(),
    });
    this.answer = element("div", { class: "rl-answer", role: "group", "aria-label": "Answer" });
  }

  drawQueries(model) {
    this.model = model;
    this.known = new Map(); // words that are behind a part of some score, by how they are written
    (model.words ?? []).forEach(({ text, names }, index) => {
      const key = text.toLowerCase();
      if (names.length && !this.known.has(key)) this.known.set(key, index);
    });
    this.notes = model.queries.map(({ text, origin }) =>
      element("p", { class: "rl-query", title: `${text} (${origin})` }, ...this.wordsOf(text)),
    );
    this.queries.replaceChildren(...this.notes);
    this.queries.querySelector(".rl-asked")?.setAttribute("tabindex", "0");
  }

  wordsOf(text) {
    return text.split(WORDS).map((piece, at) => {
      const index = at % 2 ? this.known.get(piece.toLowerCase()) : undefined;
      if (index === undefined) return piece;
      const about = { class: "rl-asked", role: "button", tabindex: "-1", "data-word": index };
      return element("span", about, piece);
    });
  }

  place(plan) {
    this.notes.forEach((note, index) => {
      const { top, height } = plan.notes[index];
      const size = { width: `${QUERY_WIDTH}px`, maxHeight: `${height}px` };
      Object.assign(note.style, { top: `${top}px`, ...size });
    });
    const last = [...plan.columns.values()].at(-1);
    this.answer.hidden = !this.model.answer || !last;
    if (!last) return;
    const { x, end, width } = last;
    const style = { marginLeft: `${x}px`, marginTop: `${end + 10}px`, width: `${width}px` };
    Object.assign(this.answer.style, style);
  }

  // The word that is pointed at, or else the one that has the focus.
  point(node) {
    const at = [node, document.activeElement].map((one) => one?.closest?.(".rl-asked"));
    const word = at.find((one) => this.queries.contains(one ?? null));
    this.act.word(word ? Number(word.dataset.word) : null);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.act.word(null);
    const words = [...this.queries.querySelectorAll(".rl-asked")];
    const at = words.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1 };
    const place = { ...to, Home: 0, End: words.length - 1 }[event.key];
    if (at < 0 || place === undefined) return;
    event.preventDefault();
    const next = words[place];
    if (!next) return;
    for (const word of words) word.setAttribute("tabindex", word === next ? "0" : "-1");
    next.focus();
  }

  drawAnswer(model, last) {
    this.sentences = [];
    const { answer, stages } = model;
    if (!answer || !last) return this.answer.replaceChildren();
    const stage = stages.at(-1);
    const source = new Map(last.column.rows.map(([id, rank]) => [rank, id]));
    const costs = [took(stage), ...callsOf(stage).slice(0, 1)].join(" · ");
    const quotes = answer.citations.map((one) => this.quote(one, source));
    this.answer.replaceChildren(
      element(
        "p",
        { class: "rl-answer-head" },
        element("strong", {}, answer.refused ? "No answer" : "Answer"),
        ` ${answer.origin} `,
        element("span", { class: stage.calls ? "" : "rl-together" }, `· ${costs}`),
      ),
      element(
        "p",
        { class: "rl-answer-text" },
        ...sentencesOf(answer.text).map((text) => this.sentence(text, source)),
      ),
      element("ol", { class: "rl-quotes" }, ...quotes),
    );
  }

  sentence(text, source) {
    const ids = new Set();
    const pieces = text.split(CITING).flatMap((piece, at) => {
      if (at % 2 === 0) return this.echoes(piece);
      const numbers = piece.match(/\d+/g).map(Number);
      for (const number of numbers) if (source.has(number)) ids.add(source.get(number));
      if (numbers.length === 1) return [this.pick(numbers[0], piece, source)];
      const picks = numbers.flatMap((number, n) => [
        n ? ", " : "[",
        this.pick(number, `${number}`, source),
      ]);
      return [element("span", { class: "rl-together" }, ...picks, "]")];
    });
    for (let at = 1; at < pieces.length; at += 1) {
      // A stop stays on the line of the citation that it follows.
      if (typeof pieces[at] !== "string" || typeof pieces[at - 1] === "string") continue;
      const [, stop, rest] = /^([.,;:])(.*)$/s.exec(pieces[at]) ?? [];
      if (!stop) continue;
      pieces[at - 1] = element("span", { class: "rl-together" }, pieces[at - 1], stop);
      pieces[at] = rest;
    }
    const node = element("span", { class: "rl-sentence" }, ...pieces);
    this.sentences.push({ node, ids });
    return node;
  }

  quote({ number, chunk_id, quote }, source) {
    const cut = quote.length > 140 ? `${quote.slice(0, 139)}…` : quote;
    const node = element(
      "li",
      { class: "rl-sentence" },
      this.pick(number, `[${number}] ${chunk_id}`, source),
      ...(quote ? [element("q", {}, ...this.echoes(cut))] : []),
    );
    this.sentences.push({ node, ids: new Set([chunk_id]) });
    return node;
  }

  pick(number, words, source) {
    if (!source.has(number)) return words;
    const id = source.get(number);
    const about = { type: "button", class: "rl-cite", "aria-label": `Citation ${number}, ${id}` };
    return element("button", { ...about, onclick: () => this.act.select(id) }, words);
  }

  // The words of the query that the answer says too.
  echoes(text) {
    const known = [...this.known];
    const find = (same) => known.find(([word]) => same(word));
    return text.split(WORDS).map((piece, at) => {
      if (at % 2 === 0) return piece;
      const said = piece.toLowerCase();
      const found = find((word) => word === said) ?? find((word) => startsLike(word, said));
      if (!found) return piece;
      return element("span", { class: "rl-echo", "data-word": found[1] }, piece);
    });
  }

  // `feeds`: the queries whose lanes found the chosen chunk.
  show({ step, chosen, word }, stages, feeds) {
    this.answer.classList.toggle("rl-pending", step < stages - 1);
    this.notes.forEach((note, index) => {
      note.classList.toggle("rl-fed", feeds.has(index));
      note.classList.toggle("rl-aside", feeds.size > 0 && !feeds.has(index));
    });
    const cited = this.sentences.some(({ ids }) => chosen && ids.has(chosen));
    for (const { node, ids } of this.sentences) {
      node.classList.toggle("rl-chosen", cited && ids.has(chosen));
      node.classList.toggle("rl-aside", cited && !ids.has(chosen));
    }
    for (const place of [this.queries, this.answer])
      for (const node of place.querySelectorAll("[data-word]"))
        node.classList.toggle("rl-worded", Number(node.dataset.word) === word);
  }
}
