// How wide columns are that have not been resized.

import { isNumber } from "../cells/column.ts";
import type { Column } from "../cells/column.ts";
import { MENU_WIDTH } from "./geometry.ts";
import { shownName } from "./names.ts";

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

/** Widths by type, or by the first cells that came: these stay, so that nothing moves while the table ticks. */
export class UsualWidths {
  private readonly measured = new Map<string, number>();
  private readonly measures: Measures;

  constructor(measures: Measures) {
    this.measures = measures;
  }

  usual(column: Column): number {
    return this.measured.get(key(column)) ?? Math.round(Math.max(this.byType(column), this.name(column)));
  }

  /** Takes the widths of the first cells over, if there are any; true if that changes a width. */
  learn(column: Column, texts: readonly string[]): boolean {
    if (this.measured.has(key(column)) || texts.length === 0) return false;
    const before = this.usual(column);
    const widest = Math.max(...texts.map((text) => this.measures.cell(text.slice(0, 80)))) * (isNumber(column) ? SLACK : 1);
    const width = Math.round(Math.max(56, this.name(column), Math.min(MOST_USUAL, widest + 2 * PADDING + 6)));
    this.measured.set(key(column), width);
    return width !== before;
  }

  /** As wide as the name and the widest of `texts`. */
  fitted(column: Column, texts: readonly string[]): number {
    const name = this.measures.head(shownName(column.name)) + MENU_WIDTH;
    const widest = texts.reduce((most, text) => Math.max(most, this.measures.cell(text.slice(0, 1000))), name);
    return Math.min(MOST_FITTED, Math.ceil(widest) + 2 * PADDING + 2);
  }

  private byType(column: Column): number {
    if (column.form === "timestamp") return column.zone === undefined ? 200 : 262;
    return BY_FORM[column.form] ?? 120;
  }

  private name(column: Column): number {
    const name = this.measures.head(shownName(column.name).slice(0, 60)) + MENU_WIDTH;
    return Math.min(MOST_NAME, Math.max(name, Math.min(110, this.measures.cell(shownName(column.type).slice(0, 60)))) + 2 * PADDING);
  }
}

function key(column: Column): string {
  return `${column.type} ${column.name}`;
}
