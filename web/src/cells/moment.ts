// Timestamps, dates, times and durations as text, from integers, exact to the nanosecond and in any year.

import type { Unit } from "./column.ts";
import { offsetAt } from "./zone.ts";

const DAY = 86_400;
const PER_DAY: Readonly<Record<Unit, bigint>> = {
  D: 1n,
  s: 86_400n,
  ms: 86_400_000n,
  us: 86_400_000_000n,
  ns: 86_400_000_000_000n,
};
/** Digits of a second. */
const DIGITS: Readonly<Record<Unit, number>> = { D: 0, s: 0, ms: 3, us: 6, ns: 9 };

/** A number of days, whole seconds of one more, and the digits after them with their point. Doubles hold all of them exactly. */
interface Moment {
  readonly day: number;
  readonly second: number;
  readonly fraction: string;
}

function split(value: bigint, unit: Unit): Moment {
  const perDay = PER_DAY[unit];
  const rest = value % perDay;
  const day = Number(value / perDay) - (rest < 0n ? 1 : 0);
  const inDay = Number(rest < 0n ? rest + perDay : rest);
  const digits = DIGITS[unit];
  if (digits === 0) return { day, second: inDay, fraction: "" };
  const perSecond = 10 ** digits;
  return { day, second: Math.floor(inDay / perSecond), fraction: `.${String(inDay % perSecond).padStart(digits, "0")}` };
}

/** Since 1970, UTC. With a zone: the local time there, and its offset. Without: as it is. */
export function timestampText(value: bigint, unit: Unit, zone: string | undefined): string {
  const { day, second, fraction } = split(value, unit);
  if (zone === undefined) return `${civil(day)} ${clock(second)}${fraction}`;
  const offset = offsetAt(zone, DAY * day + second);
  const days = Math.floor((second + offset) / DAY);
  return `${civil(day + days)} ${clock(second + offset - DAY * days)}${fraction}${offsetText(offset)}`;
}

/** Since 1970. A date of milliseconds that is no whole day shows its time. */
export function dateText(value: bigint, unit: Unit): string {
  const { day, second, fraction } = split(value, unit);
  return second === 0 && /^\.?0*$/.test(fraction) ? civil(day) : `${civil(day)} ${clock(second)}${fraction}`;
}

/** Since midnight. Values of no day are shown with more hours than it has, or a sign. */
export function timeText(value: bigint, unit: Unit): string {
  const { day, second, fraction } = split(value < 0n ? -value : value, unit);
  return `${value < 0n ? "-" : ""}${clock(DAY * day + second)}${fraction}`;
}

/** Days and time: "-1d 02:03:04.005". */
export function durationText(value: bigint, unit: Unit): string {
  const { day, second, fraction } = split(value < 0n ? -value : value, unit);
  return `${value < 0n ? "-" : ""}${day > 0 ? `${day}d ` : ""}${clock(second)}${fraction}`;
}

function clock(seconds: number): string {
  return `${padded(Math.floor(seconds / 3600))}:${padded(Math.floor(seconds / 60) % 60)}:${padded(seconds % 60)}`;
}

function padded(number: number): string {
  return number < 10 ? `0${number}` : String(number);
}

/** Year, month and day of a day since 1970, in the Gregorian calendar of all times; years as ISO 8601 writes them. */
function civil(day: number): string {
  // Days since 1 March of year 0; a year then ends with its leap day, and 400 years have 146,097 days.
  const shifted = day + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - 146_097 * era;
  const leaps = Math.floor(dayOfEra / 1460) - Math.floor(dayOfEra / 36_524) + Math.floor(dayOfEra / 146_096);
  const yearOfEra = Math.floor((dayOfEra - leaps) / 365);
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const dayOfMonth = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1;
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  const year = yearOfEra + 400 * era + (month <= 2 ? 1 : 0);
  return `${yearText(year)}-${padded(month)}-${padded(dayOfMonth)}`;
}

function yearText(year: number): string {
  const digits = String(Math.abs(year)).padStart(4, "0");
  return `${year < 0 ? "-" : year > 9999 ? "+" : ""}${digits}`;
}

function offsetText(offset: number): string {
  const seconds = Math.abs(offset);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (parts[2] === 0) parts.pop();
  return `${offset < 0 ? "-" : "+"}${parts.map(padded).join(":")}`;
}
