// Timestamps, dates, times and durations as text, from integers, exact to the nanosecond and in any year.

import type { Unit } from "./column.ts";
import { offsetAt } from "./zone.ts";

const PER_SECOND: Readonly<Record<Exclude<Unit, "D">, bigint>> = { s: 1n, ms: 1_000n, us: 1_000_000n, ns: 1_000_000_000n };
const DAY = 86_400n;

/** Since 1970, UTC. With a zone: the local time there, and its offset. Without: as it is. */
export function timestampText(value: bigint, unit: Unit, zone: string | undefined): string {
  const { seconds, fraction } = split(value, unit);
  if (zone === undefined) return `${civil(floorDiv(seconds, DAY))} ${clock(mod(seconds, DAY))}${fraction}`;
  const offset = offsetAt(zone, seconds);
  const local = seconds + BigInt(offset);
  return `${civil(floorDiv(local, DAY))} ${clock(mod(local, DAY))}${fraction}${offsetText(offset)}`;
}

/** Since 1970. A date of milliseconds that is no whole day shows its time. */
export function dateText(value: bigint, unit: Unit): string {
  if (unit === "D") return civil(value);
  const { seconds, fraction } = split(value, unit);
  const date = civil(floorDiv(seconds, DAY));
  return mod(seconds, DAY) === 0n && /^\.?0*$/.test(fraction) ? date : `${date} ${clock(mod(seconds, DAY))}${fraction}`;
}

/** Since midnight. Values of no day are shown with more hours than it has, or a sign. */
export function timeText(value: bigint, unit: Unit): string {
  const { seconds, fraction } = split(value < 0n ? -value : value, unit);
  return `${value < 0n ? "-" : ""}${clock(seconds)}${fraction}`;
}

/** Days and time: "-1d 02:03:04.005". */
export function durationText(value: bigint, unit: Unit): string {
  const { seconds, fraction } = split(value < 0n ? -value : value, unit);
  const days = seconds / DAY;
  return `${value < 0n ? "-" : ""}${days > 0n ? `${days}d ` : ""}${clock(seconds % DAY)}${fraction}`;
}

/** Whole seconds below `value`, and the rest as digits with a point: as many as the unit has. */
function split(value: bigint, unit: Unit): { seconds: bigint; fraction: string } {
  if (unit === "D") return { seconds: value * DAY, fraction: "" };
  const per = PER_SECOND[unit];
  const digits = String(per).length - 1;
  const fraction = digits === 0 ? "" : `.${String(mod(value, per)).padStart(digits, "0")}`;
  return { seconds: floorDiv(value, per), fraction };
}

function clock(seconds: bigint): string {
  return [seconds / 3600n, (seconds / 60n) % 60n, seconds % 60n].map((part) => String(part).padStart(2, "0")).join(":");
}

/** Year, month and day of a day since 1970, in the Gregorian calendar of all times; years as ISO 8601 writes them. */
function civil(day: bigint): string {
  // Days since 1 March of year 0; a year then ends with its leap day, and 400 years have 146,097 days.
  const shifted = day + 719_468n;
  const era = floorDiv(shifted, 146_097n);
  const dayOfEra = Number(mod(shifted, 146_097n));
  const yearOfEra = Math.floor((dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365);
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const dayOfMonth = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1;
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  const year = BigInt(yearOfEra) + era * 400n + (month <= 2 ? 1n : 0n);
  return `${yearText(year)}-${String(month).padStart(2, "0")}-${String(dayOfMonth).padStart(2, "0")}`;
}

function yearText(year: bigint): string {
  if (year >= 0n) return `${year > 9999n ? "+" : ""}${String(year).padStart(4, "0")}`;
  return `-${String(-year).padStart(4, "0")}`;
}

function offsetText(offset: number): string {
  const seconds = Math.abs(offset);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (parts[2] === 0) parts.pop();
  return `${offset < 0 ? "-" : "+"}${parts.map((part) => String(part).padStart(2, "0")).join(":")}`;
}

function floorDiv(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

function mod(value: bigint, by: bigint): bigint {
  const rest = value % by;
  return rest < 0n ? rest + by : rest;
}
