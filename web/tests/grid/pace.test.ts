import assert from "node:assert/strict";
import { test } from "node:test";

import { Pace } from "../../src/grid/pace.ts";

test("once in the time, at the first chance", () => {
  const pace = new Pace(8);
  const taken = Array.from({ length: 60 }, (_, n) => n / 2).filter((now) => pace.takes(now));
  assert.deepEqual(taken, [0, 8, 16, 24]);
  assert.deepEqual([pace.takes(100), pace.takes(107.9), pace.takes(108)], [true, false, true]);
});
