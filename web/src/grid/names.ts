// Names of tables, columns and types as they are shown.

import { beginning, visible } from "../cells/visible.ts";

/** Characters of a name that are shown; the rest is counted. */
const MOST_CHARACTERS = 300;

/** A name with what would not be seen as symbols, cut to a length that can be read. */
export function shownName(name: string): string {
  if (name === "") return "(no name)";
  if (name.length <= MOST_CHARACTERS) return visible(name);
  return `${visible(beginning(name, MOST_CHARACTERS))}\u2026 (${name.length.toLocaleString("en")} characters)`;
}

/** The line below a column's name: its type, and whether it is a key. */
export function typeLine({ type, key }: { readonly type: string; readonly key?: true }): string {
  return key === undefined ? shownName(type) : `${shownName(type)} \u00b7 key`;
}
