// Cells as text that fits their columns.

import { cellText } from "../cells/text.ts";
import { isNumber } from "../cells/column.ts";
import type { Column, Value } from "../cells/column.ts";
import type { Format } from "../cells/format.ts";

export interface Painted {
  /** Fits the width; ends with an ellipsis if it was longer. */
  readonly text: string;
  /** Printable ASCII alone: nothing reaches beyond its row. */
  readonly simple: boolean;
}

const SIMPLE = /^[\x20-\x7e\u2026]*$/;
const DIGITS = /^[0-9.,:+ -]*$/;
/** Most pixels of a character at the size of cells: of printable ASCII, and of digits. No need to measure below. */
const WIDEST = 13.5;
const WIDEST_DIGIT = 8;
/** Texts that are kept for one column, columns, and labels. */
const KEPT_TEXTS = 512;
const KEPT_COLUMNS = 256;
const KEPT_LABELS = 1024;
/** Characters of a cell that are measured for the width that it wants. */
const MOST_MEASURED = 100;
const ELLIPSIS = "\u2026";

/** The longest beginning of `text` that fits `width` with an ellipsis; all of it if it fits. */
export function fit(text: string, width: number, measure: (text: string) => number): string {
  // No glyph of a text font is narrower than a pixel and a half, so that a long text need not be measured whole.
  const most = Math.max(4, Math.ceil(width / 1.5));
  const head = text.length > most ? text.slice(0, most) : text;
  if (head === text && measure(text) <= width) return text;
  const characters = Array.from(head);
  let low = 0;
  let high = characters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(characters.slice(0, middle).join("") + ELLIPSIS) <= width) low = middle;
    else high = middle - 1;
  }
  return characters.slice(0, low).join("") + ELLIPSIS;
}

/** A number that does not fit loses digits after its point, which the ellipsis says; or all, since a part is another number. */
export function fitNumber(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) return text;
  const point = text.indexOf(".");
  if (point > 0 && /^[-+]?[0-9,]+\.[0-9]+$/.test(text)) {
    const cut = fit(text, width, measure);
    if (cut.length >= point + 2) return cut;
  }
  return "#".repeat(Math.max(1, Math.floor(width / Math.max(1, measure("#")))));
}

interface ColumnTexts {
  readonly width: number;
  readonly texts: Map<Value, Painted>;
}

/** Texts of the cells in view, kept as long as the width of their column and the formats stay. */
export class CellTexts {
  private readonly kept = new Map<number, ColumnTexts>();
  private readonly measure: (text: string) => number;
  private readonly formatOf: (column: number) => Format | undefined;
  private wanted = new Map<number, number>();

  /** @param formatOf how numbers of a column are shown; undefined: exactly */
  constructor(measure: (text: string) => number, formatOf: (column: number) => Format | undefined = () => undefined) {
    this.measure = measure;
    this.formatOf = formatOf;
  }

  /** Pixels that the widest cell wants, of columns with cells that were cut since the last call; by number of column. */
  takeWanted(): ReadonlyMap<number, number> {
    const { wanted } = this;
    if (wanted.size > 0) this.wanted = new Map();
    return wanted;
  }

  /** What is painted of a cell in a column with `width` pixels for text. */
  painted(number: number, column: Column, value: Value, width: number): Painted {
    if (Object.is(value, -0)) return this.make(number, column, value, width);
    let texts = this.kept.get(number);
    if (texts?.width !== width) {
      if (this.kept.size >= KEPT_COLUMNS) this.kept.clear();
      texts = { width, texts: new Map() };
      this.kept.set(number, texts);
    }
    let painted = texts.texts.get(value);
    if (painted === undefined) {
      if (texts.texts.size >= KEPT_TEXTS) texts.texts.clear();
      painted = this.make(number, column, value, width);
      texts.texts.set(value, painted);
    }
    return painted;
  }

  /** All that is shown of a cell if there is space. */
  whole(number: number, column: Column, value: Value): string {
    return cellText(column, value, this.formatOf(number));
  }

  private make(number: number, column: Column, value: Value, width: number): Painted {
    const whole = this.whole(number, column, value);
    const simple = SIMPLE.test(whole);
    if (simple && whole.length * (DIGITS.test(whole) ? WIDEST_DIGIT : WIDEST) <= width) return { text: whole, simple };
    const text = (isNumber(column) && value !== null ? fitNumber : fit)(whole, width, this.measure);
    if (text !== whole) this.wanted.set(number, Math.max(this.wanted.get(number) ?? 0, this.measure(whole.slice(0, MOST_MEASURED))));
    return { text, simple: simple || SIMPLE.test(text) };
  }
}

/** Names that are cut to the width of their column, kept. */
export class Labels {
  private readonly kept = new Map<string, string>();
  private readonly measure: (text: string, font: string) => number;

  constructor(measure: (text: string, font: string) => number) {
    this.measure = measure;
  }

  cut(text: string, width: number, font: string): string {
    const key = `${width} ${font} ${text}`;
    let cut = this.kept.get(key);
    if (cut === undefined) {
      if (this.kept.size >= KEPT_LABELS) this.kept.clear();
      cut = fit(text, width, (part) => this.measure(part, font));
      this.kept.set(key, cut);
    }
    return cut;
  }
}
