// Which view is shown: table, columns, position, follow, or a plot. The page writes it into its address.

import type { Format } from "../cells/format.ts";
import type { PlotSpec } from "../plot/spec.ts";
import type { Query } from "../wire/messages.ts";

/** How numbers are shown: by columns' names, and in all other columns. */
export interface NumberFormats {
  /** Absent: exactly. */
  readonly others?: Format;
  readonly columns: ReadonlyMap<string, Format>;
}

/** What of a view can be sent as a link. */
export interface Address {
  /** Absent: the list of tables. */
  readonly table?: string;
  /** First row in view, from 0. */
  readonly row?: number;
  /** Whether the end is followed; absent: as usual for the kind of table. */
  readonly follow?: boolean;
  /** Names of the shown columns, in order; absent: as usual. */
  readonly columns?: readonly string[];
  /** Absent: as usual. */
  readonly formats?: NumberFormats;
  /** Absent: the table as it is. */
  readonly query?: Query;
  /** Whether the state of the server is shown. */
  readonly health?: boolean;
  /** A plot instead of the grid. */
  readonly plot?: PlotSpec;
}

/** Columns that an address names at most, as shown and with a format. */
export const MOST_NAMED_COLUMNS = 100;
