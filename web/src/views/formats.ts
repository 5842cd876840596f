// The menus in which formats of numbers are chosen.

import type { Column } from "../cells/column.ts";
import type { Format } from "../cells/format.ts";
import type { MenuEntry, MenuGroups } from "./menu.ts";

const DIGITS: readonly (readonly [string, number | undefined])[] = [
  ["All digits", undefined], ["Whole numbers", 0], ["2 digits", 2], ["4 digits", 4], ["6 digits", 6],
];

/** Entries for all columns that have no format of their own. `set` gets undefined for exact numbers. */
export function pageFormats(now: Format | undefined, set: (format: Format | undefined) => void): MenuGroups {
  const chosen = (format: Format): void => set(Object.keys(format).length === 0 ? undefined : format);
  return [digits(now ?? {}, now ?? {}, DIGITS, chosen), ways(now ?? {}, chosen)];
}

/** Entries for one column. `own`: its format; undefined: that of the page. `set` gets undefined for that. */
export function columnFormats(column: Column, own: Format | undefined, page: Format | undefined, set: (format: Format | undefined) => void): MenuGroups {
  const now = own ?? page ?? {};
  // An integer has no digits after its point, but in scientific notation.
  const choices = column.form === "int" && now.scientific !== true ? DIGITS.slice(0, 1) : DIGITS;
  const asPage: MenuEntry = { label: "As the page", checked: own === undefined, oneOf: true, run: () => set(undefined) };
  return [[asPage, ...digits(own, now, choices, set)], ways(now, set)];
}

/** @param own undefined: none of the entries is chosen */
function digits(own: Format | undefined, now: Format, choices: typeof DIGITS, set: (format: Format) => void): MenuEntry[] {
  return choices.map(([label, count]) => ({
    label,
    checked: own !== undefined && (choices.length === 1 || own.digits === count),
    oneOf: true,
    run: () => set(format(count, now.grouped, now.scientific)),
  }));
}

function ways({ digits: count, grouped, scientific }: Format, set: (format: Format) => void): MenuEntry[] {
  return [
    { label: "Group thousands", checked: grouped === true, run: () => set(format(count, grouped !== true, scientific)) },
    { label: "Scientific", checked: scientific === true, run: () => set(format(count, grouped, scientific !== true)) },
  ];
}

function format(count: number | undefined, grouped: boolean | undefined, scientific: boolean | undefined): Format {
  return { ...(count === undefined ? {} : { digits: count }), ...(grouped === true ? { grouped } : {}), ...(scientific === true ? { scientific } : {}) };
}
