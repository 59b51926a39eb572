// Where a question comes from: typed, chosen among the golden ones, or found by a search.

// Arrow keys run through a closed list, one question a press: only where they rest is asked.
const RESTS = 300; // milliseconds

function askForm(ctx) {
  const { model, put } = ctx;
  const input = element("input", { type: "text", autocomplete: "off", "aria-label": "Query" });
  const form = element(
    "form",
    {
      class: "rl-ask",
      onsubmit: (event) => {
        event.preventDefault();
        put("query", input.value);
      },
    },
    element("label", {}, element("span", {}, "Query"), input),
    element("button", { type: "submit", class: "rl-run" }, "Run"),
  );
  const { golden, sync } = goldenQuestions(ctx);
  ctx.watch(["query"], () => {
    if (document.activeElement !== input) input.value = model.get("query");
    sync();
  });
  input.value = model.get("query");
  form.append(golden, surpriseMenu(ctx));
  return form;
}

function goldenQuestions({ model, put, watch }) {
  let waiting;
  const golden = element("select", {
    class: "rl-golden",
    "aria-label": "Golden questions",
    onchange: () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => golden.value && put("query", golden.value), RESTS);
    },
  });
  function draw() {
    const kinds = model.get("kinds") ?? [];
    const count = kinds.reduce((sum, { questions }) => sum + questions.length, 0);
    golden.hidden = !count;
    golden.replaceChildren(
      element("option", { value: "" }, `Golden questions (${count})`),
      ...kinds.map(({ kind, questions }) =>
        element(
          "optgroup",
          { label: kind },
          ...questions.map(({ text }) => element("option", { value: text }, text)),
        ),
      ),
    );
    sync();
  }
  function sync() {
    golden.value = model.get("query");
    if (golden.selectedIndex < 0) golden.value = ""; // a query of the reader's own
  }
  watch(["kinds"], draw);
  draw();
  return { golden, sync };
}

// A menu of searches.  The last one stays in reach as a button: it finds another each time.
function surpriseMenu({ model, send, watch, announce }) {
  const search = (one) => {
    if (model.get("busy")) {
      announce("Still at work on what was asked before.");
      return;
    }
    again.hidden = false;
    again.setAttribute("aria-label", `Another: ${one.label}`);
    again.title = one.label;
    again.onclick = () => search(one);
    announce(`Searching: ${one.label}.`);
    send({ do: "surprise", kind: one.name });
  };
  const again = button("Another", () => {}, { hidden: true });
  const choices = element("div", {
    class: "rl-menu-items",
    role: "group",
    "aria-label": "Surprise me with",
  });
  const menu = foldedMenu("Surprise me", choices);
  const node = element("div", { class: "rl-surprise" }, menu.el, again);
  function draw() {
    const surprises = model.get("surprises") ?? [];
    node.hidden = !surprises.length;
    choices.replaceChildren(
      ...surprises.map((one) =>
        button(one.label, () => {
          menu.close();
          search(one);
        }),
      ),
    );
  }
  watch(["surprises"], draw);
  draw();
  return node;
}
