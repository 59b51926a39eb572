// Every candidate as a table: what the picture shows, for who would rather read it.
// Up to a stage, `step`, the table tells nothing of what comes after, not even by its order.

function chunkTable(model, choose, step = Infinity) {
  const columns = model.columns.filter((column) => column.place <= step);
  const ranks = columns.map((column) => new Map(column.rows.map(([id, rank]) => [id, rank])));
  const head = [
    "Chunk",
    ...columns.map((column) => `${column.name} (${column.label}, ${took(column)})`),
    "What became of it",
  ];
  return element(
    "table",
    {},
    element("caption", {}, `Every candidate for: ${model.query}`),
    element(
      "thead",
      {},
      element("tr", {}, ...head.map((words) => element("th", { scope: "col" }, words))),
    ),
    element(
      "tbody",
      {},
      ...(step === Infinity ? model.chunks : reached(model.chunks, ranks)).map((card) =>
        element(
          "tr",
          {},
          element(
            "th",
            { scope: "row" },
            element(
              "button",
              { type: "button", class: "rl-cite", onclick: () => choose(card.id) },
              card.id,
            ),
          ),
          ...ranks.map((at) => element("td", {}, String(at.get(card.id) ?? ""))),
          element("td", {}, became(card, step)),
        ),
      ),
    ),
  );
}

function reached(cards, ranks) {
  const rank = (card) => ranks.at(-1).get(card.id) ?? Infinity;
  return cards
    .filter((card) => ranks.some((at) => at.has(card.id)))
    .sort((one, other) => rank(one) - rank(other) || (one.id < other.id ? -1 : 1));
}

function became(card, step) {
  if (step === Infinity) return [...marksInWords(card), inWords(card.fate)].join("; ");
  return isLost(card.fate) && card.fate.place <= step ? inWords(card.fate) : "still in the running";
}
