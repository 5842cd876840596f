import assert from "node:assert/strict";
import { test } from "node:test";

import { Selection, cells, stepOf, stepped } from "../../src/grid/selection.ts";

const SIZE = { rows: 1_000, places: 5, page: 20 };

function selection(): Selection {
  const made = new Selection();
  made.resize(SIZE);
  return made;
}

const key = (name: string, ctrlKey = false, altKey = false): Parameters<typeof stepOf>[0] => ({ key: name, ctrlKey, altKey, metaKey: false });

test("keys and what they mean, with and without Ctrl", () => {
  const plain = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End", "x"].map((name) => stepOf(key(name)));
  assert.deepEqual(plain, ["up", "down", "left", "right", "page-up", "page-down", "row-start", "row-end", undefined]);
  const far = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].map((name) => stepOf(key(name, true)));
  assert.deepEqual(far, ["first-row", "last-row", "row-start", "row-end", "first", "last"]);
  assert.equal(stepOf(key("ArrowUp", false, true)), undefined);
});

test("steps end at the edges of the table, of any size", () => {
  const huge = { rows: 2 ** 53, places: 3, page: 30.5 };
  const last = stepped({ row: 0, place: 0 }, "last", huge);
  assert.deepEqual(last, { row: 2 ** 53 - 1, place: 2 });
  assert.deepEqual(stepped(last, "down", huge), last);
  assert.deepEqual(stepped(last, "page-up", huge), { row: 2 ** 53 - 31, place: 2 });
  assert.deepEqual(stepped({ row: 0, place: 0 }, "page-down", { rows: 0, places: 0, page: 0 }), { row: 0, place: 0 });
});

test("Shift extends from the anchor, and a plain step begins anew", () => {
  const selected = selection();
  selected.moveTo({ row: 10, place: 2 });
  selected.step("down", true);
  selected.step("right", true);
  assert.deepEqual(selected.areas, [{ top: 10, bottom: 11, left: 2, right: 3 }]);
  selected.step("page-up", true);
  assert.deepEqual(selected.areas, [{ top: 0, bottom: 10, left: 2, right: 3 }]);
  selected.step("down", false);
  assert.ok(selected.isSingle);
  assert.deepEqual(selected.active, { row: 1, place: 3 });
});

test("further rectangles are added, and all of them are selected", () => {
  const selected = selection();
  selected.moveTo({ row: 1, place: 1 });
  selected.add({ row: 5, place: 3 });
  selected.moveTo({ row: 6, place: 4 }, true);
  assert.equal(selected.areas.length, 2);
  assert.ok(selected.has(1, 1) && selected.has(6, 4) && !selected.has(1, 3));
  selected.clear();
  assert.ok(selected.isSingle);
});

test("whole rows and whole columns", () => {
  const selected = selection();
  selected.rows(7, false);
  selected.rows(9, true);
  assert.deepEqual(selected.areas, [{ top: 7, bottom: 9, left: 0, right: 4 }]);
  selected.columns(2, false);
  selected.columns(1, true);
  assert.deepEqual(selected.areas, [{ top: 0, bottom: 999, left: 1, right: 2 }]);
  selected.all();
  assert.equal(cells(selected.areas[0] ?? { top: 0, bottom: 0, left: 0, right: 0 }), 5_000);
});

test("whole columns grow with the table", () => {
  const selected = selection();
  selected.columns(2, false);
  selected.resize({ ...SIZE, rows: 2_000 });
  assert.equal(selected.areas[0]?.bottom, 1_999);
});

test("nothing is selected beyond a table that has shrunk", () => {
  const selected = selection();
  selected.moveTo({ row: 900, place: 4 });
  selected.add({ row: 950, place: 1 });
  selected.moveTo({ row: 990, place: 4 }, true);
  selected.resize({ rows: 100, places: 2, page: 20 });
  assert.deepEqual(selected.active, { row: 99, place: 1 });
  for (const area of selected.areas) assert.ok(area.bottom < 100 && area.right < 2);
  selected.resize({ rows: 0, places: 0, page: 1 });
  assert.deepEqual(selected.active, { row: 0, place: 0 });
});
