// Cells as text.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column, Value } from "../src/cells/column.ts";
import { csvLine, tabLine } from "../src/cells/csv.ts";
import { formatWord, keptFormat, parseFormat } from "../src/cells/format.ts";
import type { Format } from "../src/cells/format.ts";
import { direction } from "../src/cells/order.ts";
import { cellText, isCut, plainText } from "../src/cells/text.ts";
import { random } from "./chance.ts";

function column(form: Column["form"], type = "", more: Partial<Column> = {}): Column {
  return { name: "c", form, type, ...more };
}

const TEXT = column("text", "string");
const DOUBLE = column("float", "double");

test("integers and decimals to the last digit", () => {
  assert.equal(cellText(column("int", "int64"), -(2n ** 63n)), "-9223372036854775808");
  assert.equal(cellText(column("int", "uint64"), 2n ** 64n - 1n, { grouped: true }), "18,446,744,073,709,551,615");
  assert.equal(cellText(column("int", "int32"), -1234567, { grouped: true, digits: 2 }), "-1,234,567");
  const decimal = column("decimal", "decimal256(76, 10)");
  const long = "-12345678901234567890123456789012345678.0123456789";
  assert.equal(cellText(decimal, long), long);
  assert.equal(cellText(decimal, long, { digits: 3, grouped: true }), "-12,345,678,901,234,567,890,123,456,789,012,345,678.012");
  assert.equal(cellText(decimal, "9.995", { digits: 2 }), "10.00");
  assert.equal(cellText(decimal, "-0.4", { digits: 0 }), "-0");
  assert.equal(cellText(decimal, "0.5", { digits: 0 }), "1");
  assert.equal(cellText(decimal, "7", { digits: 2 }), "7.00");
  assert.equal(cellText(decimal, "1.5E+7", { digits: 2 }), "15000000.00");
  const exponents = { "0E-10": "0.0000000000", "-1E-7": "-0.0000001", "1.23E-9": "0.00000000123", "1E+2": "100", "0E+3": "0", "12.345E+1": "123.45" };
  for (const [sent, shown] of Object.entries(exponents)) assert.equal(cellText(decimal, sent), shown);
  assert.equal(direction(decimal, "1E-7", "0E-10"), -1);
});

test("floats: the shortest digits that read back", () => {
  const known: readonly [Value, string][] = [[0.1, "0.1"], [-0, "-0"], [0, "0"], [NaN, "NaN"], [Infinity, "Infinity"], [-Infinity, "-Infinity"], [5e-324, "5e-324"], [1e21, "1e+21"]];
  for (const [value, text] of known) assert.equal(cellText(DOUBLE, value), text);
  assert.equal(cellText(DOUBLE, 1234567.891, { digits: 2, grouped: true }), "1,234,567.89");
  assert.equal(cellText(DOUBLE, -0, { digits: 1 }), "-0.0");
  assert.equal(cellText(DOUBLE, NaN, { digits: 1 }), "NaN");
  assert.equal(cellText(DOUBLE, 1e22, { digits: 1 }), "10000000000000000000000.0");
  const chance = random(3);
  const bits = new DataView(new ArrayBuffer(4));
  for (let round = 0; round < 5000; round += 1) {
    bits.setUint32(0, chance(2 ** 32));
    const value = bits.getFloat32(0);
    if (Number.isNaN(value)) continue;
    const text = cellText(column("float", "float"), value);
    assert.equal(Math.fround(Number(text)), value);
    assert.ok(text.replace(/e.*$/, "").replace(/\D/g, "").replace(/^0+|0+$/g, "").length <= 9, text);
  }
  assert.equal(cellText(column("float", "float"), Math.fround(0.1)), "0.1");
  assert.equal(cellText(column("float", "halffloat"), 0.0999755859375), "0.1");
  assert.equal(cellText(column("float", "halffloat"), 65504), "65500");
  assert.equal(cellText(column("float", "halffloat"), 2 ** -24), "6e-8");
});

test("scientific notation: exact without digits, else rounded once, from what the number is", () => {
  const exact: Format = { scientific: true };
  const int = column("int", "int64");
  const decimal = column("decimal", "decimal128(38, 4)");
  const shown: readonly [Column, Value, Format, string][] = [
    [int, 2n ** 64n - 1n, exact, "1.8446744073709551615e+19"], [int, -1200, exact, "-1.2e+3"], [int, 0, exact, "0e+0"], [int, 7, { scientific: true, digits: 2 }, "7.00e+0"],
    [int, 9_995n, { scientific: true, digits: 2 }, "1.00e+4"], [int, 1_234_567, { scientific: true, digits: 0, grouped: true }, "1e+6"],
    [decimal, "0.0010", exact, "1e-3"], [decimal, "-123.4500", exact, "-1.2345e+2"], [decimal, "1E-7", exact, "1e-7"], [decimal, "0E-10", { scientific: true, digits: 1 }, "0.0e+0"],
    [decimal, "12345678901234567890123456789012345678.5", { scientific: true, digits: 3 }, "1.235e+37"],
    [DOUBLE, 1234.5, exact, "1.2345e+3"], [DOUBLE, 1e22, exact, "1e+22"], [DOUBLE, 5e-324, exact, "5e-324"], [DOUBLE, -0, exact, "-0e+0"], [DOUBLE, -0, { scientific: true, digits: 1 }, "-0.0e+0"],
    [DOUBLE, NaN, { scientific: true, digits: 1 }, "NaN"], [DOUBLE, -Infinity, exact, "-Infinity"],
    [DOUBLE, 1.005, { scientific: true, digits: 2 }, "1.00e+0"], // it is 1.00499…, though its shortest digits are 1.005
    [column("float", "float"), Math.fround(0.1), exact, "1e-1"], [column("float", "halffloat"), 65504, exact, "6.55e+4"],
  ];
  for (const [about, value, format, text] of shown) assert.equal(cellText(about, value, format), text);
  const chance = random(8);
  const bits = new DataView(new ArrayBuffer(8));
  for (let round = 0; round < 5000; round += 1) {
    bits.setBigUint64(0, BigInt(chance(2 ** 32)) * 2n ** 32n + BigInt(chance(2 ** 32)));
    const value = bits.getFloat64(0);
    if (Number.isNaN(value)) continue;
    const text = cellText(DOUBLE, value, exact);
    assert.match(text, /^-?(?:[0-9](?:\.[0-9]*[1-9])?e[+-][0-9]+|Infinity)$/);
    assert.equal(Number(text), value);
  }
});

test("formats of numbers come back from a word, and from what was kept", () => {
  const formats: readonly [string, Format][] = [
    ["exact", {}], ["0", { digits: 0 }], ["2g", { digits: 2, grouped: true }], ["g", { grouped: true }], ["e", { scientific: true }], ["20ge", { digits: 20, grouped: true, scientific: true }],
  ];
  for (const [word, format] of formats) {
    assert.equal(formatWord(format), word);
    assert.deepEqual(parseFormat(word), format);
    assert.deepEqual(keptFormat(JSON.parse(JSON.stringify(format))), format);
  }
  for (const word of ["", "21", "-1", "2.5", "eg", "2x", "EXACT", "gg", "100"]) assert.equal(parseFormat(word), undefined, word);
  for (const kept of [{ digits: "2" }, { digits: -1 }, { digits: 2.5 }, { digits: 1e9 }, { grouped: 1, scientific: "yes" }]) assert.deepEqual(keptFormat(kept), {});
  for (const kept of [null, 2, "2", undefined]) assert.equal(keptFormat(kept), undefined);
});

test("timestamps in any year and zone, to the nanosecond", () => {
  const at = (unit: "s" | "ms" | "us" | "ns", value: bigint, zone?: string): string => cellText(column("timestamp", "", zone === undefined ? { unit } : { unit, zone }), value);
  assert.equal(at("ns", 1_700_000_000_123_456_789n), "2023-11-14 22:13:20.123456789");
  assert.equal(at("ns", 1_700_000_000_123_456_789n, "Europe/Berlin"), "2023-11-14 23:13:20.123456789+01:00");
  assert.equal(at("ns", -1n, "UTC"), "1969-12-31 23:59:59.999999999+00:00");
  assert.equal(at("s", 1_711_846_799n, "Europe/Berlin"), "2024-03-31 01:59:59+01:00");
  assert.equal(at("s", 1_711_846_800n, "Europe/Berlin"), "2024-03-31 03:00:00+02:00");
  assert.equal(at("s", 0n, "+05:30"), "1970-01-01 05:30:00+05:30");
  assert.equal(at("s", 0n, "-0330"), "1969-12-31 20:30:00-03:30");
  assert.equal(at("s", 0n, "Nowhere/At_All"), "1970-01-01 00:00:00+00:00");
  assert.equal(at("us", -62_135_596_800_000_000n), "0001-01-01 00:00:00.000000");
  assert.equal(at("ms", 253_402_300_799_999n), "9999-12-31 23:59:59.999");
  assert.equal(at("s", 253_402_300_800n), "+10000-01-01 00:00:00");
  assert.equal(at("s", -62_167_219_201n), "-0001-12-31 23:59:59");
  assert.equal(at("s", 2n ** 63n - 1n, "Europe/Berlin"), "+292277026596-12-04 15:30:07+00:00");
  assert.equal(at("ns", -(2n ** 63n)), "1677-09-21 00:12:43.145224192");
});

test("dates are those of the calendar", () => {
  for (let day = -800_000; day < 3_000_000; day += 997) {
    const expected = new Date(day * 86_400_000).toISOString().replace(/T.*$/, "");
    if (/^\d{4}-/.test(expected)) assert.equal(cellText(column("date", "date32[day]"), day), expected);
  }
  assert.equal(cellText(column("date", "date64[ms]"), 86_400_000n), "1970-01-02");
  assert.equal(cellText(column("date", "date64[ms]"), 86_400_001n), "1970-01-02 00:00:00.001");
});

test("times and durations", () => {
  assert.equal(cellText(column("time", "time64[ns]", { unit: "ns" }), 86_399_999_999_999n), "23:59:59.999999999");
  assert.equal(cellText(column("time", "time32[s]", { unit: "s" }), 61), "00:01:01");
  assert.equal(cellText(column("duration", "", { unit: "ms" }), -90_061_001n), "-1d 01:01:01.001");
  assert.equal(cellText(column("duration", "", { unit: "s" }), 0n), "00:00:00");
});

test("null, empty text and NaN look different, and are copied as what they are", () => {
  assert.deepEqual([cellText(TEXT, null), cellText(TEXT, ""), cellText(DOUBLE, NaN)], ["null", "", "NaN"]);
  assert.deepEqual([plainText(TEXT, null), plainText(TEXT, "a\u202e\n")], ["", "a\u202e\n"]);
  assert.equal(cellText(column("bool", "bool"), false), "false");
  assert.equal(cellText(column("null", "null"), null), "null");
});

test("characters that hide or move others are symbols", () => {
  assert.equal(cellText(TEXT, "a\tb\nc\u0000\u007f"), "a␉b␊c␀␡");
  assert.equal(cellText(TEXT, "\u202eabc\u2066\u200f"), "[U+202E]abc[U+2066][U+200F]");
  assert.equal(cellText(TEXT, "\u0085\u00ad\ufeff\u{e0041}\ud800"), "[U+0085][U+00AD][U+FEFF][U+E0041][U+D800]");
  assert.equal(cellText(TEXT, "ä😀👩‍👧 <img onerror=x>"), "ä😀👩‍👧 <img onerror=x>");
});

test("cut cells say so, and how long the whole is", () => {
  const whole = "😀".repeat(512);
  assert.equal(isCut(TEXT, whole), false);
  assert.equal(isCut(TEXT, `${whole}1000000`), true);
  assert.equal(cellText(TEXT, `${whole}1000000`), `${whole}… (1,000,000 characters)`);
  assert.equal(cellText(column("nested"), `${whole}…`), `${whole}…`);
  assert.equal(isCut(column("nested"), `${whole}…`), true);
  assert.equal(isCut(column("decimal"), "1".repeat(600)), false);
});

test("which value is larger", () => {
  assert.equal(direction(DOUBLE, 1, 2), 1);
  assert.equal(direction(DOUBLE, NaN, 2), 0);
  assert.equal(direction(column("int", "int64"), 2n ** 63n - 1n, 2n ** 63n - 2n), -1);
  assert.equal(direction(column("decimal"), "-0.10", "-0.1"), 0);
  assert.equal(direction(column("decimal"), "99999999999999999999.9", "100000000000000000000"), 1);
  assert.equal(direction(TEXT, "a", "b"), 0);
  assert.equal(direction(DOUBLE, null, 1), 0);
});

test("fields of CSV", () => {
  assert.equal(csvLine(["a", 'b"c', "d,e", "f\ng", "", null, " h"], false), 'a,"b""c","d,e","f\ng","",," h"');
  assert.equal(csvLine(["=1+1", "-5", "-5.5e3", "+cmd", "@x", "-1,234", "-Infinity", " =1", "a=b"], true), "'=1+1,-5,-5.5e3,'+cmd,'@x,\"-1,234\",-Infinity,' =1,a=b");
  assert.equal(csvLine(["=1+1"], false), "=1+1");
  assert.equal(tabLine(["a", null, "b\tc", '"d', "e\"f"]), 'a\t\t"b\tc"\t"""d"\te"f');
});
