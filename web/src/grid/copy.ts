// Copying what is selected as text, also what is beyond the window.

import { csvLine, tabLine } from "../cells/csv.ts";
import { isCut, plainText } from "../cells/text.ts";
import type { Column, Value } from "../cells/column.ts";
import type { Fetched } from "../window/fetched.ts";
import type { Rectangle } from "./selection.ts";
import { cells } from "./selection.ts";

/** "text" is tab-separated; "csv" has the names of the columns first; "sheet" is CSV without formulas. */
export type CopyForm = "text" | "csv" | "sheet";

export const MOST_COPIED_CELLS = 1_000_000;

/** A text for the clipboard. */
export interface Copied {
  readonly text: string;
  /** Cells of it that the server has sent the beginning of. */
  readonly cut: number;
  /** Versions of the table that its cells are of: 1, unless it has changed between two pieces. */
  readonly versions: number;
}

/** What copying reads from. */
export interface CopySource {
  readonly columns: readonly Column[];
  /** The version that the window shows. */
  readonly step: number | undefined;
  value(row: number, column: number): Value | undefined;
  snapshot(columns: readonly number[], first: number, count: number): Promise<Fetched>;
}

/** Something cannot be copied; the message is a sentence for the user. */
export class CopyError extends Error {
  override readonly name = "CopyError";
}

/** Raises if `areas` are more than can be copied. */
export function checkCopied(areas: readonly Rectangle[]): void {
  const count = areas.reduce((sum, area) => sum + cells(area), 0);
  if (count > MOST_COPIED_CELLS) {
    throw new CopyError(
      `${count.toLocaleString("en")} cells are selected; at most ${MOST_COPIED_CELLS.toLocaleString("en")} are copied at once. Select fewer.`,
    );
  }
}

/** The values of a rectangle that are all in the window; undefined if one is not. */
export function heldRows(source: CopySource, area: Rectangle, columns: readonly number[]): Value[][] | undefined {
  const rows: Value[][] = [];
  for (let row = area.top; row <= area.bottom; row++) {
    const values: Value[] = [];
    for (const column of columns) {
      const value = source.value(row, column);
      if (value === undefined) return undefined;
      values.push(value);
    }
    rows.push(values);
  }
  return rows;
}

/** The values of a rectangle, fetched; the source cuts the rows into pieces, `mostColumns` are fetched at once. */
export async function fetchRows(
  source: CopySource,
  area: Rectangle,
  columns: readonly number[],
  mostColumns: number,
): Promise<Fetched> {
  const rows: Value[][] = [];
  const versions = new Set<number>();
  for (let at = 0; at < columns.length; at += mostColumns) {
    const part = await source.snapshot(columns.slice(at, at + mostColumns), area.top, area.bottom - area.top + 1);
    for (const version of part.versions) versions.add(version);
    if (at === 0) for (const values of part.rows) rows.push([...values]);
    else rows.forEach((values, row) => values.push(...(part.rows[row] ?? [])));
    // Rows that the table has lost between two pieces are in none.
    rows.length = Math.min(rows.length, part.rows.length);
  }
  return { rows, versions };
}

/** Rows as text. `columns` are the schema numbers that belong to the values of a row. */
export function asText(all: readonly Column[], columns: readonly number[], rows: readonly Value[][], form: CopyForm): string {
  const shown = columns.map((column) => all[column]);
  const fields = (values: readonly Value[]): (string | null)[] =>
    shown.map((column, at) => {
      const value = values[at] ?? null;
      return column === undefined || value === null ? null : plainText(column, value);
    });
  if (form === "text") return rows.map((values) => tabLine(fields(values))).join("\n");
  const sheet = form === "sheet";
  const lines = [csvLine(shown.map((column) => column?.name ?? ""), sheet)];
  for (const values of rows) lines.push(csvLine(fields(values), sheet));
  return `${lines.join("\r\n")}\r\n`;
}

/** How many cells of rows are cut. */
export function cutCells(all: readonly Column[], columns: readonly number[], rows: readonly Value[][]): number {
  let count = 0;
  columns.forEach((number, at) => {
    const column = all[number];
    if (column === undefined) return;
    for (const values of rows) if (isCut(column, values[at] ?? null)) count += 1;
  });
  return count;
}

/** Columns of a rectangle, by their numbers in the schema. */
export function columnsOf(area: Rectangle, shown: readonly number[]): readonly number[] {
  return shown.slice(area.left, area.right + 1);
}

/** What is selected as text if all of it is in the window; undefined: some has to be fetched. */
export function copyHeld(
  source: CopySource,
  areas: readonly Rectangle[],
  shown: readonly number[],
  form: CopyForm,
): Copied | undefined {
  checkCopied(areas);
  const parts: string[] = [];
  let cut = 0;
  for (const area of areas) {
    const columns = columnsOf(area, shown);
    const rows = heldRows(source, area, columns);
    if (rows === undefined) return undefined;
    parts.push(asText(source.columns, columns, rows, form));
    cut += cutCells(source.columns, columns, rows);
  }
  return { text: parts.join("\n"), cut, versions: 1 };
}

/** What is selected as text, fetched where it is not in the window. */
export async function copyAll(
  source: CopySource,
  areas: readonly Rectangle[],
  shown: readonly number[],
  form: CopyForm,
  mostColumns: number,
): Promise<Copied> {
  checkCopied(areas);
  const parts: string[] = [];
  const versions = new Set<number>();
  let cut = 0;
  for (const area of areas) {
    const columns = columnsOf(area, shown);
    const held = heldRows(source, area, columns);
    const fetched = held === undefined ? await fetchRows(source, area, columns, mostColumns) : undefined;
    const rows = held ?? fetched?.rows ?? [];
    if (held !== undefined && source.step !== undefined) versions.add(source.step);
    for (const version of fetched?.versions ?? []) versions.add(version);
    parts.push(asText(source.columns, columns, rows, form));
    cut += cutCells(source.columns, columns, rows);
  }
  return { text: parts.join("\n"), cut, versions: versions.size };
}
