// Predict, then reveal: the reader puts a stage's chunks in order before the picture does.
//
// Chunks are moved by dragging, by small buttons, or by the keys: Space lifts one, arrows move it,
// Space drops it, Escape puts it back.

const FEW = 6; // options that stand open side by side; more go into a list to choose from
const PULL = 5; // pixels after which a press is a drag
const REVEAL_ROW = 48; // pixels

// What the reader is done with: a place -> the challenge there, as text.  All panels must know, for
// none may tell of a stage that the picture still hides.
const PASSED = new WeakMap();

const challengeAt = (ctx, place) => ctx.model.get("challenges")?.[String(place)];

function holdsBack(ctx, place) {
  const challenge = ctx.model.get("predicting") && challengeAt(ctx, place);
  // Done is done with this very challenge, not with another that took its place.
  return Boolean(challenge) && PASSED.get(ctx)?.get(place) !== JSON.stringify(challenge);
}

// The last place that may be told of.
function seenUpTo(ctx) {
  if (!ctx.model.get("predicting")) return Infinity;
  const held = (ctx.data().stages ?? []).findIndex((_, place) => holdsBack(ctx, place));
  return Math.min(ctx.model.get("step"), held < 0 ? Infinity : held - 1);
}

function predictPanel(ctx) {
  const { model } = ctx;
  const passed = new Map();
  PASSED.set(ctx, passed);
  const guesses = new Map(); // a place -> { of: its challenge as text, order }
  const task = element("div");
  const knob = element("div");
  const score = element("p", { class: "rl-score" });
  const el = element(
    "section",
    { class: "rl-predict", "aria-label": "Prediction", tabindex: "-1" },
    task,
    knob,
    score,
  );
  let drawnTask = "";
  let drawnKnob = "";

  const step = () => Math.min(seenUpTo(ctx), (ctx.data().stages?.length ?? 1) - 1);
  const textOf = (place) => JSON.stringify(challengeAt(ctx, place));
  const titleOf = (place) => ctx.data().stages?.[place]?.title ?? "the next stage";
  const heading = (place) => element("h2", {}, `Predict: ${titleOf(place)}`);
  const go = (place) =>
    button(`Go on: show ${titleOf(place)}`, () => goOn(place), { class: "rl-go" });

  // The step may stand there already, held back: it is put anew, so that all who watch it look.
  function goOn(place) {
    passed.set(place, textOf(place));
    if (model.get("step") === place) ctx.put("step", place - 1);
    ctx.put("step", place);
    draw();
  }

  // -- one challenge ---------------------------------------------------------------------------

  function question(place, asked) {
    const [named, help] = [freshId(), freshId()];
    const list = orderList(asked, ctx, named, help);
    const reveal = () => {
      const order = list.order();
      guesses.set(place, { of: textOf(place), order });
      ctx.announce(`${inPairs(...pairsRight(order, asked.truth))} ${asked.why}`);
      ctx.put("guess", { place, order });
      draw();
    };
    return [
      heading(place),
      element("p", { id: named }, asked.question),
      list.el,
      element(
        "p",
        { class: "rl-how", id: help },
        "Best first. Drag, or: Space lifts, arrows move, Space drops, Escape puts it back.",
      ),
      element(
        "div",
        { class: "rl-actions" },
        button("Reveal", reveal, { class: "rl-go" }),
        button("Skip", () => goOn(place)),
      ),
    ];
  }

  function revealed(place, asked, order, words) {
    return [
      heading(place),
      line("pairs", words || inPairs(...pairsRight(order, asked.truth))),
      sideBySide(order, asked, ctx),
      line("how", "▲ higher than you put it, ▼ lower, = as you put it."),
      line("said", asked.why),
      element("div", { class: "rl-actions" }, go(place)),
    ];
  }

  function nothing(place) {
    if (place >= (ctx.data().stages?.length ?? 0))
      return [line("how", "Every stage is shown.")];
    return [
      line("how", `There is nothing to predict at ${titleOf(place)}.`),
      element("div", { class: "rl-actions" }, go(place)),
    ];
  }

  function drawTask() {
    const place = step() + 1;
    const asked = holdsBack(ctx, place) && challengeAt(ctx, place);
    const guess = asked && guesses.get(place)?.of === textOf(place) && guesses.get(place).order;
    const told = guess && model.get("reveal");
    const words = told && String(told.place) === String(place) ? told.words : "";
    const key = JSON.stringify([place, asked, guess, words, titleOf(place)]);
    if (key === drawnTask) return; // an order that is being made stays as it is
    drawnTask = key;
    if (!asked) task.replaceChildren(...nothing(place));
    else if (!guess) task.replaceChildren(...question(place, asked));
    else task.replaceChildren(...revealed(place, asked, guess, words));
  }

  // -- which knob? -----------------------------------------------------------------------------

  function drawKnob() {
    const asked = model.get("knob_question");
    const place = ctx.data().columns?.find((column) => column.stage === "assemble")?.place;
    const given = model.get("knob_guess");
    const told = (given && model.get("whynot")?.guess) || "";
    const shown = asked?.question && place !== undefined && step() >= place;
    const key = shown ? JSON.stringify([asked, given, told]) : "";
    if (key === drawnKnob) return;
    drawnKnob = key;
    if (!shown) return knob.replaceChildren();
    knob.replaceChildren(
      element("h2", {}, "Which knob?"),
      element("p", {}, asked.question),
      ...(given
        ? [
            line("how", `You said: ${given}`),
            line("said", told || "Each knob is tried, one by one."),
          ]
        : [knobForm(asked.options)]),
    );
    if (told) ctx.announce(told);
  }

  function knobForm(options) {
    const name = freshId();
    const radio = (value) => element("input", { type: "radio", name, value, required: true });
    const one = (option) => element("label", {}, radio(option), option);
    const choice =
      options.length <= FEW
        ? element(
            "fieldset",
            { class: "rl-options" },
            element("legend", { class: "rl-unseen" }, "One knob"),
            ...options.map(one),
          )
        : element(
            "select",
            { "aria-label": "One knob", required: true, name },
            element("option", { value: "" }, "Choose one"),
            ...options.map((option) => element("option", { value: option }, option)),
          );
    const answer = (event) => {
      event.preventDefault();
      ctx.announce("Each knob is tried, one by one.");
      ctx.put("knob_guess", new FormData(event.target).get(name));
      draw();
    };
    return element(
      "form",
      { class: "rl-actions", onsubmit: answer },
      choice,
      element("button", { type: "submit" }, "Check my answer"),
    );
  }

  // -- the whole -------------------------------------------------------------------------------

  function draw() {
    const focused = el.matches(":focus-within");
    el.hidden = !model.get("predicting");
    if (el.hidden) {
      passed.clear();
      guesses.clear();
      [drawnTask, drawnKnob] = ["", ""];
      task.replaceChildren();
      knob.replaceChildren();
      return;
    }
    drawTask();
    drawKnob();
    score.textContent = model.get("score");
    score.hidden = !score.textContent;
    if (focused && !el.matches(":focus-within")) (task.querySelector("button") ?? el).focus();
  }

  const drawnFrom = "predicting challenges step data reveal score knob_question knob_guess whynot";
  ctx.watch(drawnFrom.split(" "), draw);
  draw();
  return { el, holds: (place) => holdsBack(ctx, place) };
}

// How many pairs stand in the same order in both (Kendall 1938), and how many there are.
function pairsRight(guess, truth) {
  const place = new Map(truth.map((id, at) => [id, at]));
  let [right, pairs] = [0, 0];
  guess.forEach((above, at) => {
    for (const below of guess.slice(at + 1)) {
      pairs += 1;
      if (place.get(above) < place.get(below)) right += 1;
    }
  });
  return [right, pairs];
}

const inPairs = (right, pairs) => `${right} of ${pairs} pairs ${right === 1 ? "is" : "are"} right.`;

// -- an order to make -----------------------------------------------------------------------------

function orderList(asked, ctx, named, help) {
  const list = element("ol", { class: "rl-order", "aria-labelledby": named });
  const items = () => [...list.children];
  const at = (item) => items().indexOf(item);
  const lifter = (item) => item.querySelector(".rl-lift");
  let lifted = null; // { item, from: the order when it was lifted }

  const nameOf = (id) => asked.titles?.[id] || id;
  const placed = (item) => `place ${at(item) + 1} of ${items().length}`;

  for (const id of asked.chunk_ids) {
    const lift = { "aria-pressed": "false", "aria-describedby": help };
    const pull = (words, by, way) =>
      button(words, () => nudge(item, by), {
        class: `rl-small rl-${way}`,
        tabindex: "-1",
        "aria-label": `Move ${id} ${way}`,
      });
    const item = element(
      "li",
      { "data-chunk": id },
      element("span", { class: "rl-grip", "aria-hidden": "true" }, "⠿"),
      element("span", { class: "rl-place", "aria-hidden": "true" }),
      element(
        "button",
        { type: "button", class: "rl-lift", ...lift, onclick: () => toggle(item) },
        element("span", { class: "rl-unseen" }),
        element("bdi", { class: "rl-order-title" }, nameOf(id)),
        element("bdi", { class: "rl-order-id" }, id),
      ),
      button("Text", () => ctx.choose(id), { class: "rl-small", "aria-label": `Text of ${id}` }),
      pull("▲", -1, "up"),
      pull("▼", 1, "down"),
    );
    list.append(item);
  }
  number();

  function number() {
    items().forEach((item, n) => {
      item.querySelector(".rl-place").textContent = n + 1;
      lifter(item).firstChild.textContent = `${n + 1}. `;
      item.querySelector(".rl-up").disabled = n === 0;
      item.querySelector(".rl-down").disabled = n === items().length - 1;
    });
  }

  // The others move around the item, so that it keeps the focus and the pointer.
  function move(item, by) {
    const other = by < 0 ? item.previousSibling : item.nextSibling;
    if (!other) return false;
    list.insertBefore(other, by < 0 ? item.nextSibling : item);
    number();
    return true;
  }

  function restore(item, order) {
    const home = order.indexOf(item);
    while (at(item) > home) move(item, -1);
    while (at(item) < home) move(item, 1);
  }

  function nudge(item, by) {
    move(item, by);
    ctx.announce(`${item.dataset.chunk}, ${placed(item)}.`);
  }

  function toggle(item) {
    if (lifted?.item === item) return drop(`Dropped ${item.dataset.chunk} at ${placed(item)}.`);
    if (lifted) drop();
    lifted = { item, from: items() };
    lifter(item).setAttribute("aria-pressed", "true");
    item.classList.add("rl-lifted");
    const keys = "Arrows move it, Space drops it, Escape puts it back.";
    ctx.announce(`Lifted ${item.dataset.chunk}, ${placed(item)}. ${keys}`);
  }

  function drop(words) {
    lifter(lifted.item).setAttribute("aria-pressed", "false");
    lifted.item.classList.remove("rl-lifted");
    lifted = null;
    if (words) ctx.announce(words);
  }

  list.addEventListener("keydown", (event) => {
    const item = event.target.closest(".rl-lift")?.parentNode;
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "Escape" && lifted) {
      const { from } = lifted;
      restore(lifted.item, from);
      drop(`${item.dataset.chunk} is put back, ${placed(item)}.`);
    } else if (by && lifted?.item === item) nudge(item, by);
    else if (by) lifter(items()[at(item) + by] ?? item).focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("focusout", (event) => {
    if (lifted && event.target === lifter(lifted.item)) drop();
  });

  // Dragging: the item follows the pointer, and the others make room.
  list.addEventListener("pointerdown", (event) => {
    const item = event.target.closest("li");
    if (!item || event.button || event.target.closest(".rl-small")) return;
    const before = items();
    const top = () => item.getBoundingClientRect().top - shift;
    const middle = (one) => {
      const box = one.getBoundingClientRect();
      return box.top + box.height / 2;
    };
    let shift = 0;
    let dragging = false;
    const start = event.clientY;
    const grip = start - top();
    const follow = ({ clientY, pointerId }) => {
      if (!dragging && Math.abs(clientY - start) < PULL) return;
      if (!dragging) {
        if (lifted) drop();
        dragging = true;
        item.setPointerCapture(pointerId);
        item.classList.add("rl-dragged");
      }
      while (item.previousSibling && clientY < middle(item.previousSibling)) move(item, -1);
      while (item.nextSibling && clientY > middle(item.nextSibling)) move(item, 1);
      const to = clientY - grip - top();
      shift = to;
      item.style.transform = `translateY(${to}px)`;
    };
    const end = ({ type }) => {
      for (const [name, act] of acts) document.removeEventListener(name, act);
      if (!dragging) return;
      item.style.transform = "";
      item.classList.remove("rl-dragged");
      if (type === "pointercancel") return restore(item, before);
      // The click that ends a drag lifts nothing.
      const still = (click) => (click.stopPropagation(), click.preventDefault());
      list.addEventListener("click", still, { capture: true, once: true });
      setTimeout(() => list.removeEventListener("click", still, { capture: true }));
      ctx.announce(`Dropped ${item.dataset.chunk} at ${placed(item)}.`);
    };
    const acts = [
      ["pointermove", follow],
      ["pointerup", end],
      ["pointercancel", end],
    ];
    for (const [name, act] of acts) document.addEventListener(name, act);
  });

  return { el: list, order: () => items().map((item) => item.dataset.chunk) };
}

// -- the guess beside the truth -------------------------------------------------------------------

function sideBySide(order, asked, ctx) {
  const holders = new Set(
    ctx.data().chunks?.filter((card) => card.marks.includes("evidence")).map((card) => card.id),
  );
  const title = (id) => `${holders.has(id) ? "★ " : ""}${asked.titles?.[id] || id}`;
  const row = (id, n, more = []) =>
    element(
      "li",
      {},
      element("span", { class: "rl-place" }, n + 1),
      element(
        "span",
        { class: "rl-order-words" },
        element("bdi", { class: "rl-order-title" }, title(id)),
        element("bdi", { class: "rl-order-id" }, id),
      ),
      ...more,
    );
  const moved = (id, n) => {
    const by = order.indexOf(id) - n; // places that it stands higher than it was put
    const [far, up] = [Math.abs(by), by > 0];
    const shown = by === 0 ? "=" : `${up ? "▲" : "▼"} ${far}`;
    const spoken = by === 0 ? "as you put it" : `${far} ${up ? "higher" : "lower"} than you put it`;
    return element(
      "span",
      { class: by === 0 ? "rl-moved rl-same" : "rl-moved", title: spoken },
      element("span", { "aria-hidden": "true" }, shown),
      element("span", { class: "rl-unseen" }, spoken),
    );
  };
  const middle = (n) => (n + 0.5) * REVEAL_ROW;
  const lines = order.map((id, n) => {
    const to = asked.truth.indexOf(id);
    const d = bezier(0, middle(n), 40, middle(to));
    return drawn("path", { class: to === n ? "rl-same" : null, d });
  });
  const high = order.length * REVEAL_ROW;
  const frame = { width: 40, height: high, viewBox: `0 0 40 ${high}`, "aria-hidden": "true" };
  return element(
    "div",
    { class: "rl-reveal" },
    element(
      "div",
      { class: "rl-yours" },
      element("h3", {}, "Your order"),
      element("ol", {}, ...order.map((id, n) => row(id, n))),
    ),
    drawn("svg", frame, ...lines),
    element(
      "div",
      {},
      element("h3", {}, "What happens"),
      element("ol", {}, ...asked.truth.map((id, n) => row(id, n, [moved(id, n)]))),
    ),
  );
}
