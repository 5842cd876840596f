import assert from "node:assert/strict";
import { test } from "node:test";

import { ColumnLayout } from "../../src/grid/columns.ts";
import { demand } from "../../src/grid/demand.ts";
import { Scroller } from "../../src/grid/scroll.ts";

const LIMITS = { rows: 10_000, columns: 500, cells: 100_000 };
const ACROSS = { scrolled: 0, width: 1_000 };
const layout = (count: number): ColumnLayout => new ColumnLayout(Array.from({ length: count }, (_, n) => ({ name: `c${n}` })), () => 100);

function scrolled(row: number, rows = 1_000_000_000): Scroller {
  const scroller = new Scroller(false);
  scroller.resize({ rows, visible: 39.5 });
  scroller.to({ row, fraction: 0 });
  return scroller;
}

test("at rest a screen on either side is asked for", () => {
  const asked = demand(scrolled(5_000), layout(10), ACROSS, LIMITS);
  assert.deepEqual(asked, { columns: undefined, first: 4_959, count: 123, reverse: false });
});

test("at the top nothing before the first row is asked for", () => {
  const asked = demand(scrolled(0), layout(10), ACROSS, LIMITS);
  assert.equal(asked.first, 0);
});

test("what is asked for stays while it covers what is in view, and half a screen ahead", () => {
  const columns = layout(10);
  const scroller = scrolled(5_000);
  const asked = demand(scroller, columns, ACROSS, LIMITS);
  scroller.by(15);
  assert.equal(demand(scroller, columns, ACROSS, LIMITS, false, asked), asked);
  scroller.by(15);
  const next = demand(scroller, columns, ACROSS, LIMITS, false, asked);
  assert.notEqual(next, asked);
  assert.ok(next.first <= 5_030 && next.first + next.count >= 5_030 + 41 + 41);
});

test("in the direction of travel there is a screen, behind it half of one", () => {
  const scroller = scrolled(5_000);
  scroller.by(-1);
  const asked = demand(scroller, layout(10), ACROSS, LIMITS);
  assert.equal(asked.first, 4_999 - 41);
  assert.equal(asked.first + asked.count, 4_999 + 41 + 20);
});

test("under a dragged thumb only what is in view is asked for", () => {
  const asked = demand(scrolled(5_000), layout(10), ACROSS, LIMITS, true);
  assert.deepEqual(asked, { columns: undefined, first: 5_000, count: 41, reverse: false });
});

test("the end is asked for by its distance, at any size", () => {
  const scroller = scrolled(0);
  scroller.follow(true);
  const asked = demand(scroller, layout(10), ACROSS, LIMITS);
  assert.deepEqual(asked, { columns: undefined, first: 0, count: 82, reverse: true });
  scroller.resize({ rows: 2_000_000_000, visible: 39.5 });
  assert.equal(demand(scroller, layout(10), ACROSS, LIMITS, false, asked), asked);
});

test("of up to 64 columns all are asked for, of more those in view and a screen on either side", () => {
  assert.equal(demand(scrolled(0), layout(64), ACROSS, LIMITS).columns, undefined);
  const wide = layout(10_000);
  wide.pin(9_000);
  const asked = demand(scrolled(0), wide, { scrolled: 50_000, width: 1_000 }, LIMITS);
  assert.ok(asked.columns !== undefined);
  assert.ok(asked.columns.includes(9_000));
  assert.ok(asked.columns.length <= 34);
  assert.deepEqual(asked.columns, [...asked.columns].sort((a, b) => a - b));
  const near = demand(scrolled(0), wide, { scrolled: 50_300, width: 1_000 }, LIMITS, false, asked);
  assert.equal(near, asked);
});

test("no more is asked for than the server allows", () => {
  const wide = layout(10_000);
  const narrow = { rows: 50, columns: 7, cells: 200 };
  const asked = demand(scrolled(5_000), wide, ACROSS, narrow);
  assert.equal(asked.columns?.length, 7);
  assert.ok(asked.count * 7 <= 200);
  assert.equal(asked.first, 5_000);
});

test("a table without rows or columns can be asked for", () => {
  const asked = demand(scrolled(0, 0), layout(0), ACROSS, LIMITS);
  assert.equal(asked.first, 0);
  assert.ok(asked.count >= 1);
});
