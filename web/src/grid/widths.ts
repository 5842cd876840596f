// How wide columns are that have not been resized.

import { isNumber } from "../cells/column.ts";
import type { Column } from "../cells/column.ts";
import { MENU_WIDTH } from "./geometry.ts";
import { shownName, typeLine } from "./names.ts";

/** Pixels between the edge of a cell and its text. */
export const PADDING = 9;
/** Widths before any cell is known. */
const BY_FORM: Partial<Record<Column["form"], number>> = {
  bool: 70, int: 96, float: 140, decimal: 120, text: 150, binary: 160, nested: 220, date: 104, time: 124, duration: 130, null: 64,
};
/** Most that the cells and the name take, unless the user wants more. */
const MOST_USUAL = 320;
const MOST_NAME = 220;
const MOST_FITTED = 800;
/** Numbers get so much more: the next ones may be longer. */
const SLACK = 1.12;

export interface Measures {
  head(text: string): number;
  cell(text: string): number;
}

/** Widths by type, or by the first cells that came; they grow where later ones do not fit, and never shrink while the table ticks. */
export class UsualWidths {
  private readonly measured = new Map<string, number>();
  private readonly measures: Measures;

  constructor(measures: Measures) {
    this.measures = measures;
  }

  usual(column: Column): number {
    return this.measured.get(key(column)) ?? Math.round(Math.max(this.byType(column), this.name(column)));
  }

  /** Takes the widths of the first cells over, if there are any. */
  learn(column: Column, texts: readonly string[]): void {
    if (this.measured.has(key(column)) || texts.length === 0) return;
    const width = this.around(column, Math.max(...texts.map((text) => this.measures.cell(text.slice(0, 80)))));
    this.measured.set(key(column), width);
  }

  /** Makes room for a cell of `widest` pixels; true if that changes a width. */
  widen(column: Column, widest: number): boolean {
    const width = this.around(column, widest);
    if (width <= this.usual(column)) return false;
    this.measured.set(key(column), width);
    return true;
  }

  /** Learns a column anew, or all, as after the format of numbers has changed. */
  forget(column?: Column): void {
    if (column === undefined) this.measured.clear();
    else this.measured.delete(key(column));
  }

  /** As wide as the name and the widest of `texts`. */
  fitted(column: Column, texts: readonly string[]): number {
    const name = this.measures.head(shownName(column.name)) + MENU_WIDTH;
    const widest = texts.reduce((most, text) => Math.max(most, this.measures.cell(text.slice(0, 1000))), name);
    return Math.min(MOST_FITTED, Math.ceil(widest) + 2 * PADDING + 2);
  }

  /** Room for a cell: a text may be cut, a number may not. */
  private around(column: Column, widest: number): number {
    const numeric = isNumber(column);
    const wanted = widest * (numeric ? SLACK : 1) + 2 * PADDING + 6;
    return Math.round(Math.max(56, this.name(column), Math.min(numeric ? MOST_FITTED : MOST_USUAL, wanted)));
  }

  private byType(column: Column): number {
    if (column.form === "timestamp") return column.zone === undefined ? 200 : 262;
    return BY_FORM[column.form] ?? 120;
  }

  private name(column: Column): number {
    const name = this.measures.head(shownName(column.name).slice(0, 60)) + MENU_WIDTH;
    return Math.min(MOST_NAME, Math.max(name, Math.min(110, this.measures.cell(typeLine(column).slice(0, 60)))) + 2 * PADDING);
  }
}

function key(column: Column): string {
  return `${column.type} ${column.name}`;
}
