// One stream of one connection: from frames to a window.

import type { Column } from "../cells/column.ts";
import { WireError } from "../wire/error.ts";
import type { Frame } from "../wire/frame.ts";
import type { Limits, ServerMessage } from "../wire/messages.ts";
import { StreamReader } from "../wire/update.ts";
import { TableWindow } from "../window/window.ts";

/** What an update has done. */
export interface Applied {
  readonly isSnapshot: boolean;
  /** The version of the table that it leads to. */
  readonly step: number;
  readonly age: number | undefined;
}

/** Reads one stream. Nothing of it is shown before its first snapshot. */
export class Stream {
  readonly number: number;
  columns: readonly Column[] = [];
  kind = "";
  private readonly limits: Limits;
  private reader: StreamReader | undefined;
  private replica: TableWindow | undefined;

  constructor(number: number, limits: Limits) {
    this.number = number;
    this.limits = limits;
  }

  /** The rows in view; undefined before the first snapshot. */
  get window(): TableWindow | undefined {
    return this.replica !== undefined && this.replica.version > 0 ? this.replica : undefined;
  }

  opened(message: ServerMessage & { readonly type: "opened" }): void {
    if (this.reader !== undefined) throw new WireError("A stream was opened twice.");
    this.columns = message.columns;
    this.kind = message.kind;
    this.reader = new StreamReader(message.columns.length, this.limits);
    this.replica = new TableWindow(message.columns, this.limits.rows);
  }

  /** The stream begins anew, with these columns of a wide table only. */
  chose(columns: readonly number[]): void {
    if (this.replica === undefined) throw new WireError("A stream has columns before it is opened.");
    this.reader = new StreamReader(this.columns.length, this.limits, columns);
    this.replica = new TableWindow(this.columns, this.limits.rows);
  }

  /** Applies the update that the frame completes; undefined: more is to come. */
  take(frame: Frame): Applied | undefined {
    if (this.reader === undefined || this.replica === undefined) throw new WireError("A stream has frames before it is opened.");
    const update = this.reader.take(frame);
    if (update === undefined) return undefined;
    this.replica.apply(update);
    return { isSnapshot: update.isSnapshot, step: update.step, age: update.age };
  }
}
