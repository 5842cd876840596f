import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column, Value } from "../../src/cells/column.ts";
import { CopyError, asText, copyAll, copyHeld } from "../../src/grid/copy.ts";
import type { CopySource } from "../../src/grid/copy.ts";

const COLUMNS: readonly Column[] = [
  { name: "id", type: "int64", form: "int" },
  { name: "text, quoted", type: "string", form: "text" },
  { name: "x", type: "double", form: "float" },
];

const cell = (row: number, column: number): Value => {
  if (column === 0) return BigInt(row) + 2n ** 62n;
  if (column === 1) return row % 2 === 0 ? "=1+1" : null;
  return row / 4;
};

/** A table of `rows` of which [from, to) are held. */
function source(rows: number, from: number, to: number, asked: string[] = [], steps: number[] = []): CopySource {
  return {
    columns: COLUMNS,
    step: 7,
    value: (row, column) => (row >= from && row < to ? cell(row, column) : undefined),
    snapshot: async (columns, first, count) => {
      asked.push(`${columns.join()} ${first}+${count}`);
      const there = Math.max(0, Math.min(count, rows - first));
      const read = Array.from({ length: there }, (_, n) => columns.map((column) => cell(first + n, column)));
      return { rows: read, versions: new Set([steps.shift() ?? 7]) };
    },
  };
}

test("text has tabs, and the columns as they are on the screen", () => {
  const text = copyHeld(source(10, 0, 10), [{ top: 0, bottom: 1, left: 0, right: 1 }], [2, 0], "text")?.text;
  assert.equal(text, `0\t${2n ** 62n}\n0.25\t${2n ** 62n + 1n}`);
});

test("CSV has the names first, and quotes them", () => {
  const text = copyHeld(source(10, 0, 10), [{ top: 0, bottom: 1, left: 1, right: 1 }], [0, 1, 2], "csv")?.text;
  assert.equal(text, '"text, quoted"\r\n=1+1\r\n\r\n');
});

test("CSV for spreadsheets has no formulas", () => {
  const text = copyHeld(source(10, 0, 10), [{ top: 0, bottom: 0, left: 1, right: 1 }], [0, 1, 2], "sheet")?.text;
  assert.equal(text, "\"text, quoted\"\r\n'=1+1\r\n");
});

test("hostile text is copied as it is", () => {
  const hostile = "\u202eabc\u0000<b>";
  assert.equal(asText(COLUMNS, [1], [[hostile]], "text"), hostile);
});

test("what is in the window is not fetched, what is beyond is", async () => {
  const asked: string[] = [];
  const held = source(1_000, 0, 50, asked);
  assert.equal(copyHeld(held, [{ top: 0, bottom: 60, left: 0, right: 0 }], [0, 1, 2], "text"), undefined);
  const { text } = await copyAll(held, [{ top: 40, bottom: 60, left: 0, right: 1 }], [2, 0, 1], "text", 500);
  assert.equal(text.split("\n").length, 21);
  assert.equal(text.split("\n")[20], `15\t${2n ** 62n + 60n}`);
  assert.deepEqual(asked, ["2,0 40+21"]);
});

test("more columns than one view may have are fetched in groups, and put together", async () => {
  const asked: string[] = [];
  const { text } = await copyAll(source(1_000, 0, 0, asked), [{ top: 4, bottom: 5, left: 0, right: 2 }], [0, 1, 2], "text", 2);
  assert.deepEqual(asked, ["0,1 4+2", "2 4+2"]);
  assert.equal(text, `${2n ** 62n + 4n}\t=1+1\t1\n${2n ** 62n + 5n}\t\t1.25`);
});

test("versions of the table are counted, of what is held and what is fetched", async () => {
  const all = [{ top: 4, bottom: 5, left: 0, right: 2 }];
  const both = [{ top: 0, bottom: 1, left: 0, right: 0 }, ...all];
  const versions = async (areas: typeof all, steps: number[]): Promise<number> =>
    (await copyAll(source(1_000, 0, 2, [], steps), areas, [0, 1, 2], "text", 2)).versions;
  assert.equal(await versions(all, [7, 7]), 1);
  assert.equal(await versions(all, [7, 8]), 2);
  assert.equal(await versions(both, [7, 7]), 1);
  assert.equal(await versions(both, [8, 8]), 2, "the window shows 7");
  assert.equal(await versions(both, [8, 9]), 3);
  assert.equal(copyHeld(source(10, 0, 10), all, [0, 1, 2], "text")?.versions, 1);
});

test("rows that have gone meanwhile are left out", async () => {
  const { text } = await copyAll(source(45, 0, 0), [{ top: 40, bottom: 60, left: 2, right: 2 }], [0, 1, 2], "text", 500);
  assert.equal(text, "10\n10.25\n10.5\n10.75\n11");
});

test("more than a million cells are refused in a sentence", async () => {
  const areas = [{ top: 0, bottom: 999_999, left: 0, right: 1 }];
  assert.throws(() => copyHeld(source(1_000, 0, 0), areas, [0, 1, 2], "csv"), CopyError);
  await assert.rejects(copyAll(source(1_000, 0, 0), areas, [0, 1, 2], "csv", 500), /2,000,000 cells are selected; at most 1,000,000/);
});

test("several rectangles are copied one after the other", () => {
  const areas = [{ top: 0, bottom: 0, left: 2, right: 2 }, { top: 4, bottom: 4, left: 2, right: 2 }];
  assert.equal(copyHeld(source(10, 0, 10), areas, [0, 1, 2], "text")?.text, "0\n1");
});

test("cells that are cut are counted, in all forms, held and fetched", async () => {
  const long = `${"x".repeat(512)}4000`;
  const texts: CopySource = {
    columns: COLUMNS,
    step: undefined,
    value: (row) => (row === 0 ? long : undefined),
    snapshot: async (_, first, count) => ({
      rows: Array.from({ length: count }, (_, n) => [(first + n) % 2 === 0 ? long : "short"]),
      versions: new Set([1]),
    }),
  };
  for (const form of ["text", "csv", "sheet"] as const) {
    assert.equal(copyHeld(texts, [{ top: 0, bottom: 0, left: 0, right: 0 }], [1], form)?.cut, 1);
    assert.equal((await copyAll(texts, [{ top: 0, bottom: 4, left: 0, right: 0 }], [1], form, 500)).cut, 3);
  }
});
