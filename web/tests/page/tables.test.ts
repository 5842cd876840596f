import assert from "node:assert/strict";
import { test } from "node:test";

import { found, preview } from "../../src/page/tables.ts";

test("a search looks at names, kinds and columns, with all its words", () => {
  const table = (name: string, kind: string, ...columns: string[]): Parameters<typeof found>[0] extends Iterable<infer T> ? T : never =>
    ({ name, kind, rows: 0, rate: 0, width: columns.length, columns: columns.map((column) => [column, "int64"] as const) });
  const tables = [table("Trades", "append", "price"), table("quotes", "keyed", "bid", "Price"), table("a", "ring")];
  const names = (search: string): string[] => found(tables, search).map(({ name }) => name);
  assert.deepEqual(names(""), ["Trades", "a", "quotes"]);
  assert.deepEqual(names("price"), ["Trades", "quotes"]);
  assert.deepEqual(names("PRICE keyed"), ["quotes"]);
  assert.deepEqual(names("none"), []);
});

test("a preview of columns says that there are more", () => {
  const columns = Array.from({ length: 13 }, (_, n) => [`c${n}`, "int64"] as const);
  assert.equal(preview({ columns: columns.slice(0, 2), width: 2 }), "c0 \u00b7 c1");
  assert.ok(preview({ columns: columns.slice(0, 12), width: 12 }).endsWith("c11"));
  assert.ok(preview({ columns, width: 13 }).endsWith("c11 \u00b7 \u2026"));
  assert.ok(preview({ columns: columns.slice(0, 2), width: 9 }).endsWith("c1 \u00b7 \u2026"));
});
