// Where everything stands, and how a node is made.  flow.py joins layout.js, picture.js and flow.js.
// Document text reaches the page through text nodes and attributes alone, never as markup.

const NS = "http://www.w3.org/2000/svg";
const QUERY_WIDTH = 84; // pixels, as are all numbers below
const FEED = 24; // between the query and its lanes
const LANE_HEAD = 24;
const TALL = 600; // rows shrink, down to 13, to fit this height
const CUT_ROOM = 16; // an empty band in a column, for the words "cut at 20"

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

// Where everything stands. Steps that read the same lists share a place and are stacked as lanes.
function layOut(model, width, step) {
  const cards = new Map(model.chunks.map((card) => [card.id, card]));
  const places = [[]]; // the query's own place holds no list
  for (const column of model.columns) (places[column.place] ??= []).push(column);
  const depth = Math.max(1, places.length - 1);
  const gap = Math.min(60, Math.max(32, width * 0.045)); // between columns: where the lines run
  const widest = depth > 1 ? 1.3 : 1; // the last column holds the answer too
  const unit = Math.max(
    92,
    (width - QUERY_WIDTH - FEED - (depth - 1) * gap - 4) / (depth - 1 + widest),
  );
  const leftOut = (column) =>
    column.stage !== "assemble"
      ? []
      : model.chunks.filter(
          (card) => card.fate.kind === "dropped" && card.fate.step === column.name,
        );

  const busiest = Math.max(1, ...places.map((at) => at.reduce((n, c) => n + c.rows.length, 0)));
  const heads = Math.max(1, ...places.map((at) => at.length)) * (LANE_HEAD + 8);
  const height = Math.min(19, Math.max(13, Math.floor((TALL - heads) / busiest)));

  const columns = new Map();
  const rows = new Map();
  let bottom = 60;
  places.forEach((at, place) => {
    const x = QUERY_WIDTH + FEED + (place - 1) * (unit + gap);
    const last = place === depth;
    let y = 4;
    for (const column of at) {
      if (at.length > 1) y += LANE_HEAD;
      const box = { column, place, x, y, width: last ? unit * widest : unit, lane: at.length > 1 };
      const cut = cutIn(column, cards, model);
      column.rows.forEach(([id, rank, score, parts], index) => {
        if (cut && index === cut.after && step >= cut.place) {
          box.cut = { ...cut, y };
          y += CUT_ROOM;
        }
        const row = { id, rank, score, parts, index, x, y, box, height, card: cards.get(id) };
        rows.set(`${column.name}\n${id}`, row);
        y += height;
      });
      box.bottom = y;
      const left = leftOut(column);
      if (left.length) y += LANE_HEAD;
      for (const card of left) {
        const row = { id: card.id, rank: "×", x, y, box, height: 2 * height + 5, card, left: true };
        rows.set(`${column.name}\n${card.id}`, row);
        y += row.height + 3;
      }
      columns.set(column.name, Object.assign(box, { left, end: y }));
      y += 8;
    }
    bottom = Math.max(bottom, y);
  });
  const right = Math.max(0, ...[...columns.values()].map((box) => box.x + box.width)) + 4;
  return { columns, rows, cards, places, height, bottom, right, unit, gap };
}

// The rank after which a whole tail was cut by one step: drawn as a rule with its words.
function cutIn(column, cards, model) {
  const next = model.columns.find((other) => other.after.includes(column.name));
  const lost = (id) => {
    const fate = cards.get(id).fate;
    return next && fate.kind === "cut" && fate.step === next.name;
  };
  let after = column.rows.length;
  while (after > 0 && lost(column.rows[after - 1][0])) after -= 1;
  const count = column.rows.length - after;
  if (!count) return null;
  const found = /cut at (\d+)$/.exec(cards.get(column.rows[after][0]).fate.reason);
  return { after, place: next.place, says: `cut at ${found ? found[1] : after}` };
}

function bezier(x1, y1, x2, y2) {
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

const glyph = (card) => (card.marks.includes("evidence") ? "★ " : "● ");
