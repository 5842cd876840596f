import assert from "node:assert/strict";
import { test } from "node:test";

import type { Column } from "../../src/cells/column.ts";
import type { Format } from "../../src/cells/format.ts";
import { columnFormats, pageFormats } from "../../src/views/formats.ts";
import type { MenuGroups } from "../../src/views/menu.ts";

const FLOAT: Column = { name: "f", type: "double", form: "float" };
const INT: Column = { name: "n", type: "int64", form: "int" };

const checked = (groups: MenuGroups): string[] => groups.flat().filter((entry) => entry.checked === true).map(({ label }) => label);
const choose = (groups: MenuGroups, label: string): void => groups.flat().find((entry) => entry.label === label)?.run();

test("the page's numbers are exact at first, and again", () => {
  let now: Format | undefined;
  const groups = (): MenuGroups => pageFormats(now, (format) => (now = format));
  assert.deepEqual(checked(groups()), ["All digits"]);
  for (const label of ["2 digits", "Group thousands", "Scientific"]) choose(groups(), label);
  assert.deepEqual(now, { digits: 2, grouped: true, scientific: true });
  assert.deepEqual(checked(groups()), ["2 digits", "Group thousands", "Scientific"]);
  for (const label of ["All digits", "Group thousands", "Scientific"]) choose(groups(), label);
  assert.equal(now, undefined);
});

test("a column is as the page until it has a format of its own, which may be exact", () => {
  const page: Format = { digits: 2, grouped: true };
  let own: Format | undefined;
  const groups = (): MenuGroups => columnFormats(FLOAT, own, page, (format) => (own = format));
  assert.deepEqual(checked(groups()), ["As the page", "Group thousands"]);
  choose(groups(), "Scientific");
  assert.deepEqual(own, { digits: 2, grouped: true, scientific: true });
  choose(groups(), "Scientific");
  choose(groups(), "Group thousands");
  choose(groups(), "All digits");
  assert.deepEqual(own, {});
  assert.deepEqual(checked(groups()), ["All digits"]);
  choose(groups(), "As the page");
  assert.equal(own, undefined);
});

test("of the entries of which one alone is on, one is", () => {
  for (const column of [FLOAT, INT]) {
    for (const own of [undefined, {}, { digits: 0 }, { digits: 6, scientific: true }]) {
      const choices = columnFormats(column, own, undefined, () => undefined).flat().filter((entry) => entry.oneOf === true);
      assert.equal(choices.filter((entry) => entry.checked === true).length, 1, `${column.form} ${JSON.stringify(own)}`);
    }
  }
});

test("an integer has digits after its point in scientific notation alone", () => {
  const labels = (own: Format): string[] => columnFormats(INT, own, undefined, () => undefined).flat().map(({ label }) => label);
  assert.ok(!labels({}).includes("2 digits"));
  assert.ok(labels({ scientific: true }).includes("2 digits"));
});
