import assert from "node:assert/strict";
import { test } from "node:test";

import { pressKey } from "../../src/grid/keyboard.ts";
import { Selection } from "../../src/grid/selection.ts";

interface Press {
  readonly ctrlKey?: boolean;
  readonly shiftKey?: boolean;
  readonly altKey?: boolean;
}

function target(): { readonly selection: Selection; readonly calls: string[]; press(key: string, keys?: Press): boolean } {
  const selection = new Selection();
  selection.resize({ rows: 100, places: 4, page: 10 });
  const calls: string[] = [];
  const acts = {
    selection,
    enter: () => void calls.push("enter"),
    selected: () => void calls.push("selected"),
    copy: () => void calls.push("copy"),
    openCell: () => void calls.push("cell"),
    openMenuHere: (part: string) => void calls.push(`menu ${part}`),
  };
  const press = (key: string, keys: Press = {}): boolean =>
    pressKey(acts, { key, ctrlKey: false, shiftKey: false, altKey: false, metaKey: false, ...keys } as KeyboardEvent);
  return { selection, calls, press };
}

test("steps begin at a cell in view, and are shown", () => {
  const { selection, calls, press } = target();
  assert.ok(press("ArrowDown"));
  assert.deepEqual(calls, ["enter", "selected"]);
  assert.deepEqual(selection.active, { row: 1, place: 0 });
});

test("every function of the mouse has a key", () => {
  const { selection, calls, press } = target();
  for (const [key, keys] of [["c", { ctrlKey: true }], ["Enter", {}], ["F2", {}], ["ContextMenu", {}], ["F10", { shiftKey: true }], ["ContextMenu", { ctrlKey: true }]] as const) {
    assert.ok(press(key, keys));
  }
  assert.deepEqual(calls, ["copy", "cell", "cell", "menu head", "menu head", "menu cell"]);
  press(" ", { shiftKey: true });
  assert.deepEqual(selection.areas, [{ top: 0, bottom: 0, left: 0, right: 3 }]);
  press(" ", { ctrlKey: true });
  assert.deepEqual(selection.areas, [{ top: 0, bottom: 99, left: 0, right: 0 }]);
  press("a", { ctrlKey: true });
  assert.deepEqual(selection.areas, [{ top: 0, bottom: 99, left: 0, right: 3 }]);
  press("Escape");
  assert.ok(selection.isSingle);
});

test("other keys are left to the browser", () => {
  const { calls, press } = target();
  for (const [key, keys] of [["c", {}], ["Tab", {}], ["r", { ctrlKey: true }], ["ArrowLeft", { altKey: true }], ["Escape", {}], ["c", { ctrlKey: true, shiftKey: true }]] as const) {
    assert.equal(press(key, keys), false, key);
  }
  assert.deepEqual(calls, []);
});
