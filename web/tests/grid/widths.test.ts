import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column } from "../../src/cells/column.ts";
import { CellTexts } from "../../src/grid/texts.ts";
import { typeLine } from "../../src/grid/names.ts";
import { PADDING, UsualWidths } from "../../src/grid/widths.ts";

/** Every character is ten pixels wide. */
const measure = (text: string): number => 10 * Array.from(text).length;
const INT: Column = { name: "n", type: "int64", form: "int" };
const DECIMAL: Column = { name: "d", type: "decimal128(38, 2)", form: "decimal" };
const TEXT: Column = { name: "t", type: "string", form: "text" };
const widths = (): UsualWidths => new UsualWidths({ head: measure, cell: measure });

test("a number that came later widens its column until it is whole", () => {
  const learnt = widths();
  learnt.learn(INT, ["1", "2"]);
  const texts = new CellTexts(measure);
  const painted = (value: bigint): string => texts.painted(0, INT, value, learnt.usual(INT) - 2 * PADDING).text;
  assert.equal(painted(7n), "7");
  assert.equal(texts.takeWanted().size, 0);
  assert.match(painted(123_456_789_012n), /^#+$/);
  assert.deepEqual([...texts.takeWanted()], [[0, 120]]);
  assert.ok(learnt.widen(INT, 120));
  assert.equal(painted(123_456_789_012n), "123456789012");
  assert.equal(texts.takeWanted().size, 0);
});

test("the line with the type fits, also where it says that the column is a key", () => {
  const short: Column = { name: "n", type: "int8", form: "bool" };
  assert.ok(widths().usual({ ...short, key: true }) >= measure(typeLine({ ...short, key: true })) + 2 * PADDING);
  assert.equal(typeLine(short), "int8");
});

test("a column never becomes narrower by what is in view", () => {
  const learnt = widths();
  learnt.learn(INT, ["1234567890123"]);
  const before = learnt.usual(INT);
  assert.ok(!learnt.widen(INT, 20));
  assert.equal(learnt.usual(INT), before);
});

test("decimals of any precision are shown whole, long texts are cut", () => {
  const learnt = widths();
  const digits = `${"9".repeat(36)}.99`;
  learnt.learn(DECIMAL, ["1.00"]);
  assert.ok(learnt.widen(DECIMAL, measure(digits)));
  const texts = new CellTexts(measure);
  assert.equal(texts.painted(0, DECIMAL, digits, learnt.usual(DECIMAL) - 2 * PADDING).text, digits);
  learnt.learn(TEXT, ["a"]);
  assert.ok(learnt.widen(TEXT, 1_000));
  assert.ok(learnt.usual(TEXT) < 400);
  assert.ok(!learnt.widen(TEXT, 2_000));
});

test("after another format of numbers, widths are learnt anew", () => {
  const learnt = widths();
  learnt.learn(INT, ["1234567890123"]);
  const before = learnt.usual(INT);
  learnt.forget();
  learnt.learn(INT, ["12"]);
  assert.ok(learnt.usual(INT) < before);
});
