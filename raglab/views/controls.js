// Controls that the widgets share.  Every one is native, labelled and in reach of the keyboard.

const PATIENCE = 60; // milliseconds of quiet before a knob acts

function button(words, act, attributes = {}) {
  return element("button", { type: "button", ...attributes, onclick: act }, words);
}

const freshId = () => `rl-${crypto.getRandomValues(new Uint32Array(1))[0]}`;

// JupyterLab listens for single keys ("d d" deletes a cell): none may leave the widget.
function keepKeys(event) {
  if (event.key !== "Tab" && !event.ctrlKey && !event.metaKey && !event.altKey)
    event.stopPropagation();
}

// A menu that opens under its words, and closes on Escape or when the focus leaves it.
function foldedMenu(words, ...nodes) {
  const summary = element("summary", {}, words);
  const el = element(
    "details",
    {
      class: "rl-menu",
      onkeydown: (event) => {
        if (event.key !== "Escape" || !el.open) return;
        event.stopPropagation();
        close();
      },
      onfocusout: (event) => {
        if (!el.contains(event.relatedTarget)) el.open = false;
      },
    },
    summary,
    element("div", { class: "rl-menu-sheet", tabindex: "-1" }, ...nodes),
  );
  function close() {
    el.open = false;
    summary.focus();
  }
  return { el, close };
}

// A knob is a slider, a list to choose from, or a box for text that acts on Enter.
function knobInput(knob, attributes, turned) {
  if (knob.choices) {
    const options = knob.choices.map((choice) => element("option", { value: choice }, choice));
    const input = element("select", { ...attributes, onchange: () => turned(input.value) }, ...options);
    return input;
  }
  const kind = knob.text
    ? { type: "text", onchange: () => turned(input.value) }
    : {
        type: "range",
        min: knob.min,
        max: knob.max,
        step: knob.step ?? 1,
        oninput: () => turned(Number(input.value)),
      };
  const input = element("input", { ...attributes, ...kind });
  return input;
}

// The first turn is sent at once.  Those that follow it closely wait for a moment of quiet, and longer
// while `busy()`: then `send` gets them all together, the last value of each knob.
function turner(send, busy = () => false) {
  let waiting;
  let last = -Infinity; // when a knob was turned
  let pending = {};
  const flush = () => {
    clearTimeout(waiting);
    if (busy() || !Object.keys(pending).length) return; // who is busy calls `flush` when it is free
    const turned = pending;
    pending = {};
    send(turned);
  };
  const turnAll = (values) => {
    Object.assign(pending, values);
    clearTimeout(waiting);
    const still = performance.now() - last > PATIENCE;
    last = performance.now();
    if (still) flush();
    else waiting = setTimeout(flush, PATIENCE);
  };
  return {
    flush,
    turnAll,
    turn: (name, value) => turnAll({ [name]: value }),
    holds: (name) => name in pending, // the reader is still moving it
    stop: () => clearTimeout(waiting),
  };
}

// One knob: its label, its value and its input.  `show` draws a value, unless it is being turned.
function knobField(knob, { turn, holds }, attributes = {}) {
  const id = freshId();
  const slides = !knob.choices && !knob.text;
  const label = element("label", { for: id }, knob.label);
  const shown = element("output", { for: id, hidden: !slides });
  const input = knobInput(knob, { ...attributes, id }, (value) => {
    shown.textContent = input.value;
    turn(knob.name, value);
  });
  const show = (value) => {
    if (holds(knob.name) || (knob.text && document.activeElement === input)) return;
    input.value = value;
    shown.textContent = input.value;
  };
  return { id, label, shown, input, show };
}

function knobRow(model, put) {
  const settings = () => model.get("settings") ?? {};
  const turning = turner((turned) => put("settings", { ...settings(), ...turned }));
  const knobs = model.get("knobs").map((knob) => {
    const described = knob.help ? { "aria-describedby": freshId() } : {};
    const { label, shown, input, show } = knobField(knob, turning, described);
    const help = { id: described["aria-describedby"] };
    const node = element(
      "div",
      { class: knob.text ? "rl-knob rl-knob-text" : "rl-knob" },
      label,
      shown,
      input,
      ...(knob.help ? [element("small", help, knob.help)] : []),
    );
    return { node, sync: () => show(settings()[knob.name] ?? knob.value) };
  });
  const sync = () => knobs.forEach((knob) => knob.sync());
  sync();
  return { nodes: knobs.map((knob) => knob.node), sync };
}
