// Frames as a server would send them, from plain values. The flatbuffers are made without a library, the Arrow messages with one
// that the page does not use.

import { type DataType, columnFromArray, float64, int64, list, tableFromColumns, tableToIPC, utf8 } from "@uwdata/flechette";

import type { Column, Value } from "../src/cells/column.ts";

export const COLUMNS: readonly Column[] = [
  { name: "id", type: "int64", form: "int" },
  { name: "price", type: "double", form: "float" },
  { name: "name", type: "string", form: "text" },
];
export const TYPES: readonly (() => DataType)[] = [int64, float64, utf8];

/** A field of a flatbuffer's table, by its bytes or what it refers to. */
export type Field =
  | { readonly u8: number }
  | { readonly u32: number }
  | { readonly i64: number | bigint }
  | { readonly bytes: Uint8Array }
  | { readonly tables: readonly Fields[] };
export type Fields = Readonly<Record<number, Field>>;

/** A finished flatbuffer whose root has `fields` by slot. */
export function flatbuffer(fields: Fields): Uint8Array {
  const bytes: number[] = [0, 0, 0, 0];
  const put = (at: number, value: number, width: number): void => {
    for (let n = 0; n < width; n += 1) bytes[at + n] = (value / 2 ** (8 * n)) & 0xff;
  };
  const table = (content: Fields): number => {
    const slots = Math.max(-1, ...Object.keys(content).map(Number)) + 1;
    const list = bytes.length;
    bytes.push(...new Array<number>(4 + 2 * slots).fill(0));
    const start = bytes.length;
    bytes.push(...new Array<number>(4 + 8 * slots).fill(0));
    put(list, 4 + 2 * slots, 2);
    put(list + 2, bytes.length - start, 2);
    put(start, start - list, 4);
    for (const [slot, field] of Object.entries(content)) {
      const place = start + 4 + 8 * Number(slot);
      put(list + 4 + 2 * Number(slot), place - start, 2);
      if ("u8" in field) put(place, field.u8, 1);
      else if ("u32" in field) put(place, field.u32, 4);
      else if ("i64" in field) {
        const view = new DataView(new ArrayBuffer(8));
        view.setBigInt64(0, BigInt(field.i64), true);
        for (let n = 0; n < 8; n += 1) bytes[place + n] = view.getUint8(n);
      } else {
        put(place, bytes.length - place, 4);
        const vector = bytes.length;
        if ("bytes" in field) {
          bytes.push(0, 0, 0, 0, ...field.bytes);
          put(vector, field.bytes.length, 4);
        } else {
          bytes.push(...new Array<number>(4 + 4 * field.tables.length).fill(0));
          put(vector, field.tables.length, 4);
          field.tables.forEach((one, n) => put(vector + 4 + 4 * n, table(one) - (vector + 4 + 4 * n), 4));
        }
      }
    }
    return start;
  };
  put(0, table(fields), 4);
  return new Uint8Array(bytes);
}

/** A row set from its ranges: each value as an offset of eight bytes. */
export function rowSet(...ranges: readonly (readonly [first: number, last: number])[]): Uint8Array {
  const out: number[] = [];
  let key = 0;
  const value = (number: number): void => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigInt64(0, BigInt(number), true);
    out.push(0x0b, ...new Uint8Array(view.buffer));
  };
  for (const [first, last] of ranges) {
    value(first - key);
    if (last > first) value(first - last);
    key = last;
  }
  return new Uint8Array([...out, 0x20]);
}

export interface UpdateFacts {
  readonly step?: number;
  readonly size: number;
  readonly snapshot?: boolean;
  readonly viewport?: readonly [first: number, last: number];
  readonly reverse?: boolean;
  readonly columns?: readonly number[];
  readonly added?: readonly (readonly [number, number])[];
  readonly removed?: readonly (readonly [number, number])[];
  /** Per column. */
  readonly modified?: readonly (readonly (readonly [number, number])[])[];
}

export function metadata(facts: UpdateFacts): Uint8Array {
  const fields: Record<number, Field> = {
    1: { i64: facts.step ?? 0 },
    2: { u8: facts.snapshot === true ? 1 : 0 },
    4: { u8: facts.reverse === true ? 1 : 0 },
    6: { bytes: rowSet(...(facts.added ?? [])) },
    7: { bytes: rowSet(...(facts.removed ?? [])) },
    11: { i64: facts.size },
  };
  if (facts.viewport !== undefined) fields[3] = { bytes: rowSet(facts.viewport) };
  if (facts.columns !== undefined) fields[5] = { bytes: new Uint8Array([facts.columns.reduce((bits, column) => bits | (1 << column), 0)]) };
  if (facts.modified !== undefined) fields[10] = { tables: facts.modified.map((ranges) => ({ 0: { bytes: rowSet(...ranges) } })) };
  return flatbuffer(fields);
}

/** The messages of an Arrow stream with one batch, in which each column is one list. */
export function arrowMessages(columns: readonly (readonly Value[])[], types: readonly (() => DataType)[] = TYPES): Uint8Array[] {
  const pairs = columns.map((values, n) => [`c${n}`, columnFromArray([[...values]], list((types[n] ?? int64)()))] as const);
  const stream = tableToIPC(tableFromColumns(pairs as never), { format: "stream" });
  if (stream === null) throw new Error("flechette gave no stream");
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
  const messages: Uint8Array[] = [];
  let place = 0;
  while (messages.length < 2) {
    const length = view.getUint32(place + 4, true);
    const root = place + 8 + view.getUint32(place + 8, true);
    const fields = root - view.getInt32(root, true);
    const at = view.getUint16(fields, true) < 12 ? 0 : view.getUint16(fields + 10, true);
    const body = at === 0 ? 0 : Number(view.getBigInt64(root + at, true));
    messages.push(stream.slice(place, place + 8 + length + body));
    place += 8 + length + body;
  }
  return messages;
}

function frame(stream: number, kind: number, about: Uint8Array, message: Uint8Array, age: number): ArrayBuffer {
  const start = 16 + 8 * Math.ceil(about.length / 8);
  const bytes = new Uint8Array(start + message.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, stream, true);
  view.setUint8(4, kind);
  view.setUint32(8, about.length, true);
  view.setUint32(12, age, true);
  bytes.set(about, 16);
  bytes.set(message, start);
  return bytes.buffer;
}

export function schemaFrame(stream: number, types = TYPES): ArrayBuffer {
  return frame(stream, 0, new Uint8Array(0), arrowMessages(types.map(() => []), types)[0] ?? new Uint8Array(0), 0);
}

export function updateFrame(stream: number, facts: UpdateFacts, columns: readonly (readonly Value[])[], age = 10, types = TYPES): ArrayBuffer {
  return frame(stream, 1, metadata(facts), arrowMessages(columns, types)[1] ?? new Uint8Array(0), age);
}

export function furtherFrame(stream: number, columns: readonly (readonly Value[])[]): ArrayBuffer {
  return frame(stream, 2, new Uint8Array(0), arrowMessages(columns)[1] ?? new Uint8Array(0), 0);
}
