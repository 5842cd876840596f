// Row sets and column sets: see "Encodings" in docs/protocol.md.

import { WireError } from "./error.ts";
import { exact } from "./flat.ts";

const OFFSET = 0x08;
const SHORT_ARRAY = 0x10;
const BYTE_ARRAY = 0x18;
const END = 0x20;

/** An ordered set of row numbers below 2^53, as ranges that rise and do not touch. */
export class RowSet {
  static readonly EMPTY = new RowSet([], []);
  /** Rows in the set. */
  readonly size: number;
  /** First row of each range. */
  readonly starts: readonly number[];
  /** Last row of each range. */
  readonly ends: readonly number[];

  private constructor(starts: readonly number[], ends: readonly number[]) {
    this.starts = starts;
    this.ends = ends;
    let size = 0;
    for (let n = 0; n < starts.length; n += 1) size += (ends[n] ?? 0) - (starts[n] ?? 0) + 1;
    this.size = size;
  }

  /** The set of ranges that rise; neighbours that touch become one. WireError where they do not rise. */
  static of(ranges: Iterable<readonly [first: number, last: number]>): RowSet {
    const starts: number[] = [];
    const ends: number[] = [];
    let end = -2;
    for (const [first, last] of ranges) {
      if (!(first <= last && first > end) || first < 0 || !Number.isSafeInteger(last + 1)) throw new WireError(`${first}-${last} is no range after ${end}.`);
      if (first === end + 1) ends.pop();
      else starts.push(first);
      ends.push(last);
      end = last;
    }
    return starts.length === 0 ? RowSet.EMPTY : new RowSet(starts, ends);
  }

  /** The last row; -1 of the empty set. */
  get last(): number {
    return this.ends.at(-1) ?? -1;
  }

  /** All rows, rising. Takes as long as the set is large: compare `size` with what is there first. */
  *rows(): Generator<number, void> {
    for (let n = 0; n < this.starts.length; n += 1) {
      const end = this.ends[n] ?? -1;
      for (let row = this.starts[n] ?? 0; row <= end; row += 1) yield row;
    }
  }
}

/** The row set that `data` holds, and nothing but it. */
export function decodeRowSet(data: Uint8Array): RowSet {
  return data.length === 1 && data[0] === END ? RowSet.EMPTY : RowSet.of(ranges(values(data)));
}

/** Column numbers, rising, of a column set. */
export function decodeColumnSet(data: Uint8Array): number[] {
  const columns: number[] = [];
  data.forEach((byte, index) => {
    for (let bit = 0; bit < 8; bit += 1) if ((byte >> bit) & 1) columns.push(8 * index + bit);
  });
  return columns;
}

/** The ranges that signed values lead to. */
function* ranges(signed: Iterable<number>): Generator<[number, number], void> {
  let key = 0;
  let first = -1; // of the range that may still be closed by a negative value
  let count = 0;
  for (const value of signed) {
    const before = key;
    key += Math.abs(value);
    if (!Number.isSafeInteger(key)) throw new WireError("A row set holds a row beyond 2^53.");
    if (value < 0) {
      if (first < 0) throw new WireError("A row set ends a range that it did not start.");
      yield [first, key];
      first = -1;
    } else {
      if (count > 0 && key === before) throw new WireError("The rows of a row set must increase, but one is given twice.");
      if (first >= 0) yield [first, first];
      first = key;
    }
    count += 1;
  }
  if (first >= 0) yield [first, first];
}

/** The signed values of a stream of commands, up to its END, which must be the last byte. */
function* values(data: Uint8Array): Generator<number, void> {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let place = 0;
  const take = (width: number): number => {
    place += width;
    if (place > data.length) throw new WireError("A row set is cut short.");
    const at = place - width;
    if (width === 1) return view.getInt8(at);
    if (width === 2) return view.getInt16(at, true);
    return width === 4 ? view.getInt32(at, true) : exact(view.getBigInt64(at, true));
  };
  for (;;) {
    const byte = take(1) & 0xff;
    if (byte === END) break;
    const command = byte & 0xf8;
    const width = [0, 2, 4, 8, 1][byte & 0x07] ?? 0;
    if (width === 0 || (command !== OFFSET && command !== SHORT_ARRAY && command !== BYTE_ARRAY)) {
      throw new WireError(`0x${byte.toString(16)} is not a command of a row set.`);
    }
    const value = take(width);
    if (command === OFFSET) {
      yield value;
      continue;
    }
    const element = command === SHORT_ARRAY ? 2 : 1;
    if (value < 0 || value * element > data.length - place) throw new WireError("An array in a row set is longer than the row set.");
    for (let n = 0; n < value; n += 1) yield take(element);
  }
  if (place !== data.length) throw new WireError(`${data.length - place} bytes follow the end of a row set.`);
}
