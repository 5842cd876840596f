// What the accessible mirror says, from what the grid shows.

import type { Column, Value } from "../cells/column.ts";
import { beginning } from "../cells/visible.ts";
import type { ColumnLayout } from "./columns.ts";
import { placesInView, rowsInView } from "./geometry.ts";
import type { Geometry } from "./geometry.ts";
import type { Reflection } from "./mirror.ts";
import { shownName } from "./names.ts";
import type { SortMark } from "./painter.ts";
import type { Selection } from "./selection.ts";
import type { CellTexts } from "./texts.ts";

/** Characters of a cell that are read out; the whole is in the side view. */
const MOST_READ = 200;

export interface Shown {
  readonly table: string;
  readonly geometry: Geometry;
  readonly layout: ColumnLayout;
  readonly columns: readonly Column[];
  readonly selection: Selection;
  readonly sorts: ReadonlyMap<string, SortMark>;
  readonly texts: CellTexts;
  value(row: number, column: number): Value | undefined;
}

export function reflection(shown: Shown): Reflection {
  const { geometry, layout, columns, selection, texts } = shown;
  const heads = placesInView(geometry, layout).flatMap((place) => {
    const number = layout.shown[place];
    const column = number === undefined ? undefined : columns[number];
    return number === undefined || column === undefined ? [] : [{ place, number, column, text: shownName(column.name), isKey: column.key === true, sort: shown.sorts.get(column.name) }];
  });
  const text = (row: number, number: number, column: Column): string => {
    const value = shown.value(row, number);
    if (value === undefined) return "not here yet";
    if (value === "") return "empty";
    const whole = texts.whole(number, column, value);
    return whole.length > MOST_READ ? `${beginning(whole, MOST_READ)}\u2026` : whole;
  };
  const { from, to } = rowsInView(geometry);
  const lines = Array.from({ length: to - from }, (_, at) => ({
    row: from + at,
    texts: heads.map(({ number, column }) => text(from + at, number, column)),
  }));
  return {
    label: `Table ${shownName(shown.table)}`,
    rows: geometry.rows,
    columns: layout.shown.length,
    heads,
    lines,
    active: selection.active,
    isSelected: (row, place) => selection.has(row, place),
  };
}
