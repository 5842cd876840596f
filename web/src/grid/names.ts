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
