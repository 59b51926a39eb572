// What leaves the widget: files to keep, lines to copy, and the exact text of the prompt.

const FINER = 2; // a PNG's pixels for each of the picture's
const MOST_PIXELS = 16000; // a side; browsers draw no larger canvas

function sharePanel(ctx) {
  const wanted = new Map(); // a type -> what is to be made of the file when it comes
  const failed = element("span", { class: "rl-about" });
  const lines = textDialog("Python lines", "These lines rebuild this pipeline and ask this query.");
  let codeAsked = false;

  // A picture may be wanted twice over: as it is, and as pixels.
  function want(type, what, make) {
    if (!wanted.has(type)) wanted.set(type, new Set());
    wanted.get(type).add(make);
    ctx.send({ do: "share", what });
  }

  function keep(file) {
    download(new Blob([file.text], { type: file.type }), file.name);
    ctx.announce(`Saved ${file.name}.`);
  }

  async function pixels(file) {
    const name = file.name.replace(/\.svg$/, ".png");
    try {
      download(await asPng(file.text), name);
      ctx.announce(`Saved ${name}.`);
    } catch {
      failed.textContent = "This viewer draws no PNG. Save the picture as SVG.";
      ctx.announce(failed.textContent);
    }
  }

  const picture = (make) => () => {
    const file = { name: "raglab-flow.svg", type: "image/svg+xml", text: ctx.model.get("svg") };
    if (ctx.offline) make(file);
    else want(file.type, "svg", make);
  };

  function showCode(text) {
    lines.fillIn(text);
    ctx.announce("The Python lines are shown.");
  }

  function askCode() {
    lines.show(menu.el.firstChild);
    if (ctx.offline) return showCode(ctx.model.get("code"));
    codeAsked = true;
    ctx.send({ do: "share", what: "code" });
  }

  // Every view of a widget hears every message: one that did not ask keeps still.
  ctx.onMessage((content) => {
    if (content.kind === "code" && codeAsked) {
      codeAsked = false;
      showCode(content.text);
    }
    if (content.kind !== "file") return;
    const makes = wanted.get(content.type) ?? [];
    wanted.delete(content.type);
    for (const make of makes) make(content);
  });

  const item = (words, act) =>
    button(words, () => {
      menu.close();
      failed.textContent = "";
      act();
    });
  const live = (...nodes) => (ctx.offline ? [] : nodes);
  const menu = foldedMenu(
    "Share",
    element(
      "div",
      { class: "rl-menu-items", role: "group", "aria-label": "Share" },
      ...live(item("Save page", () => want("text/html", "page", keep))),
      item("Picture as SVG", picture(keep)),
      item("Picture as PNG", picture(pixels)),
      item("Python lines", askCode),
      ...live(item("Trace as JSON", () => want("application/json", "trace", keep))),
    ),
  );
  return { el: element("div", { class: "rl-share" }, menu.el, failed, lines.dialog) };
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // a slow disk still reads it
}

async function asPng(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const { naturalWidth: wide, naturalHeight: high } = image;
  const scale = Math.min(FINER, MOST_PIXELS / Math.max(wide, high));
  const canvas = element("canvas", {
    width: Math.round(wide * scale),
    height: Math.round(high * scale),
  });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no PNG"))), "image/png"),
  );
}

// Where the clipboard is out of reach the text is selected, and the reader copies it.
async function copied(node, tell) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    tell("Copied.");
  } catch {
    getSelection().selectAllChildren(node);
    tell("Selected. Press Ctrl+C, or Cmd+C, to copy.");
  }
}

// -- the exact prompt -----------------------------------------------------------------------------

function promptDialog(ctx) {
  const shown = textDialog("The exact prompt", "");
  let side = "a";
  let number; // of the chosen chunk's source

  function fillIn(prompt) {
    const { text, note } = typeof prompt === "string" ? { text: prompt, note: "" } : prompt;
    shown.fillIn(text, note, ...blockOf(text, number));
  }

  function ask() {
    const kept = ctx.model.get("prompts")?.[side];
    if (ctx.offline) return fillIn(kept ?? "The prompt is not in this page.");
    shown.fillIn("", "reading…");
    ctx.send({ do: "prompt", side });
  }

  ctx.onMessage((content) => {
    if (content.kind === "prompt" && content.side === side && shown.dialog.open) fillIn(content);
  });
  ctx.watch(["data", "other"], () => shown.dialog.open && ask());

  function show(of, chosen, opener) {
    [side, number] = [of, chosen];
    shown.show(opener);
    ask();
  }
  return { dialog: shown.dialog, show };
}

// Where the block of source [number] begins and ends. A source's own text cannot hold a "<".
function blockOf(text, number) {
  const from = number === undefined ? -1 : text.indexOf(`<source number="${number}"`);
  if (from < 0) return [0, 0];
  const closing = "</source>";
  const to = text.indexOf(closing, from);
  return [from, to < 0 ? text.length : to + closing.length];
}

// A text to read in whole and to copy.  Escape closes it, and the focus goes back where it was.
function textDialog(title, note) {
  const id = freshId();
  const about = line("how", note);
  const reads = { tabindex: "0", role: "region", "aria-label": title };
  const pre = element("pre", { class: "rl-code", ...reads });
  const told = element("span", { class: "rl-about", role: "status" });
  const copy = () =>
    copied(pre, (words) => {
      told.textContent = words;
    });
  let opener;

  function onKey(event) {
    if (event.key === "Escape") {
      event.preventDefault();
      dialog.close();
    }
    keepKeys(event); // Escape too: the chosen chunk stays chosen
  }

  function back() {
    (opener?.isConnected ? opener : dialog.parentNode).focus();
  }

  const dialog = element(
    "dialog",
    { class: "rl-dialog", "aria-labelledby": id, onkeydown: onKey, onclose: back },
    element(
      "div",
      { class: "rl-panel-top" },
      element("h2", { id }, title),
      button("Close", () => dialog.close(), { class: "rl-close" }),
    ),
    about,
    pre,
    element("div", { class: "rl-actions" }, button("Copy", copy), told),
  );

  function fillIn(text, words = note, from = 0, to = 0) {
    about.textContent = words;
    const marked = to > from ? [element("mark", { class: "rl-block" }, text.slice(from, to))] : [];
    pre.replaceChildren(text.slice(0, from), ...marked, text.slice(to));
    pre.scrollTop = 0;
    if (marked.length) scrollWithin(pre, marked[0]);
  }

  function show(from) {
    opener = from;
    told.textContent = "";
    dialog.showModal();
    pre.focus();
  }
  return { dialog, show, fillIn };
}
