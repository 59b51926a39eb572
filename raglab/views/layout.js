// Where everything stands, and how a node is made.  The widgets' scripts are joined after this one.
// Document text reaches the page through text nodes and attributes alone, never as markup.

const NS = "http://www.w3.org/2000/svg";
const QUERY_WIDTH = 96; // pixels, as are all numbers below
const FEED = 24; // between the query and its lanes
const LEAST_COLUMN = 98; // if columns would be narrower, the picture scrolls sideways, and then
const EASY_COLUMN = 118; // they are wider, if not so wide that the Explorer sets knobs above them
const TALL = 600; // rows shrink, from 19 down to 13, to fit this height, all of them alike
const MANY = 54; // a place with more rows than this draws them as bars, of 5 down to 1
const TALLEST = 700; // which such bars shrink to fit
const CUT_ROOM = 16; // an empty band in a column, for the words "cut at 20"
const LEFT_HEAD = 24; // above what an assembler left out

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(NS, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children); // strings become text nodes
  return node;
}

const isLost = (fate) => fate.kind === "cut" || fate.kind === "dropped";
const inWords = (fate) => (isLost(fate) ? `lost at ${fate.step}: ${fate.reason}` : fate.reason);
const took = (step) => (step.reused ? "reused" : `${Number(step.ms.toPrecision(2))} ms`);

// A meaning of a chunk has a sign beside its colour, so that no one needs the colour.
const SIGNS = { evidence: "★", cited: "●", "only-here": "◆" };
const glyph = ({ marks }) =>
  Object.keys(SIGNS)
    .filter((mark) => marks.includes(mark) && !(mark === "cited" && marks.includes("evidence")))
    .map((mark) => `${SIGNS[mark]} `)
    .join("");
const markClasses = ({ marks }) => marks.map((mark) => ` rl-${mark}`).join("");

// Where everything stands. Steps that read the same lists share a place and are stacked as lanes.
function layOut(model, width, step) {
  const cards = new Map(model.chunks.map((card) => [card.id, card]));
  const places = [[]]; // the query's own place holds no list
  for (const column of model.columns) (places[column.place] ??= []).push(column);
  const depth = Math.max(1, places.length - 1);
  const gap = Math.min(60, Math.max(28, width * 0.045)); // between columns: where the lines run
  const widest = depth > 1 ? 1.3 : 1; // the last column holds the answer too
  const room = width - QUERY_WIDTH - FEED - (depth - 1) * gap - 4;
  const even = room / (depth - 1 + widest);
  const unit = even < LEAST_COLUMN ? EASY_COLUMN : even;
  const plan = { cards, places, columns: new Map(), rows: new Map(), cuts: [] };
  Object.assign(plan, { width, step, unit, gap });
  plan.bottom = 60;
  const shapes = places.map((at) => shapeOf(at, model));
  const full = Math.min(...shapes.map(({ thin, height }) => (thin ? 16 : height)));
  places.forEach((at, place) => {
    const x = QUERY_WIDTH + FEED + (place - 1) * (unit + gap);
    const shape = shapes[place];
    if (!shape.thin) shape.height = shape.line = full;
    let y = 4;
    at.forEach((column, index) => {
      const box = { column, place, x, width: place === depth ? unit * widest : unit, ...shape };
      box.top = y;
      box.y = y + shape.head;
      box.left = shape.lefts[index];
      placeRows(box, plan, model);
      plan.columns.set(column.name, box);
      y = box.end + shape.apart;
    });
    plan.bottom = Math.max(plan.bottom, y);
  });
  plan.right = Math.max(0, ...[...plan.columns.values()].map((box) => box.x + box.width)) + 4;
  plan.notes = notesOf(plan, model.queries.length);
  return plan;
}

// How high a row is where so many stand. Past MANY they are bars, and only some carry a label.
function shapeOf(at, model) {
  const lefts = at.map((column) => leftOut(column, model));
  const lanes = at.length > 1;
  const out = lefts.flat().length;
  const wordy = out <= 6; // those left out have room for the reason
  const rows = at.reduce((sum, { rows }) => sum + rows.length, 0) + out * (wordy ? 2.3 : 1);
  const thin = rows > MANY;
  const priced = at.some((column) => column.tokens !== undefined); // a second line of words
  const tight = thin && at.length > 4;
  const head = !lanes ? 0 : tight ? 17 : priced ? 38 : 24;
  const apart = tight ? 5 : 8;
  const each = ((thin ? TALLEST : TALL) - at.length * (head + apart)) / Math.max(1, rows);
  const height = thin
    ? Math.min(5, Math.max(1, each < 3 ? Math.floor(each * 2) / 2 : Math.floor(each)))
    : Math.min(19, Math.max(13, Math.floor(each)));
  return { lefts, lane: lanes, thin, wordy, head, apart, height, line: 13 };
}

const leftOut = (column, { chunks }) =>
  column.stage !== "assemble"
    ? []
    : chunks.filter(({ fate }) => fate.kind === "dropped" && fate.step === column.name);

function placeRows(box, plan, model) {
  const { column, x, height } = box;
  const cut = cutIn(column, plan.cards, model);
  if (cut) plan.cuts.push(cut.place);
  let y = box.y;
  let run = { top: y }; // rows with nothing between them: labels of bars keep within it
  column.rows.forEach(([id, rank, score, parts], index) => {
    if (cut && index === cut.after && plan.step >= cut.place) {
      run.bottom = y;
      box.cut = { ...cut, y };
      y += CUT_ROOM;
      run = { top: y };
    }
    const row = { id, rank, score, parts, index, x, y, box, height, run };
    plan.rows.set(`${column.name}\n${id}`, Object.assign(row, { card: plan.cards.get(id) }));
    y += height;
  });
  if (box.thin) y = Math.max(y, run.top + 14); // room for one label
  run.bottom = box.bottom = y;
  if (box.left.length) y += LEFT_HEAD;
  box.left.forEach((card, index) => {
    const tall = box.wordy ? 2 * box.line + 5 : box.line;
    const at = { index: column.rows.length + index, x, y, box, height: tall, run };
    const row = { id: card.id, rank: "×", ...at, card, left: true };
    plan.rows.set(`${column.name}\n${card.id}`, row);
    y += tall + (box.wordy ? 3 : 0);
  });
  box.end = y;
}

// The rank after which a whole tail was cut by one step: drawn as a rule with its words.
function cutIn(column, cards, model) {
  const next = model.columns.find((other) => other.after.includes(column.name));
  const lost = (id) => {
    const { fate } = cards.get(id);
    return next && fate.kind === "cut" && fate.step === next.name;
  };
  let after = column.rows.length;
  while (after > 0 && lost(column.rows[after - 1][0])) after -= 1;
  const count = column.rows.length - after;
  if (!count) return null;
  const found = /cut at (\d+)$/.exec(cards.get(column.rows[after][0]).fate.reason);
  return { after, place: next.place, says: `cut at ${found ? found[1] : after}` };
}

// The query that feeds a lane: the pipeline names the lanes of its second query "dense 2".
function queryOf({ column }, queries) {
  const number = Number(/ (\d+)$/.exec(column.name)?.[1] ?? 1);
  return Math.max(0, Math.min(number, queries) - 1);
}

// Each query stands beside the first of its lanes, and ends where the next one begins.
function notesOf(plan, queries) {
  const tops = new Map();
  for (const box of plan.columns.values()) {
    const query = queryOf(box, queries);
    if (box.place === 1 && !tops.has(query)) tops.set(query, box.top);
  }
  const lowest = Math.max(0, ...tops.values());
  return Array.from({ length: queries }, (_, query) => {
    const top = tops.get(query) ?? 4 + (tops.size ? lowest + 60 : 0) + query * 60;
    const next = Math.min(...[...tops.values()].filter((other) => other > top));
    return { top, height: Math.min(160, next - top - 6) };
  });
}

function bezier(x1, y1, x2, y2) {
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
