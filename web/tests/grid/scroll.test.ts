import assert from "node:assert/strict";
import { test } from "node:test";

import { Scroller, TOP, around, atThumb, clamp, end, fineStep, followsEnd, moved, reveal, thumb, wheelRows } from "../../src/grid/scroll.ts";

const BILLION = 1_000_000_000;
const MOST = 2 ** 53;

test("the end shows the last row at the lower edge", () => {
  assert.deepEqual(end({ rows: 100, visible: 10 }), { row: 90, fraction: 0 });
  assert.deepEqual(end({ rows: 100, visible: 10.25 }), { row: 89, fraction: 0.75 });
  assert.deepEqual(end({ rows: MOST, visible: 40.5 }), { row: MOST - 41, fraction: 0.5 });
});

test("a table that fits does not scroll", () => {
  for (const rows of [0, 1, 10]) {
    assert.deepEqual(end({ rows, visible: 10 }), TOP);
    assert.deepEqual(moved(TOP, 5, { rows, visible: 10 }), TOP);
    assert.equal(thumb(TOP, { rows, visible: 10 }, 500), undefined);
  }
});

test("a wheel notch is the same rows at any size, exactly", () => {
  const notch = wheelRows(100, 0, 24, 30);
  for (const rows of [1_000, BILLION, MOST]) {
    const extent = { rows, visible: 30 };
    let position = { row: Math.floor(rows / 2), fraction: 0 };
    const start = position;
    for (let n = 0; n < 6; n++) position = moved(position, notch, extent);
    assert.equal(position.row - start.row, 25);
    assert.ok(Math.abs(position.fraction) < 1e-9);
    for (let n = 0; n < 6; n++) position = moved(position, -notch, extent);
    const back = position.row + Math.round(position.fraction);
    assert.equal(back, start.row);
  }
});

test("a page steps by whole rows beyond 2^52, where doubles have no fractions", () => {
  const extent = { rows: MOST, visible: 30 };
  const position = { row: MOST - 1000, fraction: 0.25 };
  assert.deepEqual(moved(position, 7.5, extent), { row: MOST - 993, fraction: 0.75 });
  assert.deepEqual(moved(position, -7.5, extent), { row: MOST - 1008, fraction: 0.75 });
});

test("positions beyond an edge are at the edge", () => {
  const extent = { rows: BILLION, visible: 20 };
  assert.deepEqual(moved(TOP, -3, extent), TOP);
  assert.deepEqual(moved(TOP, -Infinity, extent), TOP);
  assert.deepEqual(moved(TOP, Infinity, extent), end(extent));
  assert.deepEqual(moved({ row: 5, fraction: 0 }, NaN, extent), { row: 5, fraction: 0 });
  assert.deepEqual(clamp({ row: BILLION, fraction: 0.5 }, extent), end(extent));
});

test("revealing a row moves as little as shows all of it", () => {
  const extent = { rows: BILLION, visible: 10.5 };
  const position = { row: 100, fraction: 0.5 };
  assert.deepEqual(reveal(position, 105, extent), position);
  assert.deepEqual(reveal(position, 100, extent), { row: 100, fraction: 0 });
  assert.deepEqual(reveal(position, 7, extent), { row: 7, fraction: 0 });
  assert.deepEqual(reveal(position, 110, extent), { row: 100, fraction: 0.5 });
  assert.deepEqual(reveal(position, 111, extent), { row: 101, fraction: 0.5 });
  assert.deepEqual(reveal(position, BILLION - 1, extent), end(extent));
});

test("going to a row shows it with rows before it", () => {
  const extent = { rows: MOST, visible: 30 };
  assert.deepEqual(around(5_000, extent), { row: 4_990, fraction: 0 });
  assert.deepEqual(around(0, extent), TOP);
  assert.deepEqual(around(MOST - 1, extent), end(extent));
});

test("the thumb spans the table, and its ends are the table's", () => {
  for (const rows of [200, BILLION, MOST]) {
    const extent = { rows, visible: 25.5 };
    const track = 600;
    const top = thumb(TOP, extent, track);
    const bottom = thumb(end(extent), extent, track);
    assert.ok(top !== undefined && bottom !== undefined);
    assert.equal(top.start, 0);
    assert.equal(bottom.start + bottom.length, track);
    assert.ok(top.length >= 28);
    assert.deepEqual(atThumb(0, extent, track), TOP);
    assert.deepEqual(atThumb(-50, extent, track), TOP);
    assert.deepEqual(atThumb(track - top.length, extent, track), end(extent));
    assert.deepEqual(atThumb(track * 2, extent, track), end(extent));
    const middle = atThumb((track - top.length) / 2, extent, track);
    assert.ok(Math.abs(middle.row / end(extent).row - 0.5) < 0.01);
  }
});

test("a thumb put where it is does not move the table by more than a pixel of the thumb", () => {
  const extent = { rows: 10_000, visible: 25 };
  for (const row of [0, 1, 4_321, 9_975]) {
    const at = thumb({ row, fraction: 0 }, extent, 600);
    assert.ok(at !== undefined);
    assert.ok(Math.abs(atThumb(at.start, extent, 600).row - row) <= 1);
  }
});

test("with Shift a pixel of the thumb is at most a row", () => {
  assert.equal(fineStep({ rows: BILLION, visible: 25 }, 600), 1);
  assert.ok(fineStep({ rows: 200, visible: 25 }, 600) < 0.1);
  assert.equal(fineStep({ rows: 10, visible: 25 }, 600), 0);
});

test("wheels that count pixels, lines and pages", () => {
  assert.equal(wheelRows(48, 0, 24, 30), 2);
  assert.equal(wheelRows(3, 1, 24, 30), 3);
  assert.equal(wheelRows(-1, 2, 24, 30), -29);
});

test("append, blink and ring tables follow their end", () => {
  assert.deepEqual(["append", "blink", "ring", "keyed", "static", ""].map(followsEnd), [true, true, true, false, false, false]);
});

test("a table that is followed stays at its end while it grows and shrinks", () => {
  const scroller = new Scroller(true);
  for (const rows of [0, 5, 100, BILLION, 50]) {
    scroller.resize({ rows, visible: 20.5 });
    assert.deepEqual(scroller.position, end({ rows, visible: 20.5 }));
    assert.ok(scroller.following);
  }
});

test("scrolling up ends following, and the end begins it again", () => {
  const scroller = new Scroller(true);
  scroller.resize({ rows: 1_000, visible: 20 });
  scroller.by(-3);
  assert.equal(scroller.following, false);
  assert.deepEqual(scroller.position, { row: 977, fraction: 0 });
  scroller.resize({ rows: 2_000, visible: 20 });
  assert.deepEqual(scroller.position, { row: 977, fraction: 0 });
  scroller.by(5_000);
  assert.equal(scroller.following, true);
});

test("other tables follow only when told to", () => {
  const scroller = new Scroller(false);
  scroller.resize({ rows: 1_000, visible: 20 });
  assert.deepEqual(scroller.position, TOP);
  scroller.by(Infinity);
  assert.equal(scroller.following, false);
  scroller.follow(true);
  scroller.resize({ rows: 2_000, visible: 20 });
  assert.deepEqual(scroller.position, { row: 1_980, fraction: 0 });
});

test("a table that shrinks leaves no space after its last row", () => {
  const scroller = new Scroller(false);
  scroller.resize({ rows: BILLION, visible: 20 });
  scroller.to({ row: 999_000_000, fraction: 0.5 });
  assert.equal(scroller.resize({ rows: 100, visible: 20 }), true);
  assert.deepEqual(scroller.position, { row: 80, fraction: 0 });
});

test("small movements have a direction of travel, jumps have none", () => {
  const scroller = new Scroller(false);
  scroller.resize({ rows: BILLION, visible: 20 });
  scroller.by(3);
  assert.equal(scroller.travel, 1);
  scroller.by(-1);
  assert.equal(scroller.travel, -1);
  scroller.to({ row: 500_000, fraction: 0 });
  assert.equal(scroller.travel, 0);
});

test("a table that is empty for a while keeps the place, unless its end is followed", () => {
  const scroller = new Scroller(false);
  scroller.position = { row: 400_000, fraction: 0 };
  scroller.resize({ rows: 0, visible: 20 });
  assert.deepEqual(scroller.position, { row: 400_000, fraction: 0 });
  scroller.resize({ rows: 1_000_000, visible: 20 });
  assert.deepEqual(scroller.position, { row: 400_000, fraction: 0 });
  scroller.follow(true);
  scroller.resize({ rows: 0, visible: 20 });
  assert.deepEqual(scroller.position, TOP);
});
