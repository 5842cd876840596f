// The points of a plot out of the rows of its view, as doubles. Pure.

import type { Column, Value } from "../cells/column.ts";
import type { TableWindow } from "../window/window.ts";

/** Columns of the view before those of the series, and of each series. */
const BEFORE = 2;
const OF_SERIES = 6;

/** One series: for each part, NaN for a gap, or where there is no number. */
export interface Series {
  readonly name: string;
  readonly column: Column;
  readonly first: Float64Array;
  readonly least: Float64Array;
  readonly leastX: Float64Array;
  readonly greatest: Float64Array;
  readonly greatestX: Float64Array;
  readonly last: Float64Array;
}

/** What is drawn: parts along x, whose places are doubles from {@link origin} on. */
export interface Points {
  readonly axis: Column;
  /** Integers are shown as their distance from here: doubles do not hold those of 64 bits. */
  readonly origin: bigint;
  readonly count: number;
  readonly firstX: Float64Array;
  readonly lastX: Float64Array;
  readonly series: readonly Series[];
}

/** The points in a window of all columns; undefined: the view is of something else. `origin`: that of points drawn before. */
export function pointsOf(columns: readonly Column[], window: TableWindow, names: readonly string[], origin?: bigint): Points | undefined {
  const axis = columns[0];
  if (axis === undefined || columns.length !== BEFORE + OF_SERIES * names.length) return undefined;
  const { first, count } = window;
  const begin = window.value(first, 0);
  const from = origin ?? (typeof begin === "bigint" ? begin : 0n);
  const read = (column: number, convert: (value: Value | undefined) => number): Float64Array => {
    const values = new Float64Array(count);
    for (let row = 0; row < count; row++) values[row] = convert(window.value(first + row, column));
    return values;
  };
  const place = (value: Value | undefined): number => placeOf(value, from);
  const series = names.map((name, number): Series => {
    const at = BEFORE + OF_SERIES * number;
    return {
      name,
      column: columns[at] ?? axis,
      first: read(at, numberOf),
      least: read(at + 1, numberOf),
      leastX: read(at + 2, place),
      greatest: read(at + 3, numberOf),
      greatestX: read(at + 4, place),
      last: read(at + 5, numberOf),
    };
  });
  return { axis, origin: from, count, firstX: read(0, place), lastX: read(1, place), series };
}

/** A finite number, or NaN. */
export function numberOf(value: Value | undefined): number {
  if (value === null || value === undefined || value === "") return NaN;
  const number = Number(value);
  return Number.isFinite(number) ? number : NaN;
}

/** Where a value is drawn. */
export function placeOf(value: Value | undefined, origin: bigint): number {
  return typeof value === "bigint" ? Number(value - origin) : numberOf(value);
}

/** The value of a place: the nearest integer where the column has such. */
export function valueAt(place: number, points: Points): bigint | number {
  return isWhole(points.axis) ? points.origin + BigInt(Math.round(place)) : place;
}

/** Whether values of a column travel as integers. */
export function isWhole(column: Column): boolean {
  return column.form !== "float" && column.form !== "decimal";
}

/** The number of the part that is nearest to a place; -1 without parts. */
export function nearest(points: Points, place: number): number {
  const { firstX, lastX, count } = points;
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((firstX[middle] ?? 0) <= place) low = middle + 1;
    else high = middle;
  }
  const before = low - 1;
  if (before < 0) return count > 0 ? 0 : -1;
  if (low >= count) return before;
  return place - (lastX[before] ?? 0) <= (firstX[low] ?? 0) - place ? before : low;
}

/** Calls `line` with the points of a series in order; NaN as y for a gap. */
export function walk(points: Points, series: Series, line: (x: number, y: number) => void): void {
  const { firstX, lastX, count } = points;
  const { first, least, leastX, greatest, greatestX, last } = series;
  for (let part = 0; part < count; part++) {
    line(firstX[part] ?? NaN, first[part] ?? NaN);
    const low = leastX[part] ?? NaN;
    const high = greatestX[part] ?? NaN;
    if (low === low) {
      if (low <= high) {
        line(low, least[part] ?? NaN);
        line(high, greatest[part] ?? NaN);
      } else {
        line(high, greatest[part] ?? NaN);
        line(low, least[part] ?? NaN);
      }
    }
    line(lastX[part] ?? NaN, last[part] ?? NaN);
  }
}

/** The least and greatest number of all series between two places; undefined without any. */
export function heights(points: Points, low: number, high: number): readonly [number, number] | undefined {
  let least = Infinity;
  let greatest = -Infinity;
  for (const series of points.series) {
    for (let part = 0; part < points.count; part++) {
      if ((points.lastX[part] ?? NaN) < low || (points.firstX[part] ?? NaN) > high) continue;
      const bottom = series.least[part] ?? NaN;
      const top = series.greatest[part] ?? NaN;
      if (bottom < least) least = bottom;
      if (top > greatest) greatest = top;
    }
  }
  return least <= greatest ? [least, greatest] : undefined;
}
