// Controls that the widgets share.  Every one is native, labelled and in reach of the keyboard.

const PATIENCE = 60; // milliseconds of quiet before a knob acts

function button(words, act, attributes = {}) {
  return element("button", { type: "button", ...attributes, onclick: act }, words);
}

// Native range inputs: labelled, in reach of the keyboard, with their value shown.
function knobRow(model, put) {
  let waiting;
  let pending = {}; // turned, not yet sent
  const settings = () => model.get("settings") ?? {};
  const knobs = model.get("knobs").map((knob) => {
    const id = `rl-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
    const shown = element("output", { for: id });
    const input = element("input", {
      type: "range",
      id,
      min: knob.min,
      max: knob.max,
      step: 1,
      "aria-describedby": `${id}-help`,
      oninput: () => {
        shown.textContent = input.value;
        pending[knob.name] = Number(input.value);
        clearTimeout(waiting);
        waiting = setTimeout(send, PATIENCE);
      },
    });
    const sync = () => {
      if (knob.name in pending) return; // the reader is still moving it
      input.value = settings()[knob.name] ?? knob.value;
      shown.textContent = input.value;
    };
    sync();
    return {
      sync,
      node: element(
        "div",
        { class: "rl-knob" },
        element("label", { for: id }, knob.label),
        shown,
        input,
        element("small", { id: `${id}-help` }, knob.help),
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
