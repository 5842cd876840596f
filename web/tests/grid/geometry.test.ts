import assert from "node:assert/strict";
import { test } from "node:test";

import { ColumnLayout } from "../../src/grid/columns.ts";
import { HEADER_HEIGHT, ROW_HEIGHT, dropPlace, hit, placesInView, rowTop, rowsInView } from "../../src/grid/geometry.ts";
import type { Geometry } from "../../src/grid/geometry.ts";

const layout = new ColumnLayout(Array.from({ length: 6 }, (_, n) => ({ name: `c${n}` })), () => 100);
const geometry = (changes: Partial<Geometry> = {}): Geometry => ({
  width: 350, height: HEADER_HEIGHT + 10 * ROW_HEIGHT, gutter: 50, position: { row: 0, fraction: 0 }, scrolled: 0, rows: 1_000, ...changes,
});

test("rows that are partly in view are in view, at 2^53 rows too", () => {
  assert.deepEqual(rowsInView(geometry()), { from: 0, to: 10 });
  assert.deepEqual(rowsInView(geometry({ position: { row: 5, fraction: 0.25 } })), { from: 5, to: 16 });
  const last = 2 ** 53 - 10;
  const far = geometry({ rows: 2 ** 53, position: { row: last, fraction: 0 } });
  assert.deepEqual(rowsInView(far), { from: last, to: 2 ** 53 });
  assert.equal(rowTop(far, last + 3), HEADER_HEIGHT + 3 * ROW_HEIGHT);
  assert.deepEqual(rowsInView(geometry({ rows: 0 })), { from: 0, to: 0 });
});

test("what is at a point", () => {
  const at = (x: number, y: number, changes?: Partial<Geometry>): unknown => hit(geometry(changes), layout, x, y);
  assert.deepEqual(at(60, HEADER_HEIGHT + 1), { part: "cell", row: 0, place: 0 });
  assert.deepEqual(at(60, HEADER_HEIGHT + 1, { scrolled: 120 }), { part: "cell", row: 0, place: 1 });
  assert.deepEqual(at(10, HEADER_HEIGHT + 2 * ROW_HEIGHT), { part: "gutter", row: 2 });
  assert.deepEqual(at(10, 5), { part: "corner" });
  assert.deepEqual(at(80, 5), { part: "header", place: 0 });
  assert.deepEqual(at(140, 5), { part: "menu", place: 0 });
  assert.deepEqual(at(151, 5), { part: "edge", place: 0 });
  assert.deepEqual(at(148, 5), { part: "edge", place: 0 });
  assert.deepEqual(at(60, HEADER_HEIGHT + 30, { rows: 1 }), { part: "outside" });
});

test("pinned columns cover the scrolled ones", () => {
  const pinned = new ColumnLayout(Array.from({ length: 6 }, (_, n) => ({ name: `c${n}` })), () => 100, { pinned: ["c5"] });
  const scrolled = geometry({ scrolled: 150 });
  assert.deepEqual(placesInView(scrolled, pinned), [0, 2, 3, 4]);
  assert.deepEqual(hit(scrolled, pinned, 60, HEADER_HEIGHT + 1), { part: "cell", row: 0, place: 0 });
  assert.deepEqual(hit(scrolled, pinned, 160, HEADER_HEIGHT + 1), { part: "cell", row: 0, place: 2 });
});

test("a dragged column goes before the one whose first half it is over", () => {
  assert.equal(dropPlace(geometry(), layout, 60), 0);
  assert.equal(dropPlace(geometry(), layout, 120), 1);
  assert.equal(dropPlace(geometry(), layout, 0), 0);
  assert.equal(dropPlace(geometry({ width: 900 }), layout, 880), 6);
});
