import assert from "node:assert/strict";
import { test } from "node:test";

import { MOST_PARTS, NOTHING, isEmpty, parts, picked, read, rewritten, sorted, where } from "../../src/views/query.ts";
import type { CellFilter, Query } from "../../src/wire/messages.ts";

const pick = (query: Query, filter: CellFilter): Query => picked(query, filter) ?? assert.fail();
const keep = (query: Query, formula: string): Query => where(query, formula) ?? assert.fail();

test("the last column sorted by comes first, and once", () => {
  let query = sorted(NOTHING, { column: "a", descending: false });
  query = sorted(query, { column: "b", descending: true });
  query = sorted(query, { column: "a", descending: true });
  assert.deepEqual(query.sort, [{ column: "a", descending: true }, { column: "b", descending: true }]);
});

test("the same filter and the same condition count once", () => {
  let query = pick(pick(NOTHING, { column: "a", equals: "1" }), { column: "a", equals: null });
  query = pick(query, { column: "a", equals: "1" });
  assert.equal(query.filters.length, 2);
  query = keep(keep(keep(query, " x > 1 "), "x > 1"), "  ");
  assert.deepEqual(query.where, ["x > 1"]);
});

test("a query has few parts, whatever is asked or written in an address", () => {
  let query: Query = NOTHING;
  const fields = new URLSearchParams();
  for (let n = 0; n < 50; n += 1) {
    query = sorted(query, { column: `c${n}`, descending: false });
    query = picked(query, { column: "c", equals: `${n}` }) ?? query;
    query = where(query, `x > ${n}`) ?? query;
    fields.append("sort", `c${n}`);
    fields.append("pick", JSON.stringify(["c", `${n}`]));
    fields.append("where", `x > ${n}`);
  }
  for (const found of [query, read(fields)]) {
    assert.deepEqual([found.sort.length, found.filters.length, found.where.length], [MOST_PARTS, MOST_PARTS, MOST_PARTS]);
  }
});

test("a condition or filter too many is refused, and none that is there is lost", () => {
  let query: Query = NOTHING;
  for (let n = 0; n < MOST_PARTS; n += 1) query = keep(pick(query, { column: "c", equals: `${n}` }), `x > ${n}`);
  assert.equal(where(query, "y > 0"), undefined);
  assert.equal(picked(query, { column: "d", equals: null }), undefined);
  assert.equal(where(query, "x > 0"), query);
  assert.equal(pick(query, { column: "c", equals: "0" }).filters.length, MOST_PARTS);
});

test("a condition is rewritten in its place, and goes when nothing is left of it", () => {
  const query = keep(keep(keep(NOTHING, "a"), "b"), "c");
  assert.deepEqual(rewritten(query, 1, " x ").where, ["a", "x", "c"]);
  assert.deepEqual(rewritten(query, 1, " ").where, ["a", "c"]);
  assert.deepEqual(rewritten(query, 2, "a").where, ["a", "b"]);
  assert.equal(rewritten(query, 1, "b"), query);
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
