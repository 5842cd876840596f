// Where an axis has its marks, and what is written beside them. Pure.

import type { Column } from "../cells/column.ts";
import { plainText } from "../cells/text.ts";
import { isWhole } from "./points.ts";

/** Steps of seconds between two marks. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
const DAYS = [1, 2, 7, 14, 28, 91, 182, 365, 730, 1825, 3650, 7300, 18_250, 36_500, 182_500, 365_000];
const DAY = 86_400;

export interface Ticks {
  readonly places: number[];
  readonly texts: string[];
}

/** Marks between two places on the axis of a column: at most `most`. */
export function ticks(column: Column, origin: bigint, low: number, high: number, most: number): Ticks {
  if (!(high > low)) return { places: [low], texts: [label(column, origin, low, 0)] };
  const units = unitsOfDay(column);
  const step = units === undefined ? roundStep((high - low) / most, isWhole(column)) : timeStep((high - low) / most, units);
  // Marks are at multiples of the step of the value itself.
  const shift = isWhole(column) ? Number(mod(origin + BigInt(offset(column, origin, units)), BigInt(Math.max(1, Math.round(step))))) : 0;
  const places: number[] = [];
  const first = Math.ceil((low + shift) / step);
  for (let number = first; number * step - shift <= high && places.length <= 2 * most; number++) places.push(number * step - shift);
  return { places, texts: places.map((place) => label(column, origin, place, step)) };
}

/** Units of the column in a day; undefined: it is no time. */
function unitsOfDay(column: Column): number | undefined {
  if (!["timestamp", "date", "time", "duration"].includes(column.form) || column.unit === undefined) return undefined;
  return { D: 1, s: DAY, ms: DAY * 1e3, us: DAY * 1e6, ns: DAY * 1e9 }[column.unit];
}

/** What the local time of the column's zone is ahead, in its unit. */
function offset(column: Column, origin: bigint, units: number | undefined): number {
  if (column.form !== "timestamp" || column.zone === undefined || units === undefined) return 0;
  const found = /([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(plainText(column, origin));
  if (found === null) return 0;
  const seconds = Number(found[2]) * 3600 + Number(found[3]) * 60 + Number(found[4] ?? 0);
  return (found[1] === "-" ? -1 : 1) * seconds * (units / DAY);
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
export function roundStep(least: number, whole: boolean): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= least * (1 - 1e-9)) ?? 10 * power;
  return whole ? Math.max(1, Math.round(step)) : step;
}

function timeStep(least: number, unitsOfDay: number): number {
  const second = unitsOfDay / DAY;
  if (least < second) return Math.max(1, roundStep(least, true));
  const seconds = SECONDS.find((one) => one * second >= least);
  if (seconds !== undefined) return seconds * second;
  const days = DAYS.find((one) => one * unitsOfDay >= least) ?? roundStep(least / unitsOfDay, true);
  return days * unitsOfDay;
}

function label(column: Column, origin: bigint, place: number, step: number): string {
  if (!isWhole(column)) return numberLabel(place, step);
  const value = origin + BigInt(Math.round(place));
  if (column.form === "int") return Number(value).toLocaleString("en");
  const text = plainText(column, value);
  const units = unitsOfDay(column);
  if (column.form === "date" || units === undefined) return text.slice(0, 10);
  if (column.form !== "timestamp") return text.replace(/\.?0+$/, "");
  const date = text.slice(0, text.indexOf(" "));
  const clock = text.slice(date.length + 1).replace(/(?:[+-]\d\d:\d\d(?::\d\d)?|Z)$/, "");
  if (step >= units) return date;
  if (step >= (60 * units) / DAY) return clock.startsWith("00:00:00") ? date : clock.slice(0, 5);
  return step >= units / DAY ? clock.slice(0, 8) : clock.slice(3).replace(/0+$/, "");
}

/** A number with the digits that tell it from its neighbours. */
export function numberLabel(value: number, step: number): string {
  const digits = step > 0 ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : 3;
  const size = Math.max(Math.abs(value), step);
  if (digits > 9 || size >= 1e15) return value.toExponential(3);
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function mod(value: bigint, by: bigint): bigint {
  const rest = value % by;
  return rest < 0n ? rest + by : rest;
}
