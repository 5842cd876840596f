// What a plot shows: columns and a range; what of it the server is asked for, and how an address names it. Pure.

import type { PlotRequest } from "../wire/messages.ts";

/** Series of a plot, at most. */
export const MOST_SERIES = 8;

/** CSS pixels for the numbers to the left of the lines. */
export const AXIS_WIDTH = 76;

/** A place on the axis: an integer in the unit of the column, exactly, or a number. */
export type Place = bigint | number;

export type PlotRange =
  | { readonly kind: "all" }
  | { readonly kind: "rows"; readonly rows: number }
  | { readonly kind: "last"; readonly length: Place }
  | { readonly kind: "fixed"; readonly first: Place; readonly last: Place };

/** `x` absent: chosen by the page; "": the number of the row. `ys` empty: chosen by the page. */
export interface PlotSpec {
  readonly x?: string;
  readonly ys: readonly string[];
  readonly range: PlotRange;
}

/** Name and type of a column, as the list of tables has them. */
export type NamedType = readonly [name: string, type: string];

const NUMBER = /^(?:u?int(?:8|16|32|64)|halffloat|float|double|decimal\d+\(.*\))$/;
const TIME = /^(?:timestamp\[.*\]|date32(?:\[day\])?|date64(?:\[ms\])?|time(?:32|64)\[.*\]|duration\[.*\])$/;
const MOMENT = /^(?:timestamp|date)/;

export function isSeries(type: string): boolean {
  return NUMBER.test(type) || type === "bool";
}

export function isAxis(type: string): boolean {
  return NUMBER.test(type) || TIME.test(type);
}

/** Whether distances along a column of this type are times, and how many of its units a second has; undefined: they are not. */
export function unitsOfSecond(type: string): number | undefined {
  const unit = /^(?:timestamp|time32|time64|duration)\[(s|ms|us|ns)/.exec(type)?.[1];
  if (unit !== undefined) return { s: 1, ms: 1e3, us: 1e6, ns: 1e9 }[unit];
  return type.startsWith("date64") ? 1e3 : undefined;
}

/** The columns of a plot that names none: over the first time, a number. */
export function completed(spec: PlotSpec, columns: readonly NamedType[]): PlotSpec & { readonly x: string } {
  const x = spec.x ?? columns.find(([, type]) => MOMENT.test(type))?.[0] ?? "";
  if (spec.ys.length > 0) return { ...spec, x };
  const others = columns.filter(([name, type]) => name !== x && isSeries(type));
  const chosen = others.find(([, type]) => /^(?:double|float|decimal)/.test(type)) ?? others[0];
  return { ...spec, x, ys: chosen === undefined ? [] : [chosen[0]] };
}

/** What the server is asked for. */
export function plotRequest(spec: PlotSpec & { readonly x: string }, pixels: number): PlotRequest {
  const { x, ys, range } = spec;
  const about = { ...(x === "" ? {} : { x }), ys, pixels };
  switch (range.kind) {
    case "all":
      return about;
    case "rows":
      return { ...about, tail_rows: range.rows };
    case "last":
      return { ...about, tail_x: String(range.length) };
    case "fixed":
      return { ...about, first: String(range.first), last: String(range.last) };
  }
}

/** "", "rows 100", "last 5000", "10 20"; numbers with a point are no integers. */
export function rangeText(range: PlotRange): string {
  switch (range.kind) {
    case "all":
      return "";
    case "rows":
      return `rows ${range.rows}`;
    case "last":
      return `last ${placeText(range.length)}`;
    case "fixed":
      return `${placeText(range.first)} ${placeText(range.last)}`;
  }
}

/** The range of such a text; all for what is none. */
export function parseRange(text: string): PlotRange {
  const [first = "", last = "", ...more] = text.split(" ");
  const end = parsePlace(last);
  if (end === undefined || more.length > 0) return { kind: "all" };
  if (first === "rows") return typeof end === "bigint" && end > 0n && end < 1n << 53n ? { kind: "rows", rows: Number(end) } : { kind: "all" };
  if (first === "last") return end > 0 ? { kind: "last", length: end } : { kind: "all" };
  const begin = parsePlace(first);
  if (begin === undefined || typeof begin !== typeof end || begin > end) return { kind: "all" };
  return { kind: "fixed", first: begin, last: end };
}

function placeText(place: Place): string {
  if (typeof place === "bigint") return String(place);
  const text = String(place);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function parsePlace(text: string): Place | undefined {
  if (/^-?\d{1,19}$/.test(text)) {
    const whole = BigInt(text);
    return BigInt.asIntN(64, whole) === whole ? whole : undefined;
  }
  if (!/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}
