// Above the columns: what each list holds, took and would cost, and the funnel of all of them.

const FUNNEL = 34; // its height
const BAND = 30; // the height of its widest place

const IN_ENGLISH = new Intl.NumberFormat("en");
const IN_DOLLARS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const grouped = (count) => IN_ENGLISH.format(count);
const dollars = (usd) => `$${IN_DOLLARS.format(usd)}`;
const plural = (count, one) => `${grouped(count)} ${one}${count === 1 ? "" : "s"}`;

// What a list cost, in ever fewer words; the first says all. Older data knows the time alone.
function costsOf(column) {
  const { tokens, budget, usd } = column;
  const time = column.ms === undefined ? [] : [took(column)];
  const price = usd === undefined ? [] : [dollars(usd)];
  if (tokens === undefined) return [time.join("")];
  const of = budget ? ` of ${grouped(budget)}` : "";
  const held = `${grouped(tokens)}${of} token${tokens === 1 && !budget ? "" : "s"}`;
  const brief = `${budget ? `${grouped(tokens)}/${grouped(budget)}` : grouped(tokens)} tok`;
  return [
    [...time, held, ...price.map((one) => `${one} to send`)],
    [...time, held, ...price],
    [...time, brief, ...price],
    [...time, `${grouped(tokens)} tok`, ...price],
    [...time, ...(price.length ? price : [`${grouped(tokens)} tok`])],
  ].map((words) => words.join(" · "));
}

// What language models were asked on the way: "1 call · 210 tokens · $0.0006".
function callsOf({ calls, tokens, usd }) {
  if (!calls) return [];
  const price = usd === undefined ? [] : [dollars(usd)];
  return [
    [plural(calls, "call"), plural(tokens, "token"), ...price],
    [plural(calls, "call"), ...(price.length ? price : [`${grouped(tokens)} tok`])],
    price.length ? price : [plural(calls, "call")],
  ].map((words) => words.join(" · "));
}

function different(columns) {
  return new Set(columns.flatMap(({ rows }) => rows.map(([id]) => id))).size;
}

class Heads {
  constructor(ruler) {
    this.ruler = ruler;
    this.el = element("div", { class: "rl-heads" });
    this.band = drawn("svg", { class: "rl-band", role: "img", height: FUNNEL });
    this.funnel = element("div", { class: "rl-funnel" }, this.band);
    this.parts = new Map();
  }

  draw(plan, model) {
    const boxes = (place) => [...plan.columns.values()].filter((box) => box.place === place);
    this.el.replaceChildren(
      ...model.stages
        .filter((stage) => stage.place < plan.places.length)
        .map((stage) => this.head(stage, boxes(stage.place), model)),
    );
    this.el.style.width = `${Math.max(plan.right, plan.unit)}px`;
    this.drawFunnel(plan, model, boxes);
  }

  head(stage, boxes, model) {
    const [box] = boxes;
    const lines = [];
    let name = stage.title;
    let ways;
    if (boxes.length === 1) {
      name = box.column.name;
      lines.push(box.column.label);
      ways = costsOf(box.column);
    } else if (boxes.length) {
      lines.push(`${boxes.length} side by side`);
      const count = different(boxes.map(({ column }) => column));
      ways = [plural(count, "different chunk"), `${grouped(count)} different`];
    } else {
      const queries = model.queries.length;
      const asked = queries > 1 ? `${queries} queries` : "1 query";
      lines.push(stage.calls && stage.ms ? `${asked} · ${took(stage)}` : asked);
      ways = stage.calls ? callsOf(stage) : stage.ms ? [took(stage)] : [];
    }
    const width = box ? box.width : QUERY_WIDTH + FEED - 6;
    const head = element(
      "div",
      {
        class: "rl-head",
        "data-place": stage.place,
        title: [name, ...lines, ways[0]].filter(Boolean).join(" · "),
      },
      element("strong", {}, straight(name)),
      ...lines.map((words) => element("span", {}, straight(words))),
      element("span", { class: "rl-costs" }, this.ruler.firstThatFits(ways, width - 1, 11)),
    );
    head.style.left = `${box ? box.x : 0}px`;
    head.style.width = `${width}px`;
    return head;
  }

  // A band as high, at each place, as there are different chunks: what was measured, to scale.
  drawFunnel(plan, model, boxes) {
    const places = model.stages
      .filter(({ place }) => place > 0 && place < plan.places.length)
      .map((stage) => {
        const at = boxes(stage.place);
        const count = different(at.map(({ column }) => column));
        const { x, width } = at[0];
        const [words, told] =
          at.length > 1
            ? [`${grouped(count)} different`, `${count} different at ${stage.title}`]
            : [grouped(count), `${count} ${at[0].column.name}`];
        return { place: stage.place, count, from: x, to: x + width, words, told };
      });
    this.funnel.hidden = !places.length;
    if (!places.length) return;
    if (model.answer) {
      const last = places.at(-1);
      const width = last.to - last.from;
      const count = new Set(model.answer.citations.map((one) => one.chunk_id)).size;
      const cited = { count, place: model.stages.length - 1, cited: true };
      Object.assign(cited, { from: last.to - width * 0.3, to: last.to });
      places.push(Object.assign(cited, { words: `${count} cited`, told: `${count} cited` }));
      last.to = last.from + width * 0.5;
    }
    const most = Math.max(1, ...places.map(({ count }) => count));
    const half = ({ count }) => (count ? Math.max(0.75, (BAND / 2) * (count / most)) : 0);
    const middle = FUNNEL / 2;
    let before = { to: QUERY_WIDTH, half: 0.75 };
    const wanted = new Set();
    for (const one of places) {
      const high = half(one);
      const bend = (one.from - before.to) / 2;
      const side = (sign) => [middle + sign * before.half, middle + sign * high];
      const [a, b] = side(-1);
      const [c, d] = side(1);
      const [near, far] = [before.to + bend, one.from - bend];
      const path =
        `M${before.to} ${a}C${near} ${a} ${far} ${b} ${one.from} ${b}H${one.to}` +
        `V${d}H${one.from}C${far} ${d} ${near} ${c} ${before.to} ${c}Z`;
      const key = one.cited ? "cited" : String(one.place);
      wanted.add(key);
      this.part(key, one, path, high < 8 ? middle - high - 7 : middle);
      before = { to: one.to, half: high };
    }
    for (const [key, part] of this.parts)
      if (!wanted.has(key)) (part.node.remove(), this.parts.delete(key));
    fill(this.band, { width: plan.right, viewBox: `0 0 ${plan.right} ${FUNNEL}` }, []);
  }

  part(key, one, path, height) {
    let part = this.parts.get(key);
    if (!part) {
      const shape = drawn("path");
      const label = drawn("text", { dy: "0.35em" });
      part = { node: drawn("g", {}, shape, label), shape, label };
      this.parts.set(key, part);
      this.band.append(part.node);
    }
    Object.assign(part, one);
    part.shape.setAttribute("d", path);
    part.label.textContent = one.words;
    const side = one.cited ? { x: one.to, "text-anchor": "end" } : { x: one.from + 4 };
    fill(part.label, { ...side, y: height }, []);
  }

  show(step) {
    for (const node of this.el.children)
      node.classList.toggle("rl-pending", step < Number(node.dataset.place));
    const told = [];
    for (const part of this.parts.values()) {
      const reached = step >= part.place;
      const cited = part.cited ? " rl-cited" : "";
      part.node.setAttribute("class", `rl-neck${cited}${reached ? "" : " rl-pending"}`);
      if (reached) told.push(part.told);
    }
    this.band.setAttribute("aria-label", `Funnel: ${told.join(", ") || "nothing found yet"}`);
  }
}
