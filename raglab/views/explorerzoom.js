// A chosen chunk, closely: its text with what lights up in it, and its score at every stage.
// With nothing chosen: where the answer is, and how to read the picture.
//
// While the reader predicts, no panel tells of a stage that the picture still hides.

const READING =
  "A row is a rank, a line is a chunk. Choose a row to see its text and what its score is made of.";
const CITED = ".rl-begins-cited";
const LATE =
  "The first stage's score, and for each piece of the query how much better this chunk matches it " +
  "than the other candidates do.";
const SIGNALS = 9; // of the learned reranker
const SEVERAL = 4; // addends that are still read as one sum
const DARKEST = 55; // percent of the colour in a heat map's cell: its number stays readable

const line = (kind, words) => element("p", { class: `rl-${kind}` }, words);

function zoomPanel(ctx) {
  const { model } = ctx;
  const body = element("div");
  const prompt = promptDialog(ctx);
  const el = element(
    "div",
    { class: "rl-panel rl-zoom", role: "region", "aria-label": "Chunk details", tabindex: "0" },
    body,
    prompt.dialog,
  );
  const open = new Map(); // a stage -> whether the reader left its fold open
  const texts = chunkTexts(ctx, fillIn);
  let shown = "";
  let places = null; // where the chunk's text and heat map go

  // The last place of this side's run that may be told of: what is predicted is A's.
  function limitOf() {
    const limit = seenUpTo(ctx);
    const other = ctx.side() === "b" && limit < Infinity && ctx.data("b");
    return other?.stages ? sameStage(limit, ctx.data(), other) : limit;
  }

  function draw() {
    const side = ctx.side();
    const data = ctx.data(side) ?? {};
    const card = data.chunks?.find((one) => one.id === model.get("selected"));
    const key = card ? `${side}\n${card.id}` : "";
    const focused = el.matches(":focus-within");
    const box = () => places?.text.firstElementChild ?? {};
    const scrolled = [el.scrollTop, box().scrollTop];
    const same = key === shown;
    shown = key;
    places = card ? { side, card, data, text: element("div"), heat: element("div") } : null;
    body.replaceChildren(...(card ? chunkNodes() : welcomeNodes(data)));
    if (card) fillIn();
    el.scrollTop = same ? scrolled[0] : 0;
    if (same) box().scrollTop = scrolled[1];
    if (focused && !el.matches(":focus-within")) el.focus({ preventScroll: true });
  }

  function chunkNodes() {
    const { side, card, data } = places;
    const limit = limitOf();
    const decided = card.fate.place <= limit;
    const answered = data.stages.length - 1 <= limit;
    const lost = decided && card.fate.kind !== "kept";
    const dated = [card.source, card.updated && `updated ${card.updated}`].filter(Boolean);
    const found = data.columns
      .filter(({ place, stage }) => place <= limit && stage !== "assemble") // which gives no scores
      .map((column) => ({ column, row: column.rows.find(([id]) => id === card.id) }))
      .filter(({ row }) => row);
    return [
      element(
        "div",
        { class: "rl-panel-top" },
        element("h2", {}, card.title || card.id),
        button("Clear", () => ctx.choose("", side), {
          class: "rl-close",
          "aria-label": "Clear the selection",
        }),
      ),
      line("id", card.id),
      ...[
        model.get("comparing") && `In pipeline ${side.toUpperCase()}`,
        headingAlone(card),
        dated.join(" · "),
      ]
        .filter(Boolean)
        .map((words) => line("about", words)),
      element(
        "p",
        { class: "rl-marks" },
        ...card.marks
          .filter((mark) => mark === "evidence" || answered)
          .map((mark) => element("span", { class: `rl-mark rl-${mark}` }, MARKS[mark] ?? mark)),
      ),
      element(
        "p",
        { class: lost && isLost(card.fate) ? "rl-fate rl-lost" : "rl-fate" },
        decided ? sentence(inWords(card.fate)) : "What becomes of it is not shown yet.",
      ),
      element(
        "div",
        { class: "rl-actions" },
        ...(lost && side === "a" && !ctx.offline
          ? [button("Why not this one?", () => ctx.send({ do: "why-not", chunk: card.id }))]
          : []),
        ...promptButton(data),
      ),
      element("h3", {}, "Text"),
      places.text,
      ...(found.length ? [element("h3", {}, "Score at every stage")] : []),
      ...stageFolds(ctx, data, side, found, open, places.heat),
    ];
  }

  // What Python is asked for comes later than the rest.
  function fillIn(side, chunk) {
    if (!places || (side && (side !== places.side || chunk !== places.card.id))) return;
    const { card, data, text, heat } = places;
    const limit = limitOf();
    const detail = texts.of(places.side, card.id);
    if (!detail) {
      const waiting = ctx.offline ? "The text is not in this page." : "reading…";
      text.replaceChildren(line("about rl-waiting", waiting));
      heat.replaceChildren();
      return;
    }
    const answered = data.stages.length - 1 <= limit;
    const lights = { ...detail, cited: answered ? (detail.cited ?? []) : [] };
    text.replaceChildren(...litText(lights, data, card.id));
    const rerank = data.columns.find((column) => column.stage === "rerank");
    const reached = rerank?.rows.some(([id]) => id === card.id);
    heat.replaceChildren(
      ...(detail.heat && rerank && rerank.place <= limit
        ? [heatFold(detail.heat, data, reached, open)]
        : []),
    );
    if (!goToLight(text, CITED)) goToLight(text, ".rl-begins-evidence");
  }

  // A citation of the chunk that is chosen already leads to the span that it cites.
  function onSelected() {
    const before = shown;
    draw();
    if (places && shown === before && goToLight(places.text, CITED)) scrollWithin(el, places.text);
  }

  function promptButton(data) {
    const assembled = data.columns?.find((column) => column.stage === "assemble");
    if (!assembled || assembled.place > limitOf()) return [];
    const [, number] = assembled.rows.find(([id]) => id === model.get("selected")) ?? [];
    const opener = button("The exact prompt", () => prompt.show(ctx.side(), number, opener), {
      "aria-haspopup": "dialog",
    });
    return [opener];
  }

  function welcomeNodes(data) {
    const key = (kind, words) =>
      element(
        "li",
        {},
        element("span", { class: `rl-key rl-key-${kind}`, "aria-hidden": "true" }),
        words,
      );
    const told = data.stages && data.stages.length - 1 <= limitOf() ? data.verdict : [];
    const comparing = model.get("comparing");
    const prompting = promptButton(data);
    return [
      ...(told.length ? [element("h2", {}, "Where is the answer?")] : []),
      ...told.map((words) => line("verdict", words)),
      ...(prompting.length ? [element("div", { class: "rl-actions" }, ...prompting)] : []),
      element("h2", {}, "How to read this"),
      element("p", {}, READING),
      element(
        "ul",
        { class: "rl-legend" },
        key("plain", "still in the running"),
        key("evidence", "★ holds the answer"),
        key("cited", "● cited by the answer"),
        key("lost", "× lost, and where"),
        ...(comparing ? [key("only", "◆ in this prompt, not in the other")] : []),
      ),
      line("keys", "Keys: arrows move among rows, Enter chooses, Escape clears."),
    ];
  }

  // One word of the query, wherever it shows: what is pointed at here lights up everywhere.
  let pointed = null;
  const point = (target) => {
    const found = target?.closest?.("[data-word]");
    const word = found && el.contains(found) ? Number(found.dataset.word) : null;
    if (word !== pointed) ctx.word((pointed = word));
  };
  el.addEventListener("pointerover", (event) => point(event.target));
  el.addEventListener("pointerleave", () => point(null));
  el.addEventListener("focusin", (event) => point(event.target));
  el.addEventListener("focusout", () => point(null));
  ctx.onWord((word) => {
    for (const node of el.querySelectorAll("[data-word], [data-lights]")) {
      const of = [node.dataset.word, node.dataset.lights];
      node.classList.toggle("rl-lit", word !== null && of.includes(String(word)));
    }
  });

  ctx.watch(["selected"], onSelected);
  ctx.watch(["data", "other", "comparing", "predicting"], draw);
  ctx.watch(["step"], () => model.get("predicting") && draw());
  draw();
  return { el };
}

// The texts that came from Python: each is asked for once a run, and forgotten with its run.
function chunkTexts(ctx, arrived) {
  const empty = () => ({ kept: new Map(), asked: new Set(), run: 0, of: "" });
  const sides = { a: empty(), b: empty() };
  // Marks change when a second pipeline is set beside the first; its lists only with a new run.
  const runOf = (data) => JSON.stringify([data.query, data.columns, data.answer, data.verdict]);

  function renew(side) {
    const here = sides[side];
    const data = ctx.data(side) ?? {};
    if (here.data === data) return here;
    here.data = data;
    const now = runOf(data);
    if (now !== here.of) here.kept.clear();
    here.of = now;
    // Python leaves a chunk that its run does not hold unanswered: such a question is off.
    const known = new Set(data.chunks?.map((card) => card.id));
    for (const id of here.asked) if (!known.has(id)) here.asked.delete(id);
    return here;
  }

  ctx.watch(["data", "other"], () => Object.keys(sides).forEach(renew));
  ctx.onMessage((content) => {
    if (content.kind !== "detail") return;
    const here = renew(content.side);
    if (content.run < here.run) return; // of a run that is gone
    if (content.run > here.run) here.kept.clear();
    here.run = content.run;
    here.kept.set(content.chunk, content.detail);
    here.asked.delete(content.chunk);
    arrived(content.side, content.chunk);
  });

  return {
    of(side, chunk) {
      if (ctx.offline) return ctx.model.get("details")?.[side]?.[chunk];
      const here = renew(side);
      if (!here.kept.has(chunk) && !here.asked.has(chunk)) {
        here.asked.add(chunk);
        ctx.send({ do: "detail", chunk, side });
      }
      return here.kept.get(chunk);
    },
  };
}

// -- text -----------------------------------------------------------------------------------------

// Chips that light and go to what they name, and the text in a box of its own.
function litText(detail, data, id) {
  const box = element(
    "div",
    { class: "rl-text", role: "region", "aria-label": `Text of ${id}`, tabindex: "0" },
    ...litRuns(detail),
  );
  const counts = new Map();
  for (const [, , word] of detail.words ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
  const words = data.words ?? [];
  const chip = (label, count, selector, attributes) => {
    let next = 0;
    return button(label, () => goToLight(box, selector, next++), {
      class: "rl-chip",
      "aria-label": `${label}, ${count} in the text: show the next`,
      ...attributes,
    });
  };
  const spans = [
    ["evidence", "★ the answer"],
    ["cited", "● cited"],
  ].filter(([kind]) => detail[kind]?.length);
  const there = [...counts.keys()].filter((index) => words[index]).sort((a, b) => a - b);
  const spelled = (index) => words[index].text.toLowerCase();
  const missing = words
    .filter(({ text }) => !there.some((index) => akin(spelled(index), text.toLowerCase())))
    .map(({ text }) => text);
  return [
    box,
    element(
      "div",
      { class: "rl-chips", role: "group", "aria-label": "What lights up in the text" },
      ...spans.map(([kind, label]) =>
        chip(label, detail[kind].length, `.rl-begins-${kind}`, {
          class: `rl-chip rl-mark rl-${kind}`,
        }),
      ),
      ...there.map((index) => {
        const count = counts.get(index);
        const selector = `.rl-word[data-word="${index}"]`;
        return chip(`${words[index].text} ×${count}`, count, selector, { "data-word": index });
      }),
    ),
    ...(missing.length ? [line("about", `Not in it: ${missing.join(", ")}`)] : []),
  ];
}

// Spans count characters as Python does; a string here counts some characters twice.
function litRuns(detail) {
  const text = /[\ud800-\udfff]/.test(detail.text) ? Array.from(detail.text) : detail.text;
  const word = new Array(text.length).fill(-1);
  const wash = new Array(text.length).fill("");
  const starts = new Map(); // where something begins -> its classes
  const begins = (at, kind) => starts.set(at, `${starts.get(at) ?? ""}${kind}`);
  for (const [from, to, index] of detail.words ?? []) {
    word.fill(index, from, to);
    begins(from, "");
  }
  for (const kind of ["cited", "evidence"])
    for (const [from, to] of detail[kind] ?? []) {
      for (let at = from; at < to; at++) wash[at] += wash[at].includes(kind) ? "" : ` rl-${kind}`;
      begins(from, ` rl-begins-${kind}`);
    }
  const nodes = [];
  let from = 0;
  for (let at = 1; at <= text.length; at++) {
    const on = at < text.length && word[at] === word[from] && wash[at] === wash[from];
    if (on && !starts.has(at)) continue;
    const piece = text.slice(from, at);
    const words = typeof piece === "string" ? piece : piece.join("");
    const lit = word[from] >= 0;
    const span = wash[from] ? ` rl-span${wash[from]}${starts.get(from) ?? ""}` : "";
    nodes.push(
      lit || span
        ? element(
            span ? "mark" : "span",
            { class: `${lit ? "rl-word" : ""}${span}`, "data-word": lit ? word[from] : null },
            words,
          )
        : words,
    );
    from = at;
  }
  return nodes;
}

// A heading begins with its document's title, which stands above it already.
const headingAlone = ({ heading, title }) =>
  heading.startsWith(title) ? heading.slice(title.length).replace(/^ > /, "") : heading;

// Scrolls the text in its box, and nothing else, to the n-th of what the selector finds.
function goToLight(place, selector, n) {
  const box = place.matches(".rl-text") ? place : place.querySelector(".rl-text");
  const found = [...(box?.querySelectorAll(selector) ?? [])];
  if (!found.length) return null;
  const target = found[(n ?? 0) % found.length];
  scrollWithin(box, target);
  for (const node of box.querySelectorAll(".rl-here")) node.classList.remove("rl-here");
  if (n !== undefined) target.classList.add("rl-here"); // the reader asked for it
  return target;
}

function scrollWithin(box, node) {
  const [frame, at] = [box.getBoundingClientRect(), node.getBoundingClientRect()];
  const seen = at.top >= frame.top && at.bottom <= frame.bottom;
  if (!seen) box.scrollTop += at.top - frame.top - box.clientHeight / 4;
}

// -- scores ---------------------------------------------------------------------------------------

// A fold for each stage, the furthest first. Which are open is remembered from chunk to chunk.
function stageFolds(ctx, data, side, found, open, heat) {
  const furthest = found.at(-1)?.column;
  const nodes = found.map(({ column, row }) => {
    const [, rank, score, parts] = row;
    const { how, sum, twin } = scored(data, column, row);
    return fold(
      column.name,
      [`rank ${rank}`, `score ${signed(score)}`],
      open,
      column === furthest,
      line("how", how),
      litBars(parts, data),
      ...(sum ? [line("sum", sum)] : []),
      ...(data.chunks.some((card) => card.id === twin)
        ? [button(`Choose ${twin}`, () => ctx.choose(twin, side))]
        : []),
    );
  });
  const reranked = found.findLastIndex(({ column }) => column.stage === "rerank");
  nodes.splice(reranked < 0 ? nodes.length : reranked, 0, heat);
  return nodes.reverse();
}

function fold(name, facts, open, usually, ...inside) {
  const summary = element(
    "summary",
    { onclick: () => open.set(name, !node.open) },
    element("strong", {}, name),
    ...facts.map((words) => element("span", {}, words)),
  );
  const node = element(
    "details",
    { class: "rl-fold", "data-fold": name, open: open.get(name) ?? usually },
    summary,
    ...inside,
  );
  return node;
}

// How a stage made this score, in words, and the sum where its addends are few.
function scored(data, column, [id, , score, parts]) {
  const names = parts.filter((_, at) => at % 2 === 0).map((n) => data.names[n]);
  const values = parts.filter((_, at) => at % 2 === 1);
  const sum = values.length > 1 && values.length <= SEVERAL ? addedUp(values, score) : "";
  const rows = column.after.map((name) => [
    name,
    data.columns.find((one) => one.name === name)?.rows.find(([other]) => other === id),
  ]);
  const [[only, before] = []] = rows.length === 1 ? rows : [];
  if (before && String(before[3]) === String(parts))
    return { how: `The score with which it came from ${only}.`, sum };
  if (column.stage === "retrieve") {
    if (names.every((name) => name === "cosine"))
      return { how: "The cosine of two vectors: the query's and the chunk's." };
    const more = column.settings.startsWith("RM3") ? ", and for each that RM3 added" : "";
    return { how: `A part for each word of the query that the chunk holds${more}.`, sum };
  }
  if (column.stage === "fuse") {
    const k = Number(/^RRF\(k=(\d+)/.exec(column.settings)?.[1] ?? NaN);
    if (Number.isNaN(k))
      return { how: "A part for each list: its score, brought to one scale.", sum };
    const weighted = !/weights=(\(\)|\{\})/.test(column.settings);
    const top = weighted ? "weight" : "1";
    const each = rows
      .filter(([, row]) => row)
      .map(([name, row]) => `${name} ${top} / (${k} + ${row[1]})`);
    return { how: `${top} / (k + rank) for each list: ${each.join(", ")}.`, sum };
  }
  if (names[0] === "relevance") {
    const [, found] = /trade=([\d.]+)/.exec(column.settings) ?? []; // long settings are cut short
    const rest = Number((1 - found).toFixed(3));
    const named = found
      ? `The trade is ${found}: ${found} × relevance − ${rest} × likeness`
      : "A share of relevance, less a share of likeness";
    if (names.length === 1) return { how: `${named}. Nothing like it was chosen before.`, sum };
    const twin = names[1].replace(/^like /, "");
    return { how: `${named} to the chunk above it that it is most like, ${twin}.`, sum, twin };
  }
  const pieces = names.filter((name) => name.startsWith("match: ")).length;
  if (pieces) {
    const late = values.slice(-pieces).reduce((total, value) => total + value, 0);
    const first = values.slice(0, -pieces);
    return {
      how: LATE,
      sum: addedUp([...first, late], score, ` (${pieces} pieces)`),
    };
  }
  if (names.includes("cross-encoder"))
    return { how: "The first stage's score and the cross-encoder's, on one scale.", sum };
  if (names.length === SIGNALS && names.includes("weakest tokens"))
    return { how: "Nine signals, each times the weight that was learned for it." };
  return { how: "The parts of its score.", sum };
}

const signed = (value) => figure(value).replace("-", "−");

// "0.0161 + 0.0154 = 0.0315"; where the figures shown do not quite add up, it says so.
function addedUp(values, score, note = "") {
  const shown = values.map((value, at) =>
    at === 0 ? signed(value) : `${value < 0 ? "−" : "+"} ${figure(Math.abs(value))}`,
  );
  const total = values.reduce((sum, value) => sum + Number(figure(value)), 0);
  const exact = figure(total) === figure(score);
  return `${shown.join(" ")}${note} ${exact ? "=" : "≈"} ${signed(score)}`;
}

// Bars that light with the word of the query that they come from.
function litBars(parts, data) {
  const list = bars(parts, data.names);
  [...list.children].forEach((item, at) => {
    const word = (data.words ?? []).findIndex(({ names }) => names.includes(parts[2 * at]));
    if (word >= 0) item.dataset.word = word;
  });
  return list;
}

// -- late interaction -----------------------------------------------------------------------------

// Rows are pieces of the query, columns pieces of the chunk. The framed cells add up to MaxSim.
function heatFold({ query, chunk, cosines, best }, data, reached, open) {
  const frames = best ?? cosines.map((row) => row.indexOf(Math.max(...row)));
  const [low, high] = [Math.min(...cosines.flat()), Math.max(...cosines.flat())];
  const words = (data.words ?? []).map((word) => word.text.toLowerCase());
  const wordOf = (piece) => {
    const found = words.findIndex((word) => akin(word, piece.toLowerCase()));
    return found < 0 ? null : found;
  };
  const columns = chunk.map(wordOf);
  const cell = (row, at) => {
    const value = cosines[row][at];
    const framed = frames[row] === at;
    const share = high > low ? ((value - low) / (high - low)) * DARKEST : 0;
    const node = element(
      "td",
      {
        class: framed ? "rl-best" : null,
        title: `${query[row]}, ${chunk[at]}: ${value.toFixed(2)}`,
        "data-lights": columns[at],
      },
      element("span", { class: framed ? null : "rl-unseen" }, value.toFixed(2)),
    );
    node.style.background = `color-mix(in srgb, var(--plain) ${share.toFixed(0)}%, var(--ground))`;
    return node;
  };
  const short = (value) => value.toFixed(2).replace("-", "−");
  const total = frames.reduce((sum, at, row) => sum + cosines[row][at], 0);
  const table = element(
    "table",
    { class: "rl-heat" },
    element("caption", { class: "rl-unseen" }, "Cosine of pieces of the query and of the chunk"),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("td"),
        ...chunk.map((piece, at) =>
          element("th", { scope: "col", "data-word": columns[at] }, element("span", {}, piece)),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      ...query.map((piece, row) =>
        element(
          "tr",
          { "data-word": wordOf(piece) },
          element("th", { scope: "row" }, piece),
          ...chunk.map((_, at) => cell(row, at)),
        ),
      ),
    ),
  );
  const how = [
    reached ? "" : "It never came to the reranker, which would have seen this.",
    "Rows: pieces of the query. Columns: pieces of the chunk near a best match.",
    `The stronger the colour, the higher the cosine (${short(low)} to ${short(high)}).`,
    "Framed: the best of its row; these add up to MaxSim.",
  ];
  return fold(
    "Piece by piece",
    [`MaxSim ${total.toFixed(2)}`],
    open,
    false,
    line("how", how.join(" ").trim()),
    element(
      "div",
      {
        class: "rl-heat-box",
        role: "region",
        "aria-label": "Heat map: which piece matched which",
        tabindex: "0",
      },
      table,
    ),
  );
}

// Spelled alike, as raglab/views/words.py has it.
function akin(word, part) {
  if (word === part || word.split("_").includes(part)) return true;
  const same = Math.max(3, Math.min(word.length, part.length) - 1);
  return Math.min(word.length, part.length) >= same && word.slice(0, same) === part.slice(0, same);
}
