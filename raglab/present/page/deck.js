// Slides: one section of the page is shown. The others wait, laid out, so that what is drawn in them
// has its size.
(() => {
  const byId = (id) => document.getElementById(`deck-${id}`);
  const slides = [...document.querySelectorAll(".deck-slide")];
  const titles = slides.map(titleOf);
  let now = 0;

  function titleOf(slide) {
    const heading = slide.querySelector("h1, h2")?.cloneNode(true);
    heading?.querySelector(".anchor-link")?.remove();
    return heading?.textContent.trim() || document.title;
  }

  function show(place) {
    now = Math.min(Math.max(place, 0), slides.length - 1);
    slides.forEach((slide, at) => {
      slide.inert = at !== now;
      slide.classList.toggle("deck-now", at === now);
    });
    byId("count").textContent = `${now + 1} of ${slides.length}`;
    byId("live").textContent = `Slide ${now + 1} of ${slides.length}: ${titles[now]}`;
    byId("previous").setAttribute("aria-disabled", now === 0); // `disabled` would drop the focus
    byId("next").setAttribute("aria-disabled", now === slides.length - 1);
    history.replaceState(null, "", `#${now + 1}`);
    scrollTo(0, 0);
    showCode(slides[now].classList.contains("deck-coded"));
  }

  function showCode(shown) {
    slides[now].classList.toggle("deck-coded", shown);
    byId("code").setAttribute("aria-pressed", shown);
    byId("code").hidden = !slides[now].querySelector(".jp-CodeCell");
  }

  const toggleCode = () => showCode(!slides[now].classList.contains("deck-coded"));
  const fromHash = () => show((parseInt(location.hash.slice(1), 10) || 1) - 1);
  const keys = {
    ArrowRight: () => show(now + 1),
    PageDown: () => show(now + 1),
    ArrowLeft: () => show(now - 1),
    PageUp: () => show(now - 1),
    Home: () => show(0),
    End: () => show(slides.length - 1),
    c: toggleCode,
  };

  // Inside a panel or a box, keys belong to it. Escape gives them back.
  const inside = (node) =>
    Boolean(node?.closest?.("input, select, textarea, [contenteditable], .jp-OutputArea-output"));

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (inside(event.target)) {
      if (event.key === "Escape") event.target.blur();
    } else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  function hint() {
    byId("hint").textContent = inside(document.activeElement)
      ? "Keys belong to the panel. Esc gives them back."
      : "Keys: ← → slides, c code";
  }

  // deck.css makes a text smaller until its longest line fits. Longer lines are prose, and break.
  const TEXT = ".jp-OutputArea-output > pre, .jp-InputArea-editor pre, .jp-RenderedMarkdown pre";
  const LONGEST = 126;
  function measure() {
    for (const text of document.querySelectorAll(TEXT)) {
      if (text.style.getPropertyValue("--columns")) continue;
      const columns = Math.max(1, ...text.textContent.split("\n").map((line) => line.length));
      text.style.setProperty("--columns", columns > LONGEST ? 1 : columns);
    }
  }

  // voila puts a placeholder into each cell, and takes it out when the cell has run.
  const codeCells = [...document.querySelectorAll("[cell-index]")].filter((cell) =>
    cell.querySelector(".jp-CodeCell"),
  );
  let started = false;
  let finished = false;
  function progress() {
    measure();
    const waiting = document.querySelectorAll(".voila-skeleton-container").length;
    const left = codeCells.filter((cell) => cell.querySelector(".voila-skeleton-container")).length;
    started ||= waiting > 0;
    if (!started || finished) return;
    finished = waiting === 0;
    const next = Math.min(codeCells.length - left + 1, codeCells.length);
    byId("status").textContent = finished ? failed() : `Running cell ${next} of ${codeCells.length}`;
    if (finished) byId("live").textContent = `All cells have run. ${failed()}`;
  }

  // What Python says in red is a warning, or the error that ended a cell.
  function failed() {
    const red = [...document.querySelectorAll("[data-mime-type='application/vnd.jupyter.stderr']")];
    const wrong = red.filter((text) => /^[\w.]*(Error|Exception|Interrupt)\b/m.test(text.textContent));
    const places = new Set(wrong.map((text) => slides.indexOf(text.closest(".deck-slide")) + 1));
    return places.size ? `A cell failed on slide ${[...places].join(", ")}` : "";
  }

  // Without its kernel a knob turns and nothing happens: say so.
  const { kernelId } = JSON.parse(document.getElementById("jupyter-config-data").textContent);
  const gone = "Python has ended: start raglab present again, or reload this page";
  async function ask() {
    const answer = await fetch(`/api/kernels/${kernelId}`).catch(() => null);
    if (!answer?.ok) byId("status").textContent = gone;
    else if (byId("status").textContent === gone) byId("status").textContent = failed();
  }

  const cells = document.getElementById("rendered_cells");
  new MutationObserver(progress).observe(cells, { childList: true, subtree: true });
  setInterval(ask, 5000);
  window.addEventListener("keydown", onKey, true); // panels keep keys to themselves: hear them first
  window.addEventListener("hashchange", fromHash);
  document.addEventListener("focusin", hint);
  document.addEventListener("focusout", () => setTimeout(hint));
  byId("previous").addEventListener("click", keys.ArrowLeft);
  byId("next").addEventListener("click", keys.ArrowRight);
  byId("code").addEventListener("click", toggleCode);
  slides.forEach((slide, at) => slide.setAttribute("aria-label", titles[at]));
  byId("title").textContent = titles[0];
  byId("status").textContent = "Starting Python";
  fromHash();
  hint();
})();
