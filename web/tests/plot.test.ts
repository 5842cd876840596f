// The pure part of plots: what is asked for, what is drawn, and what is written at the axes.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column } from "../src/cells/column.ts";
import { formatAddress, parseAddress } from "../src/page/address.ts";
import { heights, nearest, placeOf, valueAt, walk } from "../src/plot/points.ts";
import type { Points, Series } from "../src/plot/points.ts";
import { completed, isAxis, isSeries, parseRange, plotRequest, rangeText, unitsOfSecond } from "../src/plot/spec.ts";
import type { PlotRange, PlotSpec } from "../src/plot/spec.ts";
import { numberLabel, ticks } from "../src/plot/ticks.ts";

const TIME: Column = { name: "first_x", type: "timestamp[ns, tz=UTC]", form: "timestamp", unit: "ns", zone: "UTC" };
const NUMBER: Column = { name: "y_first", type: "double", form: "float" };
const BEGIN = 1_718_445_600_000_000_000n; // 2024-06-15T10:00:00Z

function points(axis: Column, places: readonly number[], parts: Partial<Record<keyof Series, readonly number[]>>): Points {
  const numbers = (name: keyof Series): Float64Array => Float64Array.from(parts[name] ?? places.map(() => NaN));
  const x = Float64Array.from(places);
  const series: Series = {
    name: "y", column: NUMBER, first: numbers("first"), least: numbers("least"), leastX: numbers("leastX"),
    greatest: numbers("greatest"), greatestX: numbers("greatestX"), last: numbers("last"),
  };
  return { axis, origin: axis === TIME ? BEGIN : 0n, count: places.length, firstX: x, lastX: x, series: [series] };
}

test("a range comes back from its text exactly; what is none is all", () => {
  const ranges: PlotRange[] = [
    { kind: "all" },
    { kind: "rows", rows: 1000 },
    { kind: "last", length: 60_000_000_000n },
    { kind: "last", length: 0.5 },
    { kind: "fixed", first: BEGIN, last: BEGIN + 1n },
    { kind: "fixed", first: -(1n << 63n), last: (1n << 63n) - 1n },
    { kind: "fixed", first: -1.5, last: 2e300 },
    { kind: "fixed", first: 1, last: 2 },
  ];
  for (const range of ranges) {
    const back = parseRange(rangeText(range));
    assert.deepEqual(back, range);
  }
  for (const text of ["x", "rows", "rows 0", "rows -1", "rows 1.5", "last 0", "2 1", "1 2.5", "1 2 3", "9223372036854775808 1", "NaN 1", "1e999 2"]) {
    assert.deepEqual(parseRange(text), { kind: "all" }, text);
  }
});

test("an address names a plot", () => {
  const plot: PlotSpec = { x: "a&b=#c", ys: ["<img>", "", "z"], range: { kind: "fixed", first: BEGIN, last: BEGIN + 5n } };
  assert.deepEqual(parseAddress(formatAddress({ table: "t", plot })), { table: "t", plot });
  assert.deepEqual(parseAddress("#table=t&plot="), { table: "t", plot: { ys: [], range: { kind: "all" } } });
  const many = Array.from({ length: 20 }, (_, n) => `y=c${n}`).join("&");
  assert.equal(parseAddress(`#table=t&plot=&${many}`).plot?.ys.length, 8);
});

test("types that can be plotted", () => {
  for (const type of ["int8", "uint64", "double", "float", "halffloat", "decimal128(9, 2)"]) assert.ok(isSeries(type) && isAxis(type), type);
  for (const type of ["timestamp[ns, tz=UTC]", "date32[day]", "date64[ms]", "time64[ns]", "duration[us]"]) assert.ok(!isSeries(type) && isAxis(type), type);
  for (const type of ["string", "list<item: int64>", "struct<a: int64>", "null", "binary", "dictionary<values=string, indices=int32>"]) assert.ok(!isSeries(type) && !isAxis(type), type);
  assert.ok(isSeries("bool") && !isAxis("bool"));
  assert.equal(unitsOfSecond("timestamp[us, tz=UTC]"), 1e6);
  assert.equal(unitsOfSecond("int64"), undefined);
});

test("a plot that names nothing is of the first number over the first time", () => {
  const spec: PlotSpec = { ys: [], range: { kind: "all" } };
  const columns = [["s", "string"], ["n", "int64"], ["t", "timestamp[ns]"], ["p", "double"]] as const;
  assert.deepEqual(completed(spec, columns), { x: "t", ys: ["p"], range: { kind: "all" } });
  assert.deepEqual(completed(spec, [["n", "int64"]]), { x: "", ys: ["n"], range: { kind: "all" } });
  assert.deepEqual(completed(spec, [["s", "string"]]), { x: "", ys: [], range: { kind: "all" } });
});

test("what the server is asked for has every digit", () => {
  const spec = { x: "t", ys: ["p"] };
  assert.deepEqual(plotRequest({ ...spec, range: { kind: "fixed", first: BEGIN + 1n, last: BEGIN + 2n } }, 500), { x: "t", ys: ["p"], pixels: 500, first: "1718445600000000001", last: "1718445600000000002" });
  assert.deepEqual(plotRequest({ ...spec, x: "", range: { kind: "rows", rows: 5 } }, 500), { ys: ["p"], pixels: 500, tail_rows: 5 });
});

test("places are exact near the beginning, and become values again", () => {
  const some = points(TIME, [0, 1, 2], {});
  assert.equal(placeOf(BEGIN + 3n, BEGIN), 3);
  assert.equal(valueAt(3, some), BEGIN + 3n);
  assert.equal(valueAt(2.5, points(NUMBER, [0], {})), 2.5);
});

test("the line goes through least and greatest in their order, and has gaps", () => {
  const some = points(NUMBER, [0, 10, 20], {
    first: [1, NaN, 5], least: [0, 3, NaN], leastX: [2, 11, NaN], greatest: [4, 3, NaN], greatestX: [1, 11, NaN], last: [2, NaN, NaN],
  });
  const line: [number, number][] = [];
  const [series] = some.series;
  assert.ok(series !== undefined);
  walk(some, series, (x, y) => line.push([x, y]));
  assert.deepEqual(line, [[0, 1], [1, 4], [2, 0], [0, 2], [10, NaN], [11, 3], [11, 3], [10, NaN], [20, 5], [20, NaN]]);
  assert.deepEqual(heights(some, 5, 30), [3, 3]);
  assert.deepEqual(heights(some, -5, 30), [0, 4]);
  assert.equal(heights(some, 15, 30), undefined);
  assert.deepEqual([-5, 4, 6, 16, 99].map((place) => nearest(some, place)), [0, 0, 1, 2, 2]);
  assert.equal(nearest(points(NUMBER, [], {}), 1), -1);
});

test("marks of times are at whole minutes, hours and days of the zone", () => {
  const berlin: Column = { ...TIME, zone: "Europe/Berlin" };
  const hour = 3.6e12;
  assert.deepEqual(ticks(TIME, BEGIN, 0, hour, 6).texts, ["10:00", "10:10", "10:20", "10:30", "10:40", "10:50", "11:00"]);
  assert.deepEqual(ticks(berlin, BEGIN, 0, 24 * hour, 4).texts, ["12:00", "18:00", "2024-06-16", "06:00", "12:00"]);
  assert.deepEqual(ticks(berlin, BEGIN, 0, 96 * hour, 4).texts, ["2024-06-16", "2024-06-17", "2024-06-18", "2024-06-19"]);
  assert.deepEqual(ticks(TIME, BEGIN, 0, 5, 5).places, [0, 1, 2, 3, 4, 5]);
  assert.equal(ticks(TIME, BEGIN, 0, 2e9, 4).texts[1], "00:00.5");
});

test("marks of numbers have the digits that tell them apart", () => {
  assert.deepEqual(ticks(NUMBER, 0n, 0, 1, 5).texts, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
  assert.deepEqual(ticks({ name: "first_x", type: "int64", form: "int" }, 0n, 0, 10_000, 5).texts, ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]);
  assert.equal(numberLabel(1e20, 1e19), "1.000e+20");
  for (const [low, high] of [[0, 0], [1, 0], [-1e308, 1e308], [1e-300, 2e-300], [1, 1 + 2 ** -52]] as const) assert.ok(ticks(NUMBER, 0n, low, high, 5).places.length <= 12);
});
