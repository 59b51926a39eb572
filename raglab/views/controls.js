// Controls that the widgets share.  Every one is native, labelled and in reach of the keyboard.

const PATIENCE = 60; // milliseconds of quiet before a knob acts

function button(words, act, attributes = {}) {
  return element("button", { type: "button", ...attributes, onclick: act }, words);
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

function knobRow(model, put) {
  let waiting;
  let pending = {}; // turned, not yet sent
  const settings = () => model.get("settings") ?? {};
  const knobs = model.get("knobs").map((knob) => {
    const id = `rl-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
    const slides = !knob.choices && !knob.text;
    const shown = element("output", { for: id, hidden: !slides });
    const described = knob.help ? { "aria-describedby": `${id}-help` } : {};
    const input = knobInput(knob, { id, ...described }, (value) => {
      shown.textContent = input.value;
      pending[knob.name] = value;
      clearTimeout(waiting);
      waiting = setTimeout(send, PATIENCE);
    });
    const sync = () => {
      if (knob.name in pending) return; // the reader is still moving it
      if (knob.text && document.activeElement === input) return;
      input.value = settings()[knob.name] ?? knob.value;
      shown.textContent = input.value;
    };
    sync();
    return {
      sync,
      node: element(
        "div",
        { class: knob.text ? "rl-knob rl-knob-text" : "rl-knob" },
        element("label", { for: id }, knob.label),
        shown,
        input,
        ...(knob.help ? [element("small", { id: `${id}-help` }, knob.help)] : []),
      ),
    };
  });
  function send() {
    const turned = pending;
    pending = {};
    put("settings", { ...settings(), ...turned });
  }
  return {
    nodes: knobs.map((knob) => knob.node),
    sync: () => knobs.forEach((knob) => knob.sync()),
  };
}
