import assert from "node:assert/strict";
import { test } from "node:test";

import { formatAddress, parseAddress } from "../../src/page/address.ts";
import { takeToken } from "../../src/page/door.ts";
import { MOST_NAMED_COLUMNS } from "../../src/views/address.ts";
import type { Address } from "../../src/views/address.ts";

test("an address comes back as it was", () => {
  const hostile = "a&b=#c,d\u202e<img>%+ \u{1f600}";
  const addresses: Address[] = [
    { table: "trades" },
    { table: "trades", follow: true },
    { table: "trades", row: 0, follow: false },
    { table: "trades", row: 2 ** 53 - 2, follow: false },
    { table: hostile, row: 5, follow: false, columns: [hostile, "", "b"] },
    { table: "" },
    { table: "t", formats: { others: { digits: 2, grouped: true }, columns: new Map() } },
    { table: "t", formats: { columns: new Map([[hostile, {}], ["", { scientific: true }], ["2g a", { digits: 0 }]]) } },
    { health: true },
    { table: "t", query: { where: ["price > 1 && s == `a&b=#`"], filters: [{ column: hostile, equals: hostile }, { column: "n", equals: null }, { column: "n", equals: "" }], sort: [{ column: "b", descending: true }, { column: hostile, descending: false }] } },
  ];
  for (const address of addresses) assert.deepEqual(parseAddress(formatAddress(address)), address);
});

test("rows count from 1 in the address", () => {
  assert.equal(formatAddress({ table: "t", row: 41 }), "#table=t&row=42");
});

test("the list of tables has the empty address", () => {
  assert.deepEqual(parseAddress(""), {});
  assert.deepEqual(parseAddress("#"), {});
  assert.equal(formatAddress({}), "#");
});

test("formats of numbers are words before the names of columns", () => {
  const formats = { others: { grouped: true }, columns: new Map([["price", { digits: 2 }]]) };
  assert.equal(formatAddress({ table: "t", formats }), "#table=t&format=g&format=2+price");
});

test("what is not understood is left out", () => {
  for (const row of ["0", "-1", "1.5", "1e3", "x", "99999999999999999999", ""]) {
    assert.deepEqual(parseAddress(`#table=t&row=${row}&other=1`), { table: "t" });
  }
  assert.deepEqual(parseAddress("#row=5&column=a"), {});
  assert.deepEqual(parseAddress("#table=t&format=&format=99&format=2x+a&format=+a"), { table: "t" });
  assert.deepEqual(parseAddress("#table=%zz"), { table: "%zz" });
});

test("an address does not name columns without end", () => {
  const columns = Array.from({ length: 5_000 }, (_, n) => `c${n}`);
  const parsed = parseAddress(formatAddress({ table: "t", columns }));
  assert.equal(parsed.columns?.length, MOST_NAMED_COLUMNS);
  const formats = { columns: new Map(columns.map((name) => [name, { digits: 1 }])) };
  assert.equal(parseAddress(formatAddress({ table: "t", formats })).formats?.columns.size, MOST_NAMED_COLUMNS);
  const long = columns.map((name) => `format=1+${name}`).join("&");
  assert.equal(parseAddress(`#table=t&${long}`).formats?.columns.size, MOST_NAMED_COLUMNS);
});

test("the token is taken out of the address, whatever is beside it", () => {
  assert.deepEqual(takeToken("#token=s3cret"), { token: "s3cret", rest: "" });
  assert.deepEqual(takeToken("#table=t&token=a%2Bb&row=5"), { token: "a+b", rest: "#table=t&row=5" });
  assert.deepEqual(takeToken("#token=a&token=b&table=t"), { token: "a", rest: "#table=t" });
  assert.deepEqual(takeToken("#table=t"), { token: undefined, rest: "#table=t" });
  assert.deepEqual(takeToken("#token="), { token: undefined, rest: "" });
});

test("no address names a token", () => {
  const address = { ...parseAddress("#table=t&token=s3cret"), token: "s3cret" };
  assert.ok(!formatAddress(address).includes("s3cret"));
});
