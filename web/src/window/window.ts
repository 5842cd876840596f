// Replica of the rows in view.

import type { Column, Value } from "../cells/column.ts";

/** A cell that an update has changed. `at`: the update's number, as {@link TableWindow.version} counts. */
export interface Change {
  readonly at: number;
  /** 1: it has risen, -1: fallen, 0: neither, as for text. */
  readonly direction: -1 | 0 | 1;
}

/** The rows in view of one table, brought up to date by updates. Pure: no socket, no clock. */
export class TableWindow {
  /** Rows of the table. */
  size = 0;
  /** Absolute position of the first row held. */
  first = 0;
  /** Rows held. */
  count = 0;
  /** Numbers of the columns held, rising. */
  columns: readonly number[] = [];
  /** Updates applied. */
  version = 0;
  private readonly schema: readonly Column[];

  constructor(columns: readonly Column[]) {
    this.schema = columns;
  }

  /** The value at an absolute position; undefined: not held. */
  value(row: number, column: number): Value | undefined {
    void [row, column, this.schema];
    return undefined;
  }

  /** The last change of a cell since its row came into view; undefined: none. */
  changedAt(row: number, column: number): Change | undefined {
    void [row, column];
    return undefined;
  }
}
