// The replica of the rows in view.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Value } from "../src/cells/column.ts";
import { WireError } from "../src/wire/error.ts";
import { RowSet } from "../src/wire/rowset.ts";
import type { Update } from "../src/wire/update.ts";
import { TableWindow } from "../src/window/window.ts";
import { COLUMNS } from "./builders.ts";

type Ranges = readonly (readonly [number, number])[];

interface Facts {
  readonly size: number;
  readonly snapshot?: boolean;
  readonly viewport?: readonly [number, number];
  readonly reverse?: boolean;
  readonly columns?: readonly number[];
  readonly added?: Ranges;
  readonly removed?: Ranges;
  readonly modified?: readonly Ranges[];
  readonly adds?: readonly (readonly Value[])[];
  readonly mods?: readonly (readonly Value[])[];
}

function update(facts: Facts): Update {
  return {
    step: 0,
    isSnapshot: facts.snapshot ?? false,
    viewport: facts.viewport && (facts.viewport[0] > facts.viewport[1] ? RowSet.EMPTY : RowSet.of([facts.viewport])),
    reverse: facts.reverse ?? false,
    columns: facts.columns,
    added: RowSet.of(facts.added ?? []),
    removed: RowSet.of(facts.removed ?? []),
    modified: (facts.modified ?? []).map((ranges) => RowSet.of(ranges)),
    size: facts.size,
    adds: facts.adds ?? [[], [], []],
    mods: facts.mods ?? [[], [], []],
    age: undefined,
  };
}

/** Rows 2 to 4 of a table of ten. */
function threeRows(): TableWindow {
  const window = new TableWindow(COLUMNS);
  window.apply(update({ size: 10, snapshot: true, viewport: [2, 4], columns: [0, 1, 2], added: [[0, 2]], adds: [[2n, 3n, 4n], [0.2, 0.3, null], ["b", "c", "d"]] }));
  return window;
}

function rows(window: TableWindow): (Value | undefined)[][] {
  return Array.from({ length: window.count }, (_, n) => window.columns.map((column) => window.value(window.first + n, column)));
}

test("values are found at their place in the table", () => {
  const window = threeRows();
  assert.deepEqual([window.size, window.first, window.count, window.version], [10, 2, 3, 1]);
  assert.equal(window.value(3, 2), "c");
  assert.equal(window.value(4, 1), null);
  for (const [row, column] of [[1, 0], [5, 0], [2, 3], [2, -1]] as const) assert.equal(window.value(row, column), undefined);
});

test("rows are removed before, and added after, at positions in view", () => {
  const window = threeRows();
  window.apply(update({ size: 9, removed: [[0, 0]], added: [[1, 1]], adds: [[9n], [0.9], ["new"]] }));
  assert.deepEqual(rows(window).map((row) => row[2]), ["c", "new", "d"]);
  assert.equal(window.size, 9);
});

test("a view from the end stays at the end", () => {
  const window = new TableWindow(COLUMNS);
  window.apply(update({ size: 1, snapshot: true, viewport: [0, 1], reverse: true, columns: [0], added: [[0, 0]], adds: [[0n], [], []] }));
  assert.equal(window.first, 0);
  window.apply(update({ size: 3, removed: [[0, 0]], added: [[0, 1]], adds: [[1n, 2n], [], []] }));
  assert.deepEqual([window.first, window.value(2, 0), window.value(0, 0)], [1, 2n, undefined]);
  window.apply(update({ size: 0, removed: [[0, 1]] }));
  assert.deepEqual([window.first, window.count], [0, 0]);
});

test("changes have a direction, and belong to rows that were in view", () => {
  const window = threeRows();
  window.apply(update({ size: 10, modified: [[[0, 1]], [[0, 2]], [[1, 1]]], mods: [[1n, 30n], [0.2, 0.5, 1], ["C"]] }));
  assert.deepEqual(window.changedAt(2, 0), { at: 2, direction: -1 });
  assert.deepEqual(window.changedAt(3, 0), { at: 2, direction: 1 });
  assert.equal(window.changedAt(2, 1), undefined, "the same value again is no change");
  assert.deepEqual(window.changedAt(4, 1), { at: 2, direction: 0 }, "from null");
  assert.deepEqual(window.changedAt(3, 2), { at: 2, direction: 0 }, "text");
  window.apply(update({ size: 10, snapshot: true, viewport: [3, 5], columns: [0, 1, 2], removed: [[0, 0]], added: [[2, 2]], adds: [[5n], [0.5], ["e"]] }));
  assert.deepEqual(window.changedAt(3, 0), { at: 2, direction: 1 }, "it moves with its row");
  assert.equal(window.changedAt(5, 0), undefined);
  window.apply(update({ size: 10, removed: [[0, 0]], added: [[0, 0]], modified: [[[0, 0]], [], []], adds: [[7n], [0], [""]], mods: [[8n], [], []] }));
  assert.equal(window.value(3, 0), 8n);
  assert.equal(window.changedAt(3, 0), undefined, "added and modified at once");
});

test("columns leave with a move; those that come need values for every row", () => {
  const window = threeRows();
  window.apply(update({ size: 10, modified: [[[0, 0]], [], []], mods: [[20n], [], []] }));
  const move = { size: 10, snapshot: true, viewport: [2, 4] } as const;
  window.apply(update({ ...move, columns: [0, 2] }));
  assert.deepEqual(rows(window), [[20n, "b"], [3n, "c"], [4n, "d"]]);
  assert.equal(window.value(2, 1), undefined);
  assert.deepEqual(window.changedAt(2, 0), { at: 2, direction: 1 });
  assert.throws(() => window.apply(update({ ...move, columns: [0, 1, 2] })), WireError);
  window.apply(update({ ...move, columns: [1], removed: [[0, 2]], added: [[0, 2]], adds: [[], [1, 2, 3], []] }));
  assert.deepEqual(rows(window), [[1], [2], [3]]);
});

test("views beyond the table, of no rows, and of no columns", () => {
  const window = new TableWindow(COLUMNS);
  window.apply(update({ size: 3, snapshot: true, viewport: [100, 200], columns: [0] }));
  assert.deepEqual([window.first, window.count], [3, 0]);
  window.apply(update({ size: 3, snapshot: true, viewport: [1, 0], columns: [0] }));
  assert.equal(window.count, 0);
  window.apply(update({ size: 3, snapshot: true, viewport: [0, 9], columns: [], added: [[0, 2]] }));
  assert.deepEqual(rows(window), [[], [], []]);
});

test("what contradicts itself is refused, and changes nothing", () => {
  const wrong: readonly Facts[] = [
    { size: 10, removed: [[3, 3]] },
    { size: 10, removed: [[0, 0]] },
    { size: 10, removed: [[3, 3]], added: [[0, 0]], adds: [[1n], [1], ["a"]] },
    { size: 10, removed: [[2, 2 ** 52]] },
    { size: 10, added: [[0, 0]], adds: [[1n], [1], ["a"]] },
    { size: 3 },
    { size: 10, removed: [[0, 0]], added: [[3, 3]], adds: [[1n], [1], ["a"]] },
    { size: 10, removed: [[0, 0]], added: [[0, 0]], adds: [[1n], [1], []] },
    { size: 10, removed: [[0, 0]], added: [[0, 0]], adds: [[1n], [1], ["a", "b"]] },
    { size: 10, modified: [[[3, 3]], [], []], mods: [[1n], [], []] },
    { size: 10, modified: [[[0, 1]], [], []], mods: [[1n], [], []] },
    { size: 10, modified: [[], [], []], mods: [[1n], [], []] },
    { size: 10, snapshot: true, viewport: [2, 4], columns: [3], removed: [[0, 2]] },
    { size: 2 ** 52, snapshot: true, removed: [[0, 2]], columns: [] },
    { size: 20_000, snapshot: true, viewport: [0, 19_999], columns: [], added: [[3, 19_999]] },
  ];
  const window = threeRows();
  const before = rows(window);
  for (const facts of wrong) {
    assert.throws(() => window.apply(update(facts)), WireError, JSON.stringify(facts.removed));
    assert.deepEqual(rows(window), before);
    assert.deepEqual([window.size, window.first, window.version, window.columns], [10, 2, 1, [0, 1, 2]]);
  }
  assert.throws(() => new TableWindow(COLUMNS).apply(update({ size: 0 })), WireError, "an update before any snapshot");
});
