// What is told of one chunk, and of how to read the picture while none is chosen.

// A bar for each part of a score; bars left of the axis are negative.
function bars(parts, names) {
  const pairs = [];
  for (let i = 0; i < parts.length; i += 2) pairs.push([names[parts[i]], parts[i + 1]]);
  const top = Math.max(0, ...pairs.map(([, value]) => value));
  const low = Math.min(0, ...pairs.map(([, value]) => value));
  const span = top - low || 1;
  return element(
    "ul",
    { class: "rl-parts" },
    ...pairs.map(([name, value]) => {
      const bar = element("span", { class: value < 0 ? "rl-addend rl-negative" : "rl-addend" });
      bar.style.left = `${((Math.min(0, value) - low) / span) * 100}%`;
      bar.style.width = `${(Math.abs(value) / span) * 100}%`;
      const axis = element("span", { class: "rl-axis" });
      axis.style.left = `${(-low / span) * 100}%`;
      return element(
        "li",
        {},
        element("span", { class: "rl-part-name" }, name),
        element("span", { class: "rl-track", "aria-hidden": "true" }, bar, axis),
        element("span", { class: "rl-part-value" }, figure(value)),
      );
    }),
  );
}

const figure = (value) => {
  const size = Math.abs(value);
  return value === 0
    ? "0"
    : size < 0.1
      ? value.toPrecision(3)
      : size < 100
        ? value.toFixed(3)
        : value.toFixed(1);
};

const MARK_CLASS = { "★": "rl-evidence", "●": "rl-cited", "◆": "rl-only-here" };

// Everything known of one chunk.
function chunkPanel(model, card, close) {
  const found = model.columns.flatMap((column) =>
    column.rows
      .filter(([id]) => id === card.id)
      .map(([, rank, score, parts]) => ({ column, rank, score, parts })),
  );
  const about = [card.heading, card.source, card.updated && `updated ${card.updated}`].filter(
    Boolean,
  );
  return [
    element(
      "div",
      { class: "rl-panel-top" },
      element("h2", {}, card.title || card.id),
      element(
        "button",
        { type: "button", class: "rl-close", "aria-label": "Clear the selection", onclick: close },
        "Clear",
      ),
    ),
    element("p", { class: "rl-id" }, card.id),
    ...about.map((words) => element("p", { class: "rl-about" }, words)),
    ...marksInWords(card).map((words) =>
      element("p", { class: `rl-mark ${MARK_CLASS[words[0]]}` }, words),
    ),
    element(
      "p",
      { class: isLost(card.fate) ? "rl-fate rl-lost" : "rl-fate" },
      sentence(inWords(card.fate)),
    ),
    element("h3", {}, "Text"),
    element("div", { class: "rl-text" }, card.text),
    element("h3", {}, "Rank and score at every stage"),
    ...found.flatMap(({ column, rank, score, parts }) => [
      element(
        "h4",
        {},
        element("span", {}, column.name),
        element("span", {}, column.stage === "assemble" ? `prompt [${rank}]` : `rank ${rank}`),
        element("span", {}, `score ${figure(score)}`),
      ),
      ...(column.stage === "assemble" ? [] : [bars(parts, model.names)]),
    ]), // the reranker's, once more
  ];
}

function welcomePanel(model) {
  const key = (kind, words) =>
    element(
      "li",
      {},
      element("span", { class: `rl-key rl-key-${kind}`, "aria-hidden": "true" }),
      words,
    );
  const verdict = model.verdict.length
    ? [
        element("h2", {}, "Where is the answer?"),
        ...model.verdict.map((words) => element("p", { class: "rl-verdict" }, words)),
      ]
    : [];
  return [
    ...verdict,
    element("h2", {}, "How to read this"),
    element(
      "p",
      {},
      "A row is a rank, a line is a chunk. Choose a row to see its text and what its score is made of.",
    ),
    element(
      "ul",
      { class: "rl-legend" },
      key("plain", "still in the running"),
      key("evidence", "★ holds the answer"),
      key("cited", "● cited by the answer"),
      key("lost", "× lost, and where"),
    ),
    element(
      "p",
      { class: "rl-keys" },
      "Keys: arrows move among rows, Enter chooses, Escape clears. In the bar above, left and right step, Home and End jump.",
    ),
  ];
}

const MARKS = {
  evidence: "★ holds the answer",
  cited: "● cited by the answer",
  "only-here": "◆ in this prompt, not in the other",
};

const marksInWords = (card) => card.marks.map((mark) => MARKS[mark] ?? mark);

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;
