// Arrow messages: schemas and record batches of lists, in the types that the server sends to pages. Everything is checked
// against the message before it is read.

import type { Value } from "../cells/column.ts";
import { WireError } from "./error.ts";
import { FlatTable, exact } from "./flat.ts";

const CONTINUATION = 0xffff_ffff;
const VERSION_5 = 4;
const SCHEMA = 1;
const BATCH = 3;

const TYPE_INT = 2;
const TYPE_FLOAT = 3;
const TYPE_TEXT = 5;
const TYPE_BOOL = 6;
const TYPE_LIST = 12;

/** The type of a column's values. `width`: bits of a number. */
export interface WireType {
  readonly kind: "bool" | "int" | "uint" | "float" | "text";
  readonly width: number;
}

interface Message {
  readonly header: FlatTable;
  readonly body: Uint8Array;
}

/** The flatbuffer and the body of an encapsulated message, which must be of type `type`. */
function open(message: Uint8Array, type: number): Message {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  if (message.length < 16 || view.getUint32(0, true) !== CONTINUATION) throw new WireError("An Arrow message does not begin as one.");
  const length = view.getUint32(4, true);
  if (length > message.length - 8) throw new WireError("An Arrow message is cut short.");
  const root = FlatTable.root(message.subarray(8, 8 + length));
  const body = message.subarray(8 + length);
  if (root.int16(0) !== VERSION_5 || root.uint8(1) !== type) throw new WireError("An Arrow message is of another kind or version.");
  if (root.int64(3) !== body.length) throw new WireError("An Arrow message is not as long as it says.");
  const header = root.table(2);
  if (header === undefined) throw new WireError("An Arrow message has no header.");
  return { header, body };
}

/** The types of the columns, which all are lists of them. */
export function decodeSchema(message: Uint8Array): WireType[] {
  const { header } = open(message, SCHEMA);
  if (header.int16(0) !== 0) throw new WireError("A schema is big-endian.");
  return (header.tables(1) ?? []).map((field) => {
    const children = field.tables(5) ?? [];
    const child = children[0];
    if (field.uint8(2) !== TYPE_LIST || children.length !== 1 || child === undefined) throw new WireError("A column does not travel as a list.");
    if ((child.tables(5) ?? []).length > 0 || child.table(4) !== undefined) throw new WireError("A column is nested or has a dictionary.");
    return wireType(child);
  });
}

function wireType(field: FlatTable): WireType {
  const type = field.uint8(2);
  const about = field.table(3);
  if (type === TYPE_BOOL) return { kind: "bool", width: 1 };
  if (type === TYPE_TEXT) return { kind: "text", width: 0 };
  if (type === TYPE_INT && about !== undefined) {
    const width = about.int32(0);
    if ([8, 16, 32, 64].includes(width)) return { kind: about.boolean(1) ? "int" : "uint", width };
  }
  if (type === TYPE_FLOAT && about !== undefined) {
    const width = [16, 32, 64][about.int16(0)];
    if (width !== undefined) return { kind: "float", width };
  }
  throw new WireError(`A column is of a type that pages are not sent: ${type}.`);
}

/** The values in each column's only list, together at most `mostCells`. */
export function decodeBatch(types: readonly WireType[], message: Uint8Array, mostCells: number): Value[][] {
  const { header, body } = open(message, BATCH);
  if (header.table(3) !== undefined) throw new WireError("A record batch is compressed.");
  const length = header.int64(0);
  if (length !== 1 && length !== 0) throw new WireError(`A record batch of lists has ${length} rows.`);
  const batch = new Batch(header, body, mostCells);
  const columns = types.map((type) => batch.list(type, length));
  batch.finish();
  return columns;
}

interface Node {
  readonly length: number;
  readonly nulls: number;
}

/** The nodes and buffers of a record batch, taken in their order. */
class Batch {
  private readonly nodes: DataView;
  private readonly buffers: DataView;
  private readonly body: Uint8Array;
  private node = 0;
  private buffer = 0;
  private cellsLeft: number;
  private textLeft: number; // bytes

  constructor(header: FlatTable, body: Uint8Array, mostCells: number) {
    this.nodes = viewOf(header.structs(1, 16));
    this.buffers = viewOf(header.structs(2, 16));
    this.body = body;
    this.cellsLeft = mostCells;
    this.textLeft = body.length; // columns that share their bytes would make a small message expensive
  }

  /** A list column of `rows` rows, 0 or 1: the values of its list. */
  list(type: WireType, rows: number): Value[] {
    const outer = this.takeNode();
    this.takeBuffer(); // which of the lists are null: none may be
    const offsets = viewOf(this.takeBuffer());
    if (outer.length !== rows || outer.nulls !== 0) throw new WireError("A column must be one list that is not null.");
    const inner = this.takeNode();
    this.cellsLeft -= inner.length;
    if (this.cellsLeft < 0) throw new WireError("A record batch has more cells than a view may have.");
    let [start, stop] = [0, 0];
    if (rows === 1) {
      if (offsets.byteLength < 8) throw new WireError("A list has no offsets.");
      [start, stop] = [offsets.getInt32(0, true), offsets.getInt32(4, true)];
    }
    if (start < 0 || stop < start || stop > inner.length) throw new WireError("A list reaches beyond its values.");
    const valid = this.validity(inner);
    const values = type.kind === "text" ? this.texts(inner, start, stop) : this.numbers(type, inner, start, stop);
    if (valid !== undefined) {
      for (let n = start; n < stop; n += 1) if (((valid[n >> 3] ?? 0) >> (n & 7) & 1) === 0) values[n - start] = null;
    }
    return values;
  }

  finish(): void {
    if (16 * this.node !== this.nodes.byteLength || 16 * this.buffer !== this.buffers.byteLength) {
      throw new WireError("A record batch has more columns than the schema.");
    }
  }

  /** Bits of the values that are not null; undefined: none is. */
  private validity(node: Node): Uint8Array | undefined {
    const bits = this.takeBuffer();
    if (node.nulls === 0) return undefined;
    if (8 * bits.length < node.length) throw new WireError("A column has fewer validity bits than values.");
    let nulls = 0;
    for (let n = 0; n < node.length; n += 1) nulls += 1 - (((bits[n >> 3] ?? 0) >> (n & 7)) & 1);
    if (nulls !== node.nulls) throw new WireError("A column has another number of nulls than it says.");
    return bits;
  }

  private numbers(type: WireType, node: Node, start: number, stop: number): Value[] {
    const data = viewOf(this.takeBuffer());
    if (8 * data.byteLength < node.length * type.width) throw new WireError("A column has fewer bytes than values.");
    const read = READERS[`${type.kind}${type.width}`];
    if (read === undefined) throw new WireError(`There are no values of type ${type.kind}${type.width}.`);
    const values: Value[] = [];
    for (let n = start; n < stop; n += 1) values.push(read(data, n));
    return values;
  }

  private texts(node: Node, start: number, stop: number): Value[] {
    const offsets = viewOf(this.takeBuffer());
    const data = this.takeBuffer();
    if (offsets.byteLength < 4 * (node.length + 1) && node.length > 0) throw new WireError("A column of text has too few offsets.");
    const values: Value[] = [];
    for (let n = start; n < stop; n += 1) {
      const [from, to] = [offsets.getInt32(4 * n, true), offsets.getInt32(4 * n + 4, true)];
      if (from < 0 || to < from || to > data.length) throw new WireError("A text lies outside of its column.");
      this.textLeft -= to - from;
      if (this.textLeft < 0) throw new WireError("Texts of a record batch overlap one another.");
      values.push(from === to ? "" : text(data.subarray(from, to)));
    }
    return values;
  }

  private takeNode(): Node {
    const at = 16 * this.node;
    if (at + 16 > this.nodes.byteLength) throw new WireError("A record batch has fewer columns than the schema.");
    this.node += 1;
    const [length, nulls] = [exact(this.nodes.getBigInt64(at, true)), exact(this.nodes.getBigInt64(at + 8, true))];
    if (length < 0 || nulls < 0 || nulls > length) throw new WireError("A column has an impossible length.");
    return { length, nulls };
  }

  private takeBuffer(): Uint8Array {
    const at = 16 * this.buffer;
    if (at + 16 > this.buffers.byteLength) throw new WireError("A record batch has fewer buffers than the schema needs.");
    this.buffer += 1;
    const [offset, length] = [exact(this.buffers.getBigInt64(at, true)), exact(this.buffers.getBigInt64(at + 8, true))];
    if (offset < 0 || length < 0 || offset + length > this.body.length) throw new WireError("A buffer lies outside of its record batch.");
    return this.body.subarray(offset, offset + length);
  }
}

const READERS: Readonly<Record<string, (data: DataView, n: number) => Value>> = {
  bool1: (data, n) => ((data.getUint8(n >> 3) >> (n & 7)) & 1) === 1,
  int8: (data, n) => data.getInt8(n),
  int16: (data, n) => data.getInt16(2 * n, true),
  int32: (data, n) => data.getInt32(4 * n, true),
  int64: (data, n) => data.getBigInt64(8 * n, true),
  uint8: (data, n) => data.getUint8(n),
  uint16: (data, n) => data.getUint16(2 * n, true),
  uint32: (data, n) => data.getUint32(4 * n, true),
  uint64: (data, n) => data.getBigUint64(8 * n, true),
  float16: (data, n) => half(data.getUint16(2 * n, true)),
  float32: (data, n) => data.getFloat32(4 * n, true),
  float64: (data, n) => data.getFloat64(8 * n, true),
};

/** The number with the bits of a float of 16 bits. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function text(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new WireError("A text is not UTF-8.");
  }
}

function viewOf(bytes: Uint8Array | undefined): DataView {
  return bytes === undefined ? new DataView(new ArrayBuffer(0)) : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
