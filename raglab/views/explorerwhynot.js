// Why is a chunk not in the prompt, and which one knob would bring it there?

const SHOWN_RESCUES = 3; // the least movement comes first; the others are folded away

function whynotPanel(ctx) {
  const { model } = ctx;
  const el = element("section", { class: "rl-whynot", "aria-label": "Why not?", tabindex: "-1" });
  let waiting = false;
  let applied = ""; // what was just turned, until the next finding

  // Is the prompt shown yet, or does the reader still predict what comes into it, and what would?
  function promptSeen() {
    const asked = model.get("predicting") && model.get("knob_question")?.question;
    if (asked && !model.get("knob_guess")) return false;
    const place = ctx.data().columns?.find((column) => column.stage === "assemble")?.place;
    return (place ?? 0) <= seenUpTo(ctx);
  }

  // What to ask of the answer's chunks, where some are known and missing in the prompt.
  function missing() {
    const { verdict, chunks } = ctx.data();
    if (ctx.offline || !verdict?.length) return "";
    const kept = chunks.filter(
      (card) => card.marks.includes("evidence") && card.fate.kind === "kept",
    );
    if (kept.length === verdict.length) return "";
    return kept.length
      ? "Why is some of the evidence not in the prompt?"
      : "Why is the answer's chunk not in the prompt?";
  }

  function ask(more = {}) {
    waiting = true;
    applied = "";
    draw();
    ctx.announce("Each knob is tried, one by one.");
    ctx.send({ do: "why-not", chunk: "", ...more });
  }

  function apply({ dial, label, value }) {
    applied = `${label} is now ${value}. The picture shows what else moved.`;
    ctx.announce(applied);
    ctx.put("settings", { ...model.get("settings"), [dial]: value });
  }

  function rescue(one) {
    const words = `Set ${one.label} to ${one.value} (was ${one.was})`;
    // Its words begin with what the button says already: "Kept from 8 to 9; nothing else moves."
    const [, moves = ""] = /^[^;]* from [^;]*; (.+)$/s.exec(one.words ?? "") ?? [];
    return element(
      "li",
      {},
      ctx.offline ? element("strong", {}, words) : button(words, () => apply(one)),
      ...(moves ? [line("how", moves[0].toUpperCase() + moves.slice(1))] : []),
    );
  }

  function finding({ chunk, words, loss, rescues = [], tried, skipped = [], sizes }) {
    const list = (some) => element("ul", { class: "rl-rescues" }, ...some.map(rescue));
    const rest = rescues.slice(SHOWN_RESCUES);
    const none = `No single knob rescues it. Settings tried: ${tried}.`;
    return [
      element("h2", {}, chunk ? "Why not this one?" : "Why not the answer's chunk?"),
      ...(chunk ? [line("id", chunk)] : []),
      ...(loss?.step && !words?.includes(loss.reason)
        ? [line("fate rl-lost", `Lost at ${loss.step}: ${loss.reason}.`)]
        : []),
      line("said", words),
      ...(rescues.length ? [list(rescues.slice(0, SHOWN_RESCUES))] : []),
      ...(rest.length
        ? [
            element(
              "details",
              {},
              element("summary", {}, `${rest.length} more that would do`),
              list(rest),
            ),
          ]
        : []),
      ...(tried && !rescues.length && !words.includes("knob") ? [line("fate", none)] : []),
      ...(skipped.length ? [line("how", `Not tried: ${skipped.join("; ")}.`)] : []),
      ...(sizes && !ctx.offline
        ? [button("Try other chunk sizes too", () => ask({ sizes: true }), { disabled: waiting })]
        : []),
    ];
  }

  function draw() {
    const focused = el.matches(":focus-within");
    const found = model.get("whynot") ?? {};
    const seen = promptSeen();
    const nodes = seen && found.words ? finding(found) : [];
    if (!found.words && applied) nodes.push(line("fate", applied));
    if (waiting) nodes.push(line("how", "Each knob is tried, one by one."));
    else if (seen && missing() && (!found.words || found.chunk))
      nodes.push(button(missing(), () => ask()));
    el.replaceChildren(...nodes);
    el.hidden = !nodes.length;
    if (focused && !el.matches(":focus-within")) el.focus({ preventScroll: true });
  }

  let told = "";
  ctx.watch(["whynot"], () => {
    const { words = "" } = model.get("whynot") ?? {};
    waiting = false;
    if (words) applied = "";
    draw();
    if (!words || words === told) return (told = words);
    told = words;
    ctx.announce(words);
    // It was asked for beside here, perhaps further up: it comes into sight.
    if (el.parentNode?.matches(":focus-within")) el.scrollIntoView({ block: "nearest" });
  });
  // Python may have nothing to find, and say so in its status.
  ctx.watch(["status", "busy"], () => {
    if (!model.get("busy")) waiting = false;
    draw();
  });
  ctx.watch(["data", "predicting", "knob_question", "knob_guess"], draw);
  ctx.watch(["step"], () => model.get("predicting") && draw());
  draw();
  return { el };
}
