import assert from "node:assert/strict";
import { test } from "node:test";

import { isOwn } from "../../src/notebook/keys.ts";
import { heightOf, plotOf, targetOf, themeOf } from "../../src/notebook/traits.ts";

test("what is shown: a table, or a ticket under a title; as an object or as JSON", () => {
  assert.deepEqual(targetOf({ table: "t", title: "other" }), { title: "t", ticket: undefined });
  assert.deepEqual(targetOf('{"ticket": "YQ==", "title": "trades, sorted"}'), { title: "trades, sorted", ticket: "YQ==" });
  assert.deepEqual(targetOf({ ticket: "YQ==" }), { title: "Table", ticket: "YQ==" });
  for (const nonsense of [undefined, null, 1, "", "{", "[]", {}, { table: 1 }]) assert.equal(targetOf(nonsense), undefined);
});

test("a plot is that of an address", () => {
  assert.deepEqual(plotOf({ x: "time", ys: ["a", "b", "a", 1], range: "rows 1000" }), { x: "time", ys: ["a", "b"], range: { kind: "rows", rows: 1000 } });
  assert.deepEqual(plotOf('{"ys": ["a"]}'), { ys: ["a"], range: { kind: "all" } });
  assert.deepEqual(plotOf({}), { ys: [], range: { kind: "all" } });
  assert.equal(plotOf({ ys: Array.from({ length: 20 }, (_, n) => `c${n}`) })?.ys.length, 8);
  assert.equal(plotOf(null), undefined);
});

test("themes and heights that make no sense are the usual ones", () => {
  assert.deepEqual(["light", "dark", "auto", "pink", 1].map(themeOf), ["light", "dark", "auto", "auto", "auto"]);
  assert.deepEqual([300, 1, 1e9, NaN, "300", null].map(heightOf), [300, 120, 10_000, 400, 400, 400]);
});

test("keys of the grid are the widget's, others with Ctrl the notebook's", () => {
  const press = (key: string, ...held: string[]): boolean => isOwn({ key, ctrlKey: held.includes("Ctrl"), metaKey: held.includes("Meta"), altKey: held.includes("Alt") });
  for (const key of ["a", "d", "g", "Enter", "ArrowDown", "Escape", " ", "F2", "0"]) assert.ok(press(key), key);
  for (const key of ["a", "C", "End", "Home", " ", "Enter"]) assert.ok(press(key, "Ctrl"), key);
  assert.ok(press("c", "Meta"));
  for (const key of ["s", "k", "b", "Control"]) assert.ok(!press(key, "Ctrl"), key);
  assert.ok(!press("a", "Alt"));
});
