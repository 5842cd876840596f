// Numbers and times in words.

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

/** How far what is painted is behind the server: in words and ms. undefined: nothing has changed yet. */
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
