import assert from "node:assert/strict";
import { test } from "node:test";

import { Fingers, type Range } from "../src/plot/fingers.ts";

const WIDTH = 500;

function near(found: Range | undefined, expected: Range): void {
  assert.ok(found !== undefined && found.every((place, at) => Math.abs(place - (expected[at] ?? NaN)) < 1e-9), `${String(found)} is not ${expected}`);
}

test("one finger pans: what is under it stays under it", () => {
  const fingers = new Fingers();
  fingers.down(1, 100, [0, 1000]);
  near(fingers.move(1, 150, WIDTH), [-100, 900]);
  near(fingers.move(1, 50, WIDTH), [100, 1100]);
  assert.equal(fingers.move(2, 50, WIDTH), undefined, "a pointer that has not come down");
  fingers.up(1);
  assert.equal(fingers.move(1, 90, WIDTH), undefined);
});

test("two fingers zoom: the places under both stay under them", () => {
  const fingers = new Fingers();
  fingers.down(1, 200, [0, 1000]);
  fingers.down(2, 300, [0, 1000]);
  fingers.move(1, 100, WIDTH);
  const range = fingers.move(2, 400, WIDTH);
  near(range, [1000 / 3, 2000 / 3]);
  const under = (x: number): number => (range?.[0] ?? NaN) + (x / WIDTH) * ((range?.[1] ?? NaN) - (range?.[0] ?? NaN));
  assert.ok(Math.abs(under(100) - 400) < 1e-9 && Math.abs(under(400) - 600) < 1e-9);
});

test("a finger that leaves or comes moves nothing, and the others go on from there", () => {
  const fingers = new Fingers();
  fingers.down(1, 200, [0, 1000]);
  fingers.down(2, 300, [0, 1000]);
  const [low, high] = fingers.move(2, 400, WIDTH) ?? assert.fail();
  fingers.up(2);
  near(fingers.move(1, 200, WIDTH), [low, high]);
  near(fingers.move(1, 250, WIDTH), [low - (high - low) / 10, high - (high - low) / 10]);
  fingers.down(3, 10, [5, 6]);
  near(fingers.move(3, 10, WIDTH), [low - (high - low) / 10, high - (high - low) / 10]);
});

test("fingers that meet or cross zoom no further", () => {
  const fingers = new Fingers();
  fingers.down(1, 200, [0, 1000]);
  fingers.down(2, 232, [0, 1000]);
  near(fingers.move(2, 216, WIDTH), [-1000 * 208 / 500 * 2 + 432, 1000 * 2 - 1000 * 208 / 500 * 2 + 432]);
  for (const x of [205, 200, 100]) {
    const [low, high] = fingers.move(2, x, WIDTH) ?? assert.fail();
    assert.ok(Math.abs(high - low - 2000) < 1e-6);
  }
});
