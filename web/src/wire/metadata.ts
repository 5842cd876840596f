// The metadata of an update: BarrageUpdateMetadata of schema/barrage.fbs, without the envelope that it has elsewhere.

import { WireError } from "./error.ts";
import { FlatTable } from "./flat.ts";
import { RowSet, decodeColumnSet, decodeRowSet } from "./rowset.ts";

/** An update without its data. Row sets are positions in view: of removed rows before the update, of all others after it. */
export interface UpdateMetadata {
  /** The version of the table after it: a cycle of the server. */
  readonly step: number;
  readonly isSnapshot: boolean;
  /** The positions that a snapshot answers; undefined: the whole table. */
  readonly viewport: RowSet | undefined;
  /** Whether these count from the end. */
  readonly reverse: boolean;
  /** The columns that a snapshot answers; undefined: all. */
  readonly columns: readonly number[] | undefined;
  readonly added: RowSet;
  readonly removed: RowSet;
  /** Per column; [] when nothing is modified. */
  readonly modified: readonly RowSet[];
  /** Rows of the table after the update. */
  readonly size: number;
}

/** WireError on damaged bytes, and on what a flattened view does not have: shifts, and added rows without data. */
export function decodeMetadata(message: Uint8Array): UpdateMetadata {
  const table = FlatTable.root(message);
  const size = table.int64(11);
  if (size < 0) throw new WireError(`A table cannot have ${size} rows.`);
  const columns = table.bytes(5);
  const shifts = table.bytes(8);
  if (shifts !== undefined && !(shifts.length === 3 && shifts.every((byte) => byte === 0x20))) {
    throw new WireError("A view was sent shifts; it knows none.");
  }
  const added = rows(table, 6);
  const included = table.bytes(9);
  if (included !== undefined && !same(decodeRowSet(included), added)) throw new WireError("A view was sent rows without their data.");
  return {
    step: table.int64(1),
    isSnapshot: table.boolean(2),
    viewport: table.bytes(3) === undefined ? undefined : rows(table, 3),
    reverse: table.boolean(4),
    columns: columns === undefined ? undefined : decodeColumnSet(columns),
    added,
    removed: rows(table, 7),
    modified: modifiedRows(table, message.length),
    size,
  };
}

function rows(table: FlatTable, slot: number): RowSet {
  const data = table.bytes(slot);
  return data === undefined ? RowSet.EMPTY : decodeRowSet(data);
}

function same(left: RowSet, right: RowSet): boolean {
  return left.starts.length === right.starts.length && left.starts.every((start, n) => start === right.starts[n] && left.ends[n] === right.ends[n]);
}

/** Columns may share a table, or its bytes. Together the different ones are no longer than the message, as every encoder writes them. */
function modifiedRows(table: FlatTable, budget: number): RowSet[] {
  const known = new Map<number, RowSet>();
  return (table.tables(10) ?? []).map((node) => {
    const data = node.bytes(0);
    if (data === undefined) return RowSet.EMPTY;
    let found = known.get(data.byteOffset);
    if (found === undefined) {
      budget -= data.length;
      if (budget < 0) throw new WireError("The modified rows of columns overlap one another.");
      found = decodeRowSet(data);
      known.set(data.byteOffset, found);
    }
    return found;
  });
}
