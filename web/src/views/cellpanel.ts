// The whole of the active cell, beside the grid.

import { cellText, isCut, plainText } from "../cells/text.ts";
import type { Column, Value } from "../cells/column.ts";
import { beginning } from "../cells/visible.ts";
import { shownName } from "../grid/names.ts";
import type { Fetched } from "../window/fetched.ts";
import { button, make, setText } from "./dom.ts";
import { count, counted } from "./words.ts";

/** Characters that are shown; copying takes all. */
const MOST_SHOWN = 100_000;
/** Milliseconds that a cell is active before the rest of it is asked for. */
const REST_MS = 150;

export interface CellSource {
  cell(row: number, column: number): Promise<string | null>;
  snapshot(columns: readonly number[], first: number, count: number): Promise<Fetched>;
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

  /**
   * Shows a cell. What the server has cut is asked for once the cell has been active for a moment; so is the cell itself
   * where its row or column is out of view (`value`: undefined).
   */
  show(source: CellSource, row: number, number: number, column: Column, value: Value | undefined): void {
    const state = `${row} ${number} ${typeof value} ${String(value)}`;
    if (state === this.shown) return;
    this.shown = state;
    clearTimeout(this.timer);
    const request = ++this.asked;
    setText(this.title, shownName(column.name));
    const place = `Row ${count(row + 1)} \u00b7 ${shownName(column.type)}`;
    if (value === undefined) {
      setText(this.about, place);
      this.void("Not here yet");
      this.timer = window.setTimeout(() => this.fetch(source, row, number, column, place, request), REST_MS);
    } else if (this.paint(column, place, value)) {
      this.timer = window.setTimeout(() => this.complete(source, row, number, place, request), REST_MS);
    }
  }

  /** Reads a cell that is out of view, once. */
  private fetch(source: CellSource, row: number, number: number, column: Column, place: string, request: number): void {
    source.snapshot([number], row, 1).then(
      ({ rows }) => {
        if (request !== this.asked) return;
        const value = rows[0]?.[0];
        const read = `${place} \u00b7 out of view, as it was when you asked`;
        if (value === undefined) this.void("There is no such row any more.");
        else if (this.paint(column, read, value)) this.complete(source, row, number, read, request);
      },
      (error: unknown) => {
        if (request === this.asked) this.void(error instanceof Error ? error.message : String(error));
      },
    );
  }

  /** Shows a cell, or its beginning; whether there is more of it. */
  private paint(column: Column, place: string, value: Value): boolean {
    const cut = isCut(column, value);
    setText(this.about, cut ? `${place} \u00b7 the beginning; the rest is on its way` : place);
    this.text.classList.toggle("void", value === null);
    this.fill(plainText(column, value), lines(column, value));
    return cut;
  }

  /** Asks for the whole of a cell of which the beginning is shown. */
  private complete(source: CellSource, row: number, number: number, place: string, request: number): void {
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
  }

  /** Says why there is no cell, and lets nothing be copied. */
  private void(text: string): void {
    this.text.classList.add("void");
    this.fill("", text);
    this.copies.disabled = true;
  }

  private fill(whole: string, shown: string): void {
    this.whole = whole;
    this.copies.disabled = false;
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
