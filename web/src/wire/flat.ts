// Flatbuffers that may be damaged. The usual library does not verify: a wrong offset silently reads other bytes. Here every
// offset is checked against the message.

import { WireError } from "./error.ts";

/** A whole message, and the table at one place of it. Fields are read by slot: their order in the schema, from 0. */
export class FlatTable {
  private readonly view: DataView;
  private readonly at: number;
  private readonly fields: number;
  private readonly slots: number;
  private readonly length: number;

  private constructor(view: DataView, at: number) {
    this.view = view;
    this.at = at;
    this.need(at, 4);
    this.fields = at - view.getInt32(at, true);
    this.need(this.fields, 4);
    const bytes = view.getUint16(this.fields, true);
    this.length = view.getUint16(this.fields + 2, true);
    if (bytes < 4 || bytes % 2 !== 0 || this.length < 4) throw new WireError("Damaged flatbuffer: a field list is too short.");
    this.need(this.fields, bytes);
    this.need(at, this.length);
    this.slots = (bytes - 4) / 2;
  }

  /** The outermost table of a message. */
  static root(message: Uint8Array): FlatTable {
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    if (view.byteLength < 8) throw new WireError("Damaged flatbuffer: it is too short.");
    return new FlatTable(view, view.getUint32(0, true));
  }

  boolean(slot: number): boolean {
    return this.uint8(slot) !== 0;
  }

  uint8(slot: number, absent = 0): number {
    const place = this.field(slot, 1);
    return place === 0 ? absent : this.view.getUint8(place);
  }

  int16(slot: number, absent = 0): number {
    const place = this.field(slot, 2);
    return place === 0 ? absent : this.view.getInt16(place, true);
  }

  int32(slot: number, absent = 0): number {
    const place = this.field(slot, 4);
    return place === 0 ? absent : this.view.getInt32(place, true);
  }

  uint32(slot: number): number {
    const place = this.field(slot, 4);
    return place === 0 ? 0 : this.view.getUint32(place, true);
  }

  /** A 64-bit integer that a double holds exactly. */
  int64(slot: number): number {
    const place = this.field(slot, 8);
    return place === 0 ? 0 : exact(this.view.getBigInt64(place, true));
  }

  /** A vector of bytes, as a view of the message; undefined when it is absent. */
  bytes(slot: number): Uint8Array | undefined {
    return this.structs(slot, 1);
  }

  /** The bytes of a vector of structs of `width` bytes; undefined when it is absent. */
  structs(slot: number, width: number): Uint8Array | undefined {
    const found = this.vector(slot, width);
    if (found === undefined) return undefined;
    return new Uint8Array(this.view.buffer, this.view.byteOffset + found.start, found.count * width);
  }

  table(slot: number): FlatTable | undefined {
    const place = this.field(slot, 4);
    return place === 0 ? undefined : new FlatTable(this.view, this.target(place));
  }

  /** The tables of a vector; undefined when it is absent. */
  tables(slot: number): FlatTable[] | undefined {
    const found = this.vector(slot, 4);
    if (found === undefined) return undefined;
    const tables: FlatTable[] = [];
    for (let n = 0; n < found.count; n += 1) tables.push(new FlatTable(this.view, this.target(found.start + 4 * n)));
    return tables;
  }

  /** The table's place in the message: equal places are the same table. */
  get place(): number {
    return this.at;
  }

  /** Place of a field of `width` bytes; 0: absent. */
  private field(slot: number, width: number): number {
    if (slot >= this.slots) return 0;
    const offset = this.view.getUint16(this.fields + 4 + 2 * slot, true);
    if (offset === 0) return 0;
    if (offset < 4 || offset + width > this.length) throw new WireError("Damaged flatbuffer: a field lies outside of its table.");
    return this.at + offset;
  }

  private target(place: number): number {
    const target = place + this.view.getUint32(place, true);
    this.need(target, 4);
    return target;
  }

  private vector(slot: number, width: number): { start: number; count: number } | undefined {
    const place = this.field(slot, 4);
    if (place === 0) return undefined;
    const start = this.target(place);
    const count = this.view.getUint32(start, true);
    if (count * width > this.view.byteLength - start - 4) throw new WireError("Damaged flatbuffer: a vector is longer than the message.");
    return { start: start + 4, count };
  }

  private need(place: number, bytes: number): void {
    if (place < 0 || place + bytes > this.view.byteLength) throw new WireError("Damaged flatbuffer: an offset points outside of the message.");
  }
}

/** `value` as a number; WireError where a double does not hold it exactly. */
export function exact(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new WireError(`${value} is beyond 2^53.`);
  return number;
}
