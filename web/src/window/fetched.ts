// Rows that were read once.

import type { Value } from "../cells/column.ts";

export interface Fetched {
  /** One array per row. */
  readonly rows: readonly Value[][];
  /** Versions of the table that they are of: one, unless it has changed between two pieces. */
  readonly versions: ReadonlySet<number>;
}
