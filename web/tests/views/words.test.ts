import assert from "node:assert/strict";
import { test } from "node:test";

import { entriesFor } from "../../src/views/operations.ts";
import { NOTHING } from "../../src/views/query.ts";
import { enteredRow } from "../../src/views/toolbar.ts";
import { bytes, copiedText, counted, duration, lag, rate, withoutStep } from "../../src/views/words.ts";

test("lag in words and ms", () => {
  assert.equal(lag(undefined), "live");
  assert.equal(lag(12.4), "live, 12 ms");
  assert.equal(lag(800), "a moment behind, 800 ms");
  assert.equal(lag(5_400), "5 seconds behind, 5,400 ms");
  assert.equal(lag(61_000), "1 minute behind, 61,000 ms");
  assert.equal(lag(7_200_000), "2 hours behind, 7,200,000 ms");
});

test("counts and rates", () => {
  assert.equal(counted(1, "row"), "1 row");
  assert.equal(counted(1_000_000_000, "row"), "1,000,000,000 rows");
  assert.equal(rate(12_345.6), "12,300");
  assert.equal(rate(0.25), "0.25");
});

test("a row that a user enters", () => {
  assert.equal(enteredRow("1"), 0);
  assert.equal(enteredRow(" 1,000,000 "), 999_999);
  assert.equal(enteredRow("9007199254740991"), 2 ** 53 - 2);
  assert.equal(enteredRow("0"), 0);
  for (const text of ["1 000", "1.000", "1_000", "1'000"]) assert.equal(enteredRow(text), 999);
  for (const text of ["", "x", "12.5", "1,00", "1.2345", "-3", "1e9", "99999999999999999"]) assert.equal(enteredRow(text), undefined);
});

test("a header's menu has what the server announces, and nothing else", () => {
  assert.deepEqual(entriesFor([], "x", "1", NOTHING), []);
  assert.deepEqual(entriesFor(["unknown"], "x", "1", NOTHING), []);
  assert.deepEqual(entriesFor(["sort"], "x", "1", NOTHING).map(({ query }) => query?.sort), [
    [{ column: "x", descending: false }],
    [{ column: "x", descending: true }],
  ]);
  assert.deepEqual(entriesFor(["filter"], "x", undefined, NOTHING), []);
  for (const cell of ["5", "", null]) {
    assert.deepEqual(entriesFor(["filter"], "x", cell, NOTHING).map(({ query }) => query?.filters), [[{ column: "x", equals: cell }]]);
  }
});

test("sizes and times in words", () => {
  assert.deepEqual([0, 512, 1024, 1536, 150 * 1024, 2 ** 40, 2 ** 70].map(bytes), ["0 B", "512 B", "1.0 KiB", "1.5 KiB", "150 KiB", "1.0 TiB", "1048576 PiB"]);
  assert.deepEqual([0, 9.96, 59.9, 61, 3_700, 180_000].map(duration), ["0.0 s", "10.0 s", "59 s", "1 min", "1 h 1 min", "2 d 2 h"]);
});

test("a copy says how many cells of it are cut", () => {
  assert.equal(copiedText("12 cells", 0), "Copied 12 cells.");
  assert.equal(copiedText("12 cells", 0, 3), "Copied 12 cells. The table has changed meanwhile: they are of 3 versions of it.");
  assert.equal(copiedText("12 cells", 1), "Copied 12 cells; 1 is cut at 512 characters: copy it from Cell.");
  assert.equal(copiedText("12 cells", 3), "Copied 12 cells; 3 are cut at 512 characters: copy them from Cell.");
});

test("an error says what is wrong, not the number of a step", () => {
  assert.equal(withoutStep("Operation 2 (where) failed: There is no column 'x'."), "There is no column 'x'.");
  assert.equal(withoutStep("The table was dropped."), "The table was dropped.");
});
