// A picture that Python drew, and the knobs that change it.
// panel.py joins layout.js, controls.js and panel.js.

// Python escapes all text in the picture.  This is the second lock: nothing that could run gets in.
const RUNS = "script, style, iframe, object, embed, link, meta, base, form, input, button, foreignObject";

function parsed(html) {
  const body = new DOMParser().parseFromString(html, "text/html").body;
  for (const node of body.querySelectorAll(RUNS)) node.remove();
  for (const node of body.querySelectorAll("*"))
    for (const { name, value } of [...node.attributes])
      if (name.startsWith("on") || (/^(xlink:)?href$|^src$/.test(name) && !value.startsWith("#")))
        node.removeAttribute(name);
  return [...body.childNodes];
}

function render({ model, el }) {
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  const title = element("h2", { class: "rl-panel-title" }, model.get("title"));
  const form = element("div", { class: "rl-knobs rl-controls" });
  const status = element("p", { class: "rl-status", hidden: true });
  const says = element("p", { class: "rl-says" });
  const live = element("div", { class: "rl-live", "aria-live": "polite" });
  const picture = element("div", {
    class: "rl-picture",
    role: "region",
    "aria-label": `Picture: ${model.get("title")}`,
    tabindex: "0", // it may be wider than its place, and then scrolls
  });
  const root = element(
    "section",
    { class: "raglab-flow raglab-panel", "aria-label": model.get("title"), onkeydown: rootKey },
    title,
    form,
    status,
    says,
    picture,
    live,
  );
  let knobs;

  function drawKnobs() {
    knobs = knobRow(model, put);
    form.replaceChildren(...knobs.nodes);
    form.hidden = !knobs.nodes.length;
  }

  function drawPicture() {
    const open = new Set(folds().filter((fold) => fold.open).map(nameOf));
    const at = picture.contains(document.activeElement) ? document.activeElement : null;
    const key = at?.closest("[data-key]")?.dataset.key;
    picture.replaceChildren(...parsed(model.get("html")));
    if (model.get("presses"))
      for (const node of picture.querySelectorAll("[data-press]")) pressable(node);
    for (const fold of folds()) if (open.has(nameOf(fold))) fold.open = true;
    if (at && at !== picture) {
      const same = key && picture.querySelector(`[data-key="${CSS.escape(key)}"][tabindex]`);
      (same || picture).focus({ preventScroll: true });
    }
  }

  // A real button, so that a keyboard reaches it.  It is made here: `parsed` lets none in.
  function pressable(node) {
    const press = () => {
      for (const one of picture.querySelectorAll(".rl-press")) one.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true"); // so that one sees which was the last
      model.send({ press: node.dataset.press });
    };
    const button = element(
      "button",
      { type: "button", class: "rl-press", onclick: press },
      node.textContent,
    );
    node.replaceWith(button);
  }

  const folds = () => [...picture.querySelectorAll("details")];
  const nameOf = (fold) => fold.dataset.fold ?? fold.querySelector("summary")?.textContent;

  // What carries the same key is the same thing in two places: it lights up in both.
  function warm(target) {
    const keys = new Set();
    for (let at = target?.closest?.("[data-key]"); at; at = at.parentElement.closest("[data-key]"))
      keys.add(at.dataset.key); // a bar's segment, say, and its row
    for (const node of picture.querySelectorAll("[data-key]"))
      node.classList.toggle("rl-warm", keys.has(node.dataset.key));
    picture.classList.toggle("rl-has-warm", keys.size > 0);
  }
  picture.addEventListener("pointerover", (event) => warm(event.target));
  picture.addEventListener("pointerleave", () => warm(null));
  picture.addEventListener("focusin", (event) => warm(event.target));
  picture.addEventListener("focusout", () => warm(null));

  function onWords() {
    says.textContent = model.get("words");
    live.textContent = model.get("words");
  }

  function onStatus() {
    status.textContent = model.get("status");
    status.hidden = !status.textContent;
    if (status.textContent) live.textContent = status.textContent;
  }

  const onBusy = () => root.setAttribute("aria-busy", String(model.get("busy")));

  // JupyterLab listens for single keys ("d d" deletes a cell): none may leave the widget.
  function rootKey(event) {
    if (event.key === "Escape") warm(null);
    if (event.key !== "Tab" && !event.ctrlKey && !event.metaKey && !event.altKey)
      event.stopPropagation();
  }

  const watched = {
    html: drawPicture,
    words: onWords,
    status: onStatus,
    busy: onBusy,
    settings: () => knobs.sync(),
    knobs: drawKnobs,
  };
  for (const [name, act] of Object.entries(watched)) model.on(`change:${name}`, act);
  el.append(root);
  drawKnobs();
  drawPicture();
  says.textContent = model.get("words");
  onStatus();
  onBusy();
  return () => {
    for (const [name, act] of Object.entries(watched)) model.off(`change:${name}`, act);
  };
}

export default { render };
