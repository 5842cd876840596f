// Frames of one stream to updates.

import type { Value } from "../cells/column.ts";
import { type WireType, decodeBatch, decodeSchema } from "./arrow.ts";
import { WireError } from "./error.ts";
import type { Frame } from "./frame.ts";
import { type UpdateMetadata, decodeMetadata } from "./metadata.ts";
import { RowSet } from "./rowset.ts";

/** A whole update. Per column of the table the values of the added rows, and of its own modified rows; [] where it is not in view. */
export interface Update extends UpdateMetadata {
  readonly adds: readonly (readonly Value[])[];
  readonly mods: readonly (readonly Value[])[];
  /** See {@link Frame.age}. */
  readonly age: number | undefined;
}

interface Pending {
  readonly metadata: UpdateMetadata;
  readonly age: number | undefined;
  readonly adds: Value[][];
  readonly mods: Value[][];
  addsLeft: number;
  modsLeft: number;
}

/** What one update may have, added and modified rows each for themselves. */
export interface UpdateLimits {
  readonly rows: number;
  readonly cells: number;
}

/** Assembles the frames of one stream. `width`: columns of the table. `columns`: those that the frames number from 0; undefined: all. */
export class StreamReader {
  private readonly width: number;
  private readonly limits: UpdateLimits;
  private readonly table: { readonly width: number; readonly columns: readonly number[] } | undefined;
  private types: WireType[] | undefined;
  private pending: Pending | undefined;
  private inView: readonly number[] | undefined;

  constructor(width: number, limits: UpdateLimits, columns?: readonly number[]) {
    if ((columns?.at(-1) ?? -1) >= width) throw new WireError(`There is no column ${columns?.at(-1)} of ${width}.`);
    this.width = columns?.length ?? width;
    this.table = columns && { width, columns };
    this.limits = limits;
  }

  /** The update that `frame` completes; undefined: more is to come. WireError: the stream is of no use any more. */
  take(frame: Frame): Update | undefined {
    if (frame.kind === "schema") {
      if (this.types !== undefined) throw new WireError("A stream has a second schema.");
      this.types = decodeSchema(frame.message);
      if (this.types.length !== this.width) throw new WireError(`A schema has ${this.types.length} columns, not ${this.width}.`);
      return undefined;
    }
    if (this.types === undefined) throw new WireError("A stream has data before its schema.");
    const pending = frame.kind === "update" ? this.begin(frame) : this.pending;
    const columns = decodeBatch(this.types, frame.message, this.limits.cells);
    if (pending === undefined) {
      if (this.hasValues || columns.some((values) => values.length > 0)) throw new WireError("A record batch belongs to no update.");
      return undefined;
    }
    if (!isComplete(pending, columns)) return undefined;
    this.pending = undefined;
    return this.numbered({ ...pending.metadata, adds: pending.adds, mods: pending.mods, age: pending.age });
  }

  /** The update with the table's numbers of columns. */
  private numbered(update: Update): Update {
    if (this.table === undefined) return update;
    const { width, columns } = this.table;
    const spread = <T>(from: readonly T[], nothing: T): T[] => {
      const found = Array.from({ length: width }, () => nothing);
      columns.forEach((column, place) => (found[column] = from[place] ?? nothing));
      return found;
    };
    return {
      ...update,
      columns: update.columns?.map((place) => columns[place] ?? width) ?? columns,
      modified: spread(update.modified, RowSet.EMPTY),
      adds: spread(update.adds, []),
      mods: spread(update.mods, []),
    };
  }

  /** Whether any column is in view. Without one an update may have any number of batches, all of them empty; the first suffices. */
  private get hasValues(): boolean {
    return this.width > 0 && this.inView?.length !== 0;
  }

  private begin(frame: Frame): Pending {
    if (this.pending !== undefined) throw new WireError("An update begins before the last one is complete.");
    const metadata = decodeMetadata(frame.metadata);
    const { modified, added, isSnapshot, columns } = metadata;
    if (modified.length !== 0 && modified.length !== this.width) throw new WireError(`Modified rows of ${modified.length} columns, not ${this.width}.`);
    if (isSnapshot) this.inView = columns;
    const most = modified.reduce((longest, rows) => Math.max(longest, rows.size), 0);
    const inAll = modified.reduce((sum, rows) => sum + rows.size, 0) + added.size * (this.inView?.length ?? this.width);
    const { rows, cells } = this.limits;
    if (Math.max(added.size, most) > rows || inAll > 2 * cells) throw new WireError(`An update has more than ${rows} rows or ${cells} cells.`);
    this.pending = {
      metadata,
      age: frame.age,
      adds: Array.from({ length: this.width }, () => []),
      mods: Array.from({ length: this.width }, () => []),
      addsLeft: this.hasValues ? added.size : 0,
      modsLeft: this.hasValues ? most : 0,
    };
    return this.pending;
  }
}

/** Take a record batch into an update; whether that was its last one. */
function isComplete(pending: Pending, columns: readonly Value[][]): boolean {
  const rows = columns.reduce((most, values) => Math.max(most, values.length), 0);
  if (rows === 0 && pending.addsLeft + pending.modsLeft > 0) throw new WireError("A record batch has none of the rows of its update.");
  if (pending.addsLeft > 0) {
    pending.addsLeft -= rows;
    append(pending.adds, columns);
  } else {
    pending.modsLeft -= rows;
    append(pending.mods, columns);
  }
  if (pending.addsLeft < 0 || pending.modsLeft < 0) throw new WireError("A record batch has more rows than its update.");
  return pending.addsLeft === 0 && pending.modsLeft === 0;
}

function append(target: readonly Value[][], columns: readonly Value[][]): void {
  columns.forEach((values, number) => {
    const into = target[number];
    if (into !== undefined) for (const value of values) into.push(value);
  });
}
