// The whole of the active cell, beside the grid.

import { cellText, isCut, plainText } from "../cells/text.ts";
import type { Column, Value } from "../cells/column.ts";
import { beginning } from "../cells/visible.ts";
import { shownName } from "../grid/names.ts";
import { button, make, setText } from "./dom.ts";
import { count, counted } from "./words.ts";

/** Characters that are shown; copying takes all. */
const MOST_SHOWN = 100_000;
/** Milliseconds that a cell is active before the rest of it is asked for. */
const REST_MS = 150;

export interface CellSource {
  cell(row: number, column: number): Promise<string | null>;
}

export class CellPanel {
  readonly element: HTMLElement;
  private readonly title: HTMLElement;
  private readonly about: HTMLElement;
  private readonly text: HTMLPreElement;
  private readonly copies: HTMLButtonElement;
  private whole = "";
  private shown = "";
  private asked = 0;
  private timer = 0;

  constructor(close: () => void, copy: (text: string) => void) {
    this.title = make("h2");
    this.about = make("p", { class: "muted" });
    this.text = make("pre", { attributes: { tabindex: "0", "aria-label": "Value of the cell" } });
    this.copies = button("Copy", () => copy(this.whole));
    this.element = make(
      "aside", { class: "panel", attributes: { "aria-label": "Cell" } },
      make("div", { class: "panel-head" }, this.title, this.copies, button("\u00d7", close, { class: "plain", attributes: { "aria-label": "Close the cell" } })),
      this.about, this.text,
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
  }

  /** Shows a cell; what the server has cut is asked for once the cell has been active for a moment. */
  show(source: CellSource, row: number, number: number, column: Column, value: Value | undefined): void {
    const cut = value !== undefined && isCut(column, value);
    const state = `${row} ${number} ${typeof value} ${String(value)}`;
    if (state === this.shown) return;
    this.shown = state;
    clearTimeout(this.timer);
    const request = ++this.asked;
    setText(this.title, shownName(column.name));
    const place = `Row ${count(row + 1)} \u00b7 ${shownName(column.type)}`;
    setText(this.about, place);
    this.text.classList.toggle("void", value === null || value === undefined);
    if (value === undefined) {
      this.fill("", "Not here yet");
      return;
    }
    this.fill(plainText(column, value), lines(column, value));
    if (!cut) return;
    setText(this.about, `${place} \u00b7 the beginning; the rest is on its way`);
    this.timer = window.setTimeout(() => {
      source.cell(row, number).then(
        (text) => {
          if (request !== this.asked) return;
          const whole = text ?? "";
          const part = whole.length > MOST_SHOWN ? beginning(whole, MOST_SHOWN) : whole;
          const more = part === whole ? "" : ` \u00b7 the first ${count(MOST_SHOWN)} are shown`;
          setText(this.about, `${place} \u00b7 ${counted(characters(whole), "character")}${more}`);
          this.fill(whole, linesOfText(part));
        },
        (error: unknown) => {
          if (request === this.asked) setText(this.about, `${place} \u00b7 the beginning. ${error instanceof Error ? error.message : String(error)}`);
        },
      );
    }, REST_MS);
  }

  private fill(whole: string, shown: string): void {
    this.whole = whole;
    setText(this.text, shown);
  }
}

/** The text of a cell with its own line breaks; other characters that would not be seen are symbols. */
function lines(column: Column, value: Value): string {
  if (typeof value === "string" && value !== "" && !isCut(column, value) && (column.form === "text" || column.form === "nested")) return linesOfText(value);
  return cellText(column, value);
}

const TEXT: Column = { name: "", type: "string", form: "text" };

/** Texts longer than this may count as cut, which belongs to cells alone. */
const PIECE = 256;

function linesOfText(text: string): string {
  const shownLine = (line: string): string => {
    if (line === "") return "";
    const characters = Array.from(line);
    let shown = "";
    for (let at = 0; at < characters.length; at += PIECE) shown += cellText(TEXT, characters.slice(at, at + PIECE).join(""));
    return shown;
  };
  return text.split(/\r\n|\n/).map(shownLine).join("\n");
}

/** Code points, as the server counts them. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
