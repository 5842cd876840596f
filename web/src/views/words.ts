// Numbers and times in words.

import { CUT_AT } from "../cells/text.ts";

const COUNT = new Intl.NumberFormat("en");
const RATE = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** "1,234,567" */
export function count(value: number): string {
  return COUNT.format(value);
}

/** "1 row", "2 rows" */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${COUNT.format(value)} ${value === 1 ? one : many}`;
}

/** Rows changed a second: "0", "0.25", "12,300". */
export function rate(value: number): string {
  return RATE.format(value);
}

/** What the server says of an operation that has failed, without its number: the page makes one plan of all. */
export function withoutStep(text: string): string {
  return text.replace(/^Operation \d+ \(\w+\) failed: /, "");
}

/** What a user reads who has copied `what`, of which `cut` cells are beginnings, from so many versions of the table. */
export function copiedText(what: string, cut: number, versions = 1): string {
  if (versions > 1) return `${copiedText(what, cut)} The table has changed meanwhile: they are of ${count(versions)} versions of it.`;
  if (cut === 0) return `Copied ${what}.`;
  return `Copied ${what}; ${count(cut)} ${cut === 1 ? "is" : "are"} cut at ${count(CUT_AT)} characters: copy ${cut === 1 ? "it" : "them"} from Cell.`;
}

/** How far what is painted is behind the server: in words and ms. undefined: nothing has changed yet, or for a while. */
export function lag(ms: number | undefined): string {
  if (ms === undefined) return "live";
  const exact = `${COUNT.format(Math.round(ms))} ms`;
  if (ms < 250) return `live, ${exact}`;
  if (ms < 2_000) return `a moment behind, ${exact}`;
  if (ms < 60_000) return `${Math.round(ms / 1_000)} seconds behind, ${exact}`;
  if (ms < 3_600_000) return `${counted(Math.round(ms / 60_000), "minute")} behind, ${exact}`;
  return `${counted(Math.round(ms / 3_600_000), "hour")} behind, ${exact}`;
}

/** "hh:mm:ss" of a time in ms since 1970, in the zone of the browser. */
export function clockTime(ms: number): string {
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** "512 B", "1.5 MiB" */
export function bytes(value: number): string {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${UNITS[unit] ?? ""}`;
}

/** Seconds as "0.4 s", "59 s", "12 min", "3 h 5 min", "2 d 4 h". */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
