// How wide words are, and how much of them fits into a box.

const LOOKED_AT = 240; // characters of a label that are measured: no label has room for more
const GUESSED = 0.62; // of an em, where a page has no canvas to measure on

// A label is one line. What would turn it around or hide in it is shown to be there instead.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const straight = (text) => text.replace(UNSEEN, "\ufffd");

// Widths are kept by character and added up: a little too wide where letters join, never slow.
class Ruler {
  constructor() {
    this.pen = document.createElement("canvas").getContext("2d");
    this.kept = new Map();
    this.family = "";
  }

  // The font is asked for once the picture stands in a page.
  use(family) {
    if (family === this.family) return;
    this.family = family;
    this.kept.clear();
  }

  widthOf(text, size, bold = false) {
    const font = `${bold ? "600 " : ""}${size}px ${this.family}`;
    if (!this.kept.has(font)) this.kept.set(font, new Map());
    const widths = this.kept.get(font);
    let sum = 0;
    for (const sign of text) {
      let width = widths.get(sign);
      if (width === undefined) {
        if (this.pen) this.pen.font = font;
        width = this.pen?.measureText(sign).width ?? GUESSED * size;
        widths.set(sign, width);
      }
      sum += width;
    }
    return sum;
  }

  // "handbook-refunds-and-returns#12" keeps its number: "handbook-ref…#12".
  fit(text, room, size, bold = false) {
    const looked = straight(text.slice(0, LOOKED_AT));
    if (text.length <= LOOKED_AT && this.widthOf(looked, size, bold) <= room) return looked;
    const tail = straight(/#[^#]{1,6}$/.exec(text)?.[0] ?? "");
    let left = room - this.widthOf(`…${tail}`, size, bold);
    let head = "";
    for (const sign of looked) {
      left -= this.widthOf(sign, size, bold);
      if (left < 0) break;
      head += sign;
    }
    return `${head.trimEnd()}…${tail}`;
  }

  // The first of several ways to say it that fits; the last one is cut by its box.
  firstThatFits(ways, room, size) {
    return ways.find((words) => this.widthOf(words, size) <= room) ?? ways.at(-1) ?? "";
  }
}
