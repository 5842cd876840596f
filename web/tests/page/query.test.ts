import assert from "node:assert/strict";
import { test } from "node:test";

import { MOST_PARTS, NOTHING, isEmpty, parts, picked, read, sorted, where } from "../../src/page/query.ts";
import type { Query } from "../../src/wire/messages.ts";

test("the last column sorted by comes first, and once", () => {
  let query = sorted(NOTHING, { column: "a", descending: false });
  query = sorted(query, { column: "b", descending: true });
  query = sorted(query, { column: "a", descending: true });
  assert.deepEqual(query.sort, [{ column: "a", descending: true }, { column: "b", descending: true }]);
});

test("the same filter and the same condition count once", () => {
  let query = picked(picked(NOTHING, { column: "a", equals: "1" }), { column: "a", equals: null });
  query = picked(query, { column: "a", equals: "1" });
  assert.equal(query.filters.length, 2);
  query = where(where(where(query, " x > 1 "), "x > 1"), "  ");
  assert.deepEqual(query.where, ["x > 1"]);
});

test("a query has few parts, whatever is asked or written in an address", () => {
  let query: Query = NOTHING;
  const fields = new URLSearchParams();
  for (let n = 0; n < 50; n += 1) {
    query = where(picked(sorted(query, { column: `c${n}`, descending: false }), { column: "c", equals: `${n}` }), `x > ${n}`);
    fields.append("sort", `c${n}`);
    fields.append("pick", JSON.stringify(["c", `${n}`]));
    fields.append("where", `x > ${n}`);
  }
  for (const found of [query, read(fields)]) {
    assert.deepEqual([found.sort.length, found.filters.length, found.where.length], [MOST_PARTS, MOST_PARTS, MOST_PARTS]);
  }
});

test("each part can be taken away, and none is left then", () => {
  const query: Query = { where: ["x > 1"], filters: [{ column: "a", equals: null }, { column: "b", equals: "" }], sort: [{ column: "a", descending: true }] };
  const show = (text: string): string => text;
  assert.deepEqual(parts(query, show, show).map(({ text }) => text), ["where x > 1", "a is null", "b is empty", "sorted by a \u2193"]);
  let left = query;
  for (let n = 4; n > 0; n -= 1) {
    const [first] = parts(left, show, show);
    assert.equal(parts(left, show, show).length, n);
    left = first?.without ?? assert.fail();
  }
  assert.ok(isEmpty(left));
});

test("what an address says wrongly is left out", () => {
  for (const pick of ["", "x", "[]", '["a"]', '["a",1]', '["",""]', '{"a":1}', "[1,2]"]) {
    assert.ok(isEmpty(read(new URLSearchParams({ pick }))), pick);
  }
  assert.ok(isEmpty(read(new URLSearchParams({ sort: "", where: "" }))));
});
