// Offsets of time zones, which the browser knows.

const LAST = 8_639_999_900_000; // seconds from 1970 that a Date reaches, either way, and a day less
const SPAN = 900; // seconds
const MOST_KNOWN = 4096;
const FIXED = /^([+-])(\d\d):?(\d\d)$/;

interface Zone {
  readonly formatter: Intl.DateTimeFormat;
  /** Offsets by the spans of time within which they do not change. */
  readonly known: Map<number, number>;
}

const zones = new Map<string, Zone | undefined>();

/** Seconds that local time in `zone` is ahead of UTC at `seconds` since 1970. 0 in zones, and at times, that the browser does not know. */
export function offsetAt(zone: string, seconds: number): number {
  if (zone === "UTC" || Math.abs(seconds) > LAST) return 0;
  if (!zones.has(zone)) zones.set(zone, zoneOf(zone));
  const found = zones.get(zone);
  if (found === undefined) return fixedOffset(zone);
  const span = Math.floor(seconds / SPAN);
  const known = found.known.get(span);
  if (known !== undefined) return known;
  const offset = measured(found.formatter, seconds);
  if (measured(found.formatter, span * SPAN) === offset && measured(found.formatter, (span + 1) * SPAN - 1) === offset) {
    if (found.known.size >= MOST_KNOWN) found.known.clear();
    found.known.set(span, offset);
  }
  return offset;
}

/** Of a zone such as "+05:30"; 0 of any other. */
function fixedOffset(zone: string): number {
  const [, sign, hours, minutes] = FIXED.exec(zone) ?? [];
  return (sign === "-" ? -1 : 1) * (3600 * Number(hours ?? 0) + 60 * Number(minutes ?? 0));
}

function zoneOf(timeZone: string): Zone | undefined {
  if (FIXED.test(timeZone)) return undefined;
  const fields = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" } as const;
  try {
    const formatter = new Intl.DateTimeFormat("en-US", { timeZone, era: "short", hourCycle: "h23", calendar: "gregory", ...fields });
    return { formatter, known: new Map() };
  } catch {
    return undefined;
  }
}

function measured(formatter: Intl.DateTimeFormat, seconds: number): number {
  const parts: Record<string, string> = {};
  for (const { type, value } of formatter.formatToParts(1000 * seconds)) parts[type] = value;
  const number = (name: string): number => Number(parts[name] ?? 0);
  const local = new Date(0);
  const year = parts["era"]?.startsWith("B") === true ? 1 - number("year") : number("year");
  local.setUTCFullYear(year, number("month") - 1, number("day"));
  local.setUTCHours(number("hour"), number("minute"), number("second"));
  return local.getTime() / 1000 - seconds;
}
