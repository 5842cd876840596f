import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column, Value } from "../../src/cells/column.ts";
import { shownName } from "../../src/grid/names.ts";
import { CellTexts, fit, fitNumber } from "../../src/grid/texts.ts";

/** Every character is ten pixels wide. */
const measure = (text: string): number => 10 * Array.from(text).length;
const TEXT: Column = { name: "t", type: "string", form: "text" };
const FLOAT: Column = { name: "f", type: "double", form: "float" };

test("text that does not fit ends with an ellipsis", () => {
  assert.equal(fit("abcdef", 60, measure), "abcdef");
  assert.equal(fit("abcdefg", 60, measure), "abcde…");
  assert.equal(fit("abc", 5, measure), "…");
  assert.equal(fit("", 0, measure), "");
});

test("characters beyond the first plane are not cut in two", () => {
  assert.equal(fit("😀😀😀😀", 30, measure), "😀😀…");
});

test("a million characters are not measured whole", () => {
  let longest = 0;
  const counting = (text: string): number => {
    longest = Math.max(longest, text.length);
    return measure(text);
  };
  assert.equal(fit("x".repeat(1_000_000), 100, counting).length, 10);
  assert.ok(longest < 200);
});

test("a number loses digits after its point alone: a part of one is another number", () => {
  assert.equal(fitNumber("123.456789", 80, measure), "123.456…");
  assert.equal(fitNumber("123456789", 80, measure), "########");
  assert.equal(fitNumber("1.5e+300", 50, measure), "#####");
  assert.equal(fitNumber("-12345.5", 50, measure), "#####");
  assert.equal(fitNumber("12", 50, measure), "12");
});

test("texts are kept apart: null, empty text, -0 and 0", () => {
  const texts = new CellTexts(measure);
  const text = (column: Column, value: Value): string => texts.painted(0, column, value, 1_000).text;
  assert.notEqual(text(TEXT, null), text(TEXT, ""));
  assert.equal(text(FLOAT, 0), "0");
  assert.notEqual(text(FLOAT, -0), text(FLOAT, 0));
  assert.equal(text(FLOAT, 0), "0");
});

test("each column has its format", () => {
  const texts = new CellTexts(measure, (column) => (column === 1 ? { digits: 1 } : undefined));
  assert.deepEqual([0, 1].map((column) => texts.painted(column, FLOAT, 0.25, 1_000).text), ["0.25", "0.3"]);
  assert.deepEqual([0, 1].map((column) => texts.whole(column, FLOAT, 0.25)), ["0.25", "0.3"]);
});

test("a number in scientific notation is whole or not there: without its exponent it is another", () => {
  const texts = new CellTexts(measure, () => ({ scientific: true }));
  assert.equal(texts.painted(0, FLOAT, 123456, 50).text, "#####");
});

test("only printable ASCII is sure to stay in its row", () => {
  const texts = new CellTexts(measure);
  assert.equal(texts.painted(0, TEXT, "abc", 100).simple, true);
  assert.equal(texts.painted(0, TEXT, "Z\u0300\u0301\u0302", 100).simple, false);
});

test("names are visible, and not endless", () => {
  assert.equal(shownName(""), "(no name)");
  assert.equal(shownName("a\u202eb"), "a[U+202E]b");
  const long = shownName("x".repeat(1_000_000));
  assert.ok(long.length < 400 && long.endsWith("(1,000,000 characters)"));
});
