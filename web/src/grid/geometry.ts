// Where things are on the canvas, in CSS pixels.

import type { ColumnLayout } from "./columns.ts";
import type { Position } from "./scroll.ts";

export const ROW_HEIGHT = 24;
export const HEADER_HEIGHT = 42;
/** Pixels on either side of a column's right edge that resize it. */
const EDGE = 4;
/** Width of the part of a header that opens its menu. */
export const MENU_WIDTH = 20;

export interface Geometry {
  /** Of the whole canvas. */
  readonly width: number;
  readonly height: number;
  /** Width of the row numbers. */
  readonly gutter: number;
  readonly position: Position;
  /** Pixels that the columns are scrolled to the right. */
  readonly scrolled: number;
  /** Rows of the table. */
  readonly rows: number;
}

/** Width of the row numbers of a table with so many rows, thousands grouped. */
export function gutterWidth(rows: number): number {
  const digits = String(rows).length;
  return Math.max(44, Math.ceil(18 + digits * 6.4 + Math.floor((digits - 1) / 3) * 3.4));
}

/** Pixels for columns. */
export function columnSpace(geometry: Geometry): number {
  return Math.max(0, geometry.width - geometry.gutter);
}

/** Rows that fit under the header; need not be whole. */
export function visibleRows(height: number): number {
  return Math.max(0, height - HEADER_HEIGHT) / ROW_HEIGHT;
}

/** Rows that touch the space under the header: [from, to). */
export function rowsInView(geometry: Geometry): { from: number; to: number } {
  const { position, rows } = geometry;
  const from = Math.min(position.row, rows);
  const to = Math.min(rows, position.row + Math.ceil(position.fraction + visibleRows(geometry.height)));
  return { from, to: Math.max(from, to) };
}

/** Upper edge of a row that is in view. */
export function rowTop(geometry: Geometry, row: number): number {
  return HEADER_HEIGHT + (row - geometry.position.row - geometry.position.fraction) * ROW_HEIGHT;
}

/** Left edge of the column at `place`. */
export function columnLeft(geometry: Geometry, layout: ColumnLayout, place: number): number {
  const left = geometry.gutter + layout.left(place);
  return place < layout.pinnedCount ? left : left - geometry.scrolled;
}

/** Places in view, pinned ones first. */
export function placesInView(geometry: Geometry, layout: ColumnLayout): readonly number[] {
  const places: number[] = [];
  const space = columnSpace(geometry);
  for (let place = 0; place < layout.pinnedCount && layout.left(place) < space; place++) places.push(place);
  const { from, to } = layout.inView(geometry.scrolled, space);
  for (let place = from; place < to; place++) places.push(place);
  return places;
}

export type Hit =
  | { readonly part: "cell"; readonly row: number; readonly place: number }
  | { readonly part: "gutter"; readonly row: number }
  | { readonly part: "header" | "menu"; readonly place: number }
  | { readonly part: "edge"; readonly place: number }
  | { readonly part: "corner" | "outside" };

/** What is at a point. */
export function hit(geometry: Geometry, layout: ColumnLayout, x: number, y: number): Hit {
  const inHeader = y < HEADER_HEIGHT;
  const row = rowAt(geometry, y);
  if (x < geometry.gutter) {
    if (inHeader) return { part: "corner" };
    return row === undefined ? { part: "outside" } : { part: "gutter", row };
  }
  const place = placeAt(geometry, layout, x);
  if (inHeader) {
    const near = place ?? layout.shown.length - 1;
    for (const one of [near, near - 1]) {
      if (one < 0 || one >= layout.shown.length) continue;
      const right = columnLeft(geometry, layout, one) + layout.left(one + 1) - layout.left(one);
      const covered = one >= layout.pinnedCount && right < geometry.gutter + layout.pinnedWidth - EDGE;
      if (!covered && Math.abs(x - right) <= EDGE) return { part: "edge", place: one };
    }
    if (place === undefined) return { part: "outside" };
    const right = columnLeft(geometry, layout, place) + layout.left(place + 1) - layout.left(place);
    return x > right - EDGE - MENU_WIDTH ? { part: "menu", place } : { part: "header", place };
  }
  if (place === undefined || row === undefined) return { part: "outside" };
  return { part: "cell", row, place };
}

/** The row at `y`; undefined after the last and over the header. */
export function rowAt(geometry: Geometry, y: number): number | undefined {
  if (y < HEADER_HEIGHT) return undefined;
  const row = geometry.position.row + Math.floor((y - HEADER_HEIGHT) / ROW_HEIGHT + geometry.position.fraction);
  return row < geometry.rows ? row : undefined;
}

/** The place at `x`; undefined over the row numbers and after the last column. */
export function placeAt(geometry: Geometry, layout: ColumnLayout, x: number): number | undefined {
  const inside = x - geometry.gutter;
  if (inside < 0 || layout.shown.length === 0) return undefined;
  const unscrolled = inside < layout.pinnedWidth ? inside : inside + geometry.scrolled;
  return unscrolled < layout.total ? layout.at(unscrolled) : undefined;
}

/** The cell nearest to a point, for a drag that has left the cells. */
export function nearestCell(geometry: Geometry, layout: ColumnLayout, x: number, y: number): { row: number; place: number } {
  const row = geometry.position.row + Math.floor((y - HEADER_HEIGHT) / ROW_HEIGHT + geometry.position.fraction);
  const place = x < geometry.gutter ? layout.at(geometry.scrolled) : (placeAt(geometry, layout, x) ?? layout.shown.length - 1);
  return { row: Math.max(0, Math.min(row, geometry.rows - 1)), place: Math.max(0, place) };
}

/** The place before which a column dropped at `x` goes. */
export function dropPlace(geometry: Geometry, layout: ColumnLayout, x: number): number {
  const place = placeAt(geometry, layout, x);
  if (place === undefined) return x < geometry.gutter ? 0 : layout.shown.length;
  const left = columnLeft(geometry, layout, place);
  return x - left > (layout.left(place + 1) - layout.left(place)) / 2 ? place + 1 : place;
}
