// Bytes: what is read, and what is refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { float16, float32, int8, int32, uint64, utf8, int64, float64, bool } from "@uwdata/flechette";

import { decodeBatch, decodeSchema } from "../src/wire/arrow.ts";
import { WireError } from "../src/wire/error.ts";
import { FlatTable } from "../src/wire/flat.ts";
import { decodeFrame } from "../src/wire/frame.ts";
import { decodeMetadata } from "../src/wire/metadata.ts";
import { parseMessage } from "../src/wire/parse.ts";
import { type RowSet, decodeColumnSet, decodeRowSet } from "../src/wire/rowset.ts";
import { StreamReader } from "../src/wire/update.ts";
import { COLUMNS, arrowMessages, furtherFrame, metadata, schemaFrame, updateFrame } from "./builders.ts";
import { random } from "./chance.ts";

const LIMITS = { rows: 100, cells: 1000 };

function hex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"));
}

function ranges({ starts, ends }: RowSet): number[][] {
  return starts.map((start, n) => [start, ends[n] ?? -1]);
}

test("the row sets of docs/protocol.md", () => {
  const known: readonly (readonly [string, number[][]])[] = [
    ["20", []],
    ["0c 03 20", [[3, 3]]],
    ["09 2c 01 20", [[300, 300]]],
    ["1c 02 00 fc 20", [[0, 4]]],
    ["1c 05 00 02 02 02 02 20", [[0, 0], [2, 2], [4, 4], [6, 6], [8, 8]]],
    ["09 c8 00 0c 9d 20", [[200, 299]]],
    ["0c 00 0a 21 6c fb ff 20", [[0, 299_999]]],
    ["14 03 05 00 e3 03 19 fc 0a a1 09 01 00 20", [[5, 5], [1000, 1999], [70_000, 70_000]]],
  ];
  for (const [bytes, expected] of known) assert.deepEqual(ranges(decodeRowSet(hex(bytes))), expected, bytes);
  assert.deepEqual(decodeColumnSet(hex("02 02")), [1, 9]);
});

test("damaged row sets are refused", () => {
  const damaged = ["", "0c", "0c 03", "20 20", "ff 20", "0c ff 20", "1c 02 00 fc", "1c 7f 00 20", "1c 02 00 00 20", "1c 03 05 ff ff 20", "0b ffffffffffffff7f 20", "1c ff 20"];
  for (const bytes of damaged) assert.throws(() => decodeRowSet(hex(bytes)), WireError, bytes);
});

test("values of every type, as another library writes them", () => {
  const cases = [
    { type: int8, values: [-128, 0, null, 127] },
    { type: int32, values: [-(2 ** 31), null, 2 ** 31 - 1] },
    { type: int64, values: [-(2n ** 63n), 2n ** 63n - 1n, null] },
    { type: uint64, values: [0n, 2n ** 64n - 1n] },
    { type: float16, values: [0.5, -2, 65504, 2 ** -24, Infinity, NaN, null, -0] },
    { type: float32, values: [Math.fround(0.1), -0, NaN, null, -Infinity] },
    { type: float64, values: [0.1, 5e-324, NaN, -0, null] },
    { type: bool, values: [true, false, null, true, true, false, true, false, null] },
    { type: utf8, values: ["", "a", null, "ä€😀\u0000", "\ufeffx"] },
  ];
  for (const { type, values } of cases) {
    const [schema, batch] = arrowMessages([values], [type]);
    assert.ok(schema && batch);
    const types = decodeSchema(schema);
    assert.deepEqual(decodeBatch(types, batch, 1000), [values], type.name);
    assert.throws(() => decodeBatch(types, batch, values.length - 1), WireError, "more cells than allowed");
    assert.throws(() => decodeBatch([...types, ...types], batch, 1000), WireError, "fewer columns than the schema");
    assert.throws(() => decodeBatch([], batch, 1000), WireError, "more columns than the schema");
    assert.throws(() => decodeSchema(batch), WireError);
  }
});

test("an update comes in several batches: added rows first, then modified ones", () => {
  const reader = new StreamReader(3, LIMITS);
  assert.equal(reader.take(decodeFrame(schemaFrame(1))), undefined);
  const facts = { size: 5, snapshot: true, viewport: [0, 9] as const, added: [[0, 2]] as const, modified: [[], [[3, 4]], [[3, 3]]] as const };
  assert.equal(reader.take(decodeFrame(updateFrame(1, facts, [[1n, 2n], [1, 2], ["a", "b"]]))), undefined);
  assert.equal(reader.take(decodeFrame(furtherFrame(1, [[3n], [3], ["c"]]))), undefined);
  const update = reader.take(decodeFrame(furtherFrame(1, [[], [4, 5], ["d"]])));
  assert.deepEqual(update?.adds, [[1n, 2n, 3n], [1, 2, 3], ["a", "b", "c"]]);
  assert.deepEqual(update?.mods, [[], [4, 5], ["d"]]);
  assert.equal(update?.age, 10);
});

test("frames out of order, and updates that are too large, are refused", () => {
  const facts = { size: 1, snapshot: true, viewport: [0, 9] as const, added: [[0, 0]] as const };
  const row = [[1n], [1], ["a"]];
  const after = (...frames: ArrayBuffer[]) => () => {
    const reader = new StreamReader(3, LIMITS);
    for (const frame of frames) reader.take(decodeFrame(frame));
  };
  const schema = schemaFrame(1);
  assert.throws(after(updateFrame(1, facts, row)), WireError);
  assert.throws(after(schema, schema), WireError);
  assert.throws(after(schema, furtherFrame(1, row)), WireError);
  assert.throws(after(schema, updateFrame(1, { ...facts, added: [[0, 1]] }, row), updateFrame(1, facts, row)), WireError);
  assert.throws(after(schema, updateFrame(1, { ...facts, added: [[0, 1]] }, row), furtherFrame(1, [[], [], []])), WireError);
  assert.throws(after(schema, updateFrame(1, facts, [[1n, 2n], [1, 2], ["a", "b"]])), WireError);
  assert.throws(after(schema, updateFrame(1, { ...facts, added: [[0, 2 ** 52]] }, row)), WireError);
  assert.throws(after(schema, updateFrame(1, { ...facts, modified: [[]] }, row)), WireError);
  assert.doesNotThrow(after(schema, updateFrame(1, facts, row), updateFrame(1, facts, row)));
});

test("as many rows as a view may have, and no more", () => {
  const take = (rows: number) => () => {
    const reader = new StreamReader(3, LIMITS);
    reader.take(decodeFrame(schemaFrame(1)));
    const facts = { size: rows, snapshot: true, viewport: [0, 999] as const, columns: [0], added: [[0, rows - 1]] as const };
    reader.take(decodeFrame(updateFrame(1, facts, [Array.from({ length: rows }, (_, n) => BigInt(n)), [], []])));
  };
  assert.doesNotThrow(take(100));
  assert.throws(take(101), /more than 100 rows/);
});

test("record batches that contradict themselves are refused", () => {
  const [schema, whole] = arrowMessages([["ab", null, "c"], ["d", "e", "f"]], [utf8, utf8]);
  assert.ok(schema && whole);
  const types = decodeSchema(schema);
  /** The batch, with a 64-bit number of its nodes (slot 1) or buffers (slot 2) changed. */
  const changed = (slot: 1 | 2, place: number, value: bigint): Uint8Array => {
    const batch = whole.slice();
    const head = new DataView(batch.buffer).getUint32(4, true);
    const structs = FlatTable.root(batch.subarray(8, 8 + head)).table(2)?.structs(slot, 16);
    assert.ok(structs);
    new DataView(structs.buffer, structs.byteOffset).setBigInt64(8 * place, value, true);
    return batch;
  };
  assert.deepEqual(decodeBatch(types, changed(1, 0, 1n), 100)[1], ["d", "e", "f"]);
  // Nodes: list, texts, list, texts; each a length and a number of nulls.
  for (const [place, value] of [[0, 2n], [1, 1n], [2, 2n], [2, -1n], [2, 2n ** 40n], [3, 2n], [3, 4n], [3, -1n]] as const) {
    assert.throws(() => decodeBatch(types, changed(1, place, value), 100), WireError, `node ${place} ${value}`);
  }
  // Buffers: of a list validity and offsets, of its texts validity, offsets and bytes; each a place and a length.
  for (const [place, value] of [[2, -8n], [2, 2n ** 40n], [3, 2n ** 40n], [3, 4n], [5, 0n], [7, 12n], [8, 2n ** 62n], [9, 1n], [9, 2n ** 53n]] as const) {
    assert.throws(() => decodeBatch(types, changed(2, place, value), 100), WireError, `buffer ${place} ${value}`);
  }
  assert.throws(() => decodeBatch(types, whole.subarray(0, -8), 100), WireError);
  assert.throws(() => decodeBatch(types, new Uint8Array([...whole, ...new Uint8Array(8)]), 100), /not as long as it says/);
});

test("columns that share their bytes do not make a small message expensive", () => {
  const long = "x".repeat(3000);
  const [schema, batch] = arrowMessages([[long], ["a"], ["b"]], [utf8, utf8, utf8]);
  assert.ok(schema && batch);
  const types = decodeSchema(schema);
  const head = new DataView(batch.buffer).getUint32(4, true);
  const structs = FlatTable.root(batch.subarray(8, 8 + head)).table(2)?.structs(2, 16);
  assert.ok(structs);
  const buffers = new DataView(structs.buffer, structs.byteOffset);
  assert.deepEqual(decodeBatch(types, batch, 100), [[long], ["a"], ["b"]]);
  // Five buffers a column, the fourth the offsets of its texts, the fifth their bytes: those of the first column for all.
  const body = new DataView(batch.buffer, 8 + head);
  for (const column of [1, 2]) {
    buffers.setBigInt64(16 * (5 * column + 4), buffers.getBigInt64(16 * 4, true), true);
    buffers.setBigInt64(16 * (5 * column + 4) + 8, 3000n, true);
    body.setInt32(Number(buffers.getBigInt64(16 * (5 * column + 3), true)) + 4, 3000, true);
  }
  assert.throws(() => decodeBatch(types, batch, 100), /overlap/);
});

test("metadata: what a view does not have is refused", () => {
  assert.throws(() => decodeMetadata(new Uint8Array(4)), WireError);
  assert.throws(() => decodeMetadata(metadata({ size: -1 })), WireError);
  assert.equal(decodeMetadata(metadata({ size: 2 ** 53 - 1 })).size, 2 ** 53 - 1);
  assert.throws(() => decodeMetadata(metadata({ size: 2 ** 53 })), WireError);
});

test("any damage to any byte is refused, or read as other values, soon", () => {
  const chance = random(7);
  const facts = { size: 50, snapshot: true, viewport: [0, 9] as const, added: [[0, 2], [4, 9]] as const, columns: [0, 1, 2] };
  const values = [Array.from({ length: 9 }, (_, n) => (n === 3 ? null : BigInt(n))), Array.from({ length: 9 }, (_, n) => n / 2), Array.from({ length: 9 }, (_, n) => `text ${n}`)];
  const frames = [schemaFrame(1), updateFrame(1, facts, values)];
  let refused = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const reader = new StreamReader(COLUMNS.length, LIMITS);
    const which = chance(2);
    try {
      for (const [n, frame] of frames.entries()) {
        const bytes = new Uint8Array(frame.slice(0));
        if (n === which) {
          for (let hits = 1 + chance(3); hits > 0; hits -= 1) bytes[chance(bytes.length)] = [0, 1, 0x7f, 0x80, 0xff, chance(256)][chance(6)] ?? 0;
        }
        reader.take(decodeFrame(chance(10) === 0 ? bytes.slice(0, chance(bytes.length)).buffer : bytes.buffer));
      }
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      refused += 1;
    }
  }
  assert.ok(refused > 5_000);
});

test("text frames: what comes is checked, what is unknown is ignored", () => {
  assert.deepEqual(parseMessage('{"type":"pong","n":3}'), { type: "pong", n: 3 });
  assert.deepEqual(parseMessage('{"type":"cell","request":3,"text":null}'), { type: "cell", request: 3, text: null });
  assert.equal(parseMessage('{"type":"other","n":3}'), undefined);
  const opened = { type: "opened", stream: 1, columns: [{ name: "when", type: "timestamp[ns, tz=UTC]", form: "timestamp", unit: "ns", zone: "UTC", key: true }], kind: "append", rows: 3 };
  assert.deepEqual(parseMessage(JSON.stringify(opened)), opened);
  const damaged = ["", "[]", "null", "3", "{", '{"type":3}', '{"type":"pong"}', '{"type":"pong","n":-1}', '{"type":"pong","n":1.5}', '{"type":"pong","n":9007199254740992}', '{"type":"welcome","version":1}', '{"type":"tables","tables":{}}', '{"type":"tables","tables":[{"name":"a"}]}', '{"type":"opened","stream":1,"columns":[{"name":"a","type":"b","form":"c"}],"kind":"","rows":0}', '{"type":"ended"}'];
  for (const text of damaged) assert.throws(() => parseMessage(text), WireError, text);
});
