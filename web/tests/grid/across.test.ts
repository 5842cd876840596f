import assert from "node:assert/strict";
import { test } from "node:test";

import { AcrossScroll } from "../../src/grid/across.ts";

test("columns that fit do not scroll", () => {
  const across = new AcrossScroll();
  across.resize(500, 800);
  across.to(100);
  assert.equal(across.pixels, 0);
  assert.equal(across.thumb(800), undefined);
});

test("the thumb spans the columns, and its ends are theirs", () => {
  const across = new AcrossScroll();
  across.resize(1_000_000, 800);
  across.to(Infinity);
  assert.equal(across.pixels, 0);
  across.to(1e12);
  assert.equal(across.pixels, 999_200);
  const end = across.thumb(800);
  assert.ok(end !== undefined && Math.abs(end.start + end.length - 800) < 1e-9 && end.length >= 28);
  across.toThumb(0, 800);
  assert.equal(across.pixels, 0);
  across.toThumb(9_999, 800);
  assert.equal(across.pixels, 999_200);
});

test("what is scrolled is whole pixels, and stays within fewer columns", () => {
  const across = new AcrossScroll();
  across.resize(10_000, 800);
  across.to(123.6);
  assert.equal(across.pixels, 124);
  across.resize(850, 800);
  assert.equal(across.pixels, 50);
});
