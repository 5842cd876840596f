import assert from "node:assert/strict";
import { test } from "node:test";

import { Fling, FingerSpeed } from "../../src/grid/fling.ts";
import { GLOW_MS, Highlights } from "../../src/grid/highlights.ts";

test("the first rows do not glow", () => {
  const highlights = new Highlights();
  highlights.note(3, 1_000);
  assert.equal(highlights.strength(3, 1_000), 0);
  assert.equal(highlights.next(1_000), undefined);
});

test("a change glows from its first paint for 600 ms, ever less", () => {
  const highlights = new Highlights();
  highlights.note(1, 0);
  highlights.note(3, 1_000);
  const strengths = [0, 200, 400, 599].map((ms) => highlights.strength(2, 1_000 + ms));
  assert.equal(strengths[0], 1);
  assert.ok(strengths.every((strength, at) => at === 0 || strength < (strengths[at - 1] ?? 0)));
  assert.ok(strengths.every((strength) => strength > 0));
  assert.equal(highlights.strength(2, 1_000 + GLOW_MS), 0);
  assert.equal(highlights.strength(1, 1_000), 0);
});

test("those who prefer less motion see no fading", () => {
  const highlights = new Highlights(false);
  highlights.note(1, 0);
  highlights.note(2, 1_000);
  assert.equal(highlights.strength(2, 1_599), 1);
  assert.equal(highlights.next(1_100), 500);
});

test("a repaint is due when something looks different, and none after all has faded", () => {
  const highlights = new Highlights();
  highlights.note(1, 0);
  highlights.note(2, 1_000);
  assert.equal(highlights.next(1_030), 100);
  highlights.note(2, 1_700);
  assert.equal(highlights.next(1_700), undefined);
});

test("a fling goes the same way whatever the frames, and ends", () => {
  const speed = { x: 0, y: 2 };
  const way = (frame: number): number => {
    const fling = new Fling(speed, 0);
    let sum = 0;
    for (let now = frame; ; now += frame) {
      const step = fling.step(now);
      if (step === undefined) return sum;
      sum += step.y;
    }
  };
  assert.ok(Math.abs(way(16) - way(7)) < 1);
  assert.ok(way(16) > 500 && way(16) < 700);
});

test("a finger that has rested leaves with no speed", () => {
  const finger = new FingerSpeed();
  finger.move(0, 0, 0);
  finger.move(0, 50, 50);
  assert.deepEqual(finger.leave(60), { x: 0, y: 1 });
  assert.deepEqual(finger.leave(500), { x: 0, y: 0 });
});
