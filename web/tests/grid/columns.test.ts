import assert from "node:assert/strict";
import { test } from "node:test";

import { ColumnLayout, ColumnMemory, LEAST_WIDTH, MOST_WIDTH } from "../../src/grid/columns.ts";
import type { KeyValueStore, SavedColumns } from "../../src/grid/columns.ts";

const named = (...names: string[]): { name: string }[] => names.map((name) => ({ name }));
const abcd = (saved?: SavedColumns): ColumnLayout => new ColumnLayout(named("a", "b", "c", "d"), () => 100, saved);

class Store implements KeyValueStore {
  readonly values = new Map<string, string>();
  isFull = false;
  getItem(key: string): string | null {
    return this.values.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    if (this.isFull) throw new Error("full");
    this.values.set(key, value);
  }
  removeItem(key: string): void {
    this.values.delete(key);
  }
}

test("columns are shown in the order of the schema at first", () => {
  const layout = abcd();
  assert.deepEqual(layout.shown, [0, 1, 2, 3]);
  assert.equal(layout.total, 400);
  assert.ok(layout.isUsual);
  assert.deepEqual(layout.save(), {});
});

test("a moved column goes before another, or to the end", () => {
  const layout = abcd();
  layout.move(3, 1);
  assert.deepEqual(layout.shown, [0, 3, 1, 2]);
  layout.move(0, 4);
  assert.deepEqual(layout.shown, [3, 1, 2, 0]);
  const version = layout.version;
  layout.move(1, 1);
  layout.move(1, 2);
  layout.move(9, 0);
  assert.equal(layout.version, version);
});

test("hidden columns keep their place", () => {
  const layout = abcd();
  layout.hide(1);
  assert.deepEqual(layout.shown, [0, 2, 3]);
  assert.equal(layout.place(1), -1);
  layout.hide(1, false);
  assert.deepEqual(layout.shown, [0, 1, 2, 3]);
  for (const column of [0, 1, 2, 3]) layout.hide(column);
  assert.deepEqual(layout.shown, []);
  assert.equal(layout.total, 0);
  assert.deepEqual(layout.inView(0, 500), { from: 0, to: 0 });
  layout.showAll();
  assert.equal(layout.shown.length, 4);
});

test("pinned columns come first, and moving across their edge pins and unpins", () => {
  const layout = abcd();
  layout.pin(2);
  assert.deepEqual(layout.shown, [2, 0, 1, 3]);
  assert.equal(layout.pinnedWidth, 100);
  layout.move(3, 0);
  assert.deepEqual(layout.shown, [3, 2, 0, 1]);
  assert.equal(layout.pinnedCount, 2);
  layout.move(1, 4);
  assert.deepEqual(layout.shown, [3, 0, 1, 2]);
  assert.equal(layout.pinnedCount, 1);
  layout.pin(3, false);
  assert.equal(layout.pinnedCount, 0);
});

test("widths stay within bounds and move the columns after them", () => {
  const layout = abcd();
  layout.resize(1, 250.4);
  assert.equal(layout.width(1), 250);
  assert.equal(layout.left(2), 350);
  layout.resize(1, -5);
  assert.equal(layout.width(1), LEAST_WIDTH);
  layout.resize(1, 1e9);
  assert.equal(layout.width(1), MOST_WIDTH);
  layout.resize(1, NaN);
  assert.equal(layout.width(1), MOST_WIDTH);
});

test("columns in view are those that touch the space beside the pinned ones", () => {
  const layout = abcd();
  assert.deepEqual(layout.inView(0, 250), { from: 0, to: 3 });
  assert.deepEqual(layout.inView(150, 100), { from: 1, to: 3 });
  layout.pin(0);
  assert.deepEqual(layout.inView(0, 250), { from: 1, to: 3 });
  assert.deepEqual(layout.inView(100, 250), { from: 2, to: 4 });
  assert.deepEqual(layout.inView(0, 100), { from: 1, to: 1 });
});

test("with 10,000 columns those in view are found where they are", () => {
  const layout = new ColumnLayout(Array.from({ length: 10_000 }, (_, n) => ({ name: `c${n}` })), () => 100);
  assert.deepEqual(layout.inView(500_050, 1_000), { from: 5_000, to: 5_011 });
  assert.equal(layout.at(999_999), 9_999);
  assert.equal(layout.at(1e12), 9_999);
});

test("revealing scrolls as little as shows a column", () => {
  const layout = abcd();
  assert.equal(layout.reveal(0, 150, 200), 0);
  assert.equal(layout.reveal(3, 0, 200), 200);
  assert.equal(layout.reveal(1, 50, 250), 50);
  layout.resize(2, 1_000);
  assert.equal(layout.reveal(2, 0, 300), 200);
  layout.pin(0);
  assert.equal(layout.reveal(0, 77, 200), 77);
});

test("showOnly shows what a link names, and skips what is not there", () => {
  const layout = abcd();
  layout.showOnly([2, 0, 2, 17, -1]);
  assert.deepEqual(layout.shown, [2, 0]);
  layout.showAll();
  assert.deepEqual(layout.shown, [2, 0, 1, 3]);
});

test("columns come back as they were kept, by name", () => {
  const layout = abcd();
  layout.move(3, 0);
  layout.hide(1);
  layout.pin(2);
  layout.resize(0, 222);
  layout.setFormat(1, { digits: 2 });
  layout.setFormat(3, {});
  const saved = JSON.parse(JSON.stringify(layout.save())) as SavedColumns;
  const again = abcd(saved);
  assert.deepEqual(again.shown, layout.shown);
  assert.equal(again.width(0), 222);
  assert.equal(again.pinnedCount, 1);
  assert.deepEqual(again.formats, new Map([[1, { digits: 2 }], [3, {}]]));
});

test("a column has a format of its own until it is taken away", () => {
  const layout = abcd();
  const before = layout.formats;
  const { version } = layout;
  layout.setFormat(2, { scientific: true });
  assert.notEqual(layout.formats, before, "who has kept the formats sees that they have changed");
  assert.ok(layout.version > version);
  assert.deepEqual(layout.formats, new Map([[2, { scientific: true }]]));
  assert.ok(layout.isUsual, "no column is elsewhere");
  layout.setFormat(2, undefined);
  assert.deepEqual(layout.save(), {});
  layout.setFormat(0, { digits: 1 });
  layout.reset();
  assert.deepEqual(layout.save(), {});
});

test("columns that have gone or come since are no obstacle", () => {
  const saved = { order: ["d", "gone", "a"], hidden: ["gone"], pinned: ["c"], widths: { b: 99, gone: 5, a: 1e9 }, formats: { gone: {}, b: { digits: 1 } } };
  const layout = new ColumnLayout(named("a", "b", "c", "new"), () => 100, saved);
  assert.deepEqual(layout.shown, [2, 0, 1, 3]);
  assert.equal(layout.width(1), 99);
  assert.equal(layout.width(0), 100);
  assert.deepEqual(layout.formats, new Map([[1, { digits: 1 }]]));
});

test("a name of the prototype is a name like any other", () => {
  const layout = new ColumnLayout(named("__proto__", "constructor"), () => 100);
  layout.resize(0, 77);
  layout.resize(1, 78);
  layout.setFormat(0, { digits: 3 });
  const memory = new ColumnMemory(new Store());
  memory.save("__proto__", layout.save());
  const again = new ColumnLayout(named("__proto__", "constructor"), () => 100, memory.load("__proto__"));
  assert.equal(again.width(0), 77);
  assert.equal(again.width(1), 78);
  assert.deepEqual(again.formats, new Map([[0, { digits: 3 }]]));
});

test("each table has its columns, and what is usual is not kept", () => {
  const store = new Store();
  const memory = new ColumnMemory(store);
  memory.save("one", { hidden: ["a"] });
  memory.save("two", { hidden: ["b"], format: { digits: 2, grouped: true } });
  assert.deepEqual(memory.load("one").hidden, ["a"]);
  assert.deepEqual(memory.load("two").format, { digits: 2, grouped: true });
  assert.deepEqual(memory.load("three"), {});
  memory.save("one", {});
  assert.deepEqual(memory.load("one"), {});
});

test("of many tables those looked at longest ago are forgotten", () => {
  const store = new Store();
  const memory = new ColumnMemory(store);
  for (let n = 0; n < 300; n++) memory.save(`table ${n}`, { hidden: ["a"] });
  assert.deepEqual(memory.load("table 0"), {});
  assert.deepEqual(memory.load("table 299").hidden, ["a"]);
  assert.ok(store.values.size <= 101);
});

test("storage that is missing, full or damaged is no error", () => {
  const store = new Store();
  store.isFull = true;
  new ColumnMemory(store).save("one", { hidden: ["a"] });
  assert.deepEqual(new ColumnMemory(undefined).load("one"), {});
  new ColumnMemory(undefined).save("one", {});
  for (const text of ["{", "3", "null", '{"order":3,"hidden":[1,"a"],"widths":[1],"format":{"digits":"x"},"formats":{"a":7}}', '{"formats":7}', '{"formats":["a"]}']) {
    store.values.set("barrage.columns.one", text);
    const saved = new ColumnMemory(store).load("one");
    assert.ok(saved.order === undefined);
    new ColumnLayout(named("a"), () => 100, saved);
  }
});

test("some hidden columns are shown again, or all", () => {
  const layout = abcd();
  layout.showOnly([]);
  layout.showAll([1, 3]);
  assert.deepEqual(layout.shown, [1, 3]);
  layout.showAll();
  assert.deepEqual(layout.shown, [0, 1, 2, 3]);
});
