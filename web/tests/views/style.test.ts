// The colours of views.css: WCAG AA in both palettes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const CSS = readFileSync(join(import.meta.dirname, "..", "..", "src", "views", "views.css"), "utf8");
const PAIR = /(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g;
const colours = new Map([...CSS.matchAll(PAIR)].map(([, name = "", light = "", dark = ""]) => [name, { light, dark }]));

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (parts[0] ?? 0) + 0.7152 * (parts[1] ?? 0) + 0.0722 * (parts[2] ?? 0);
}

function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function check(front: string, back: string, least: number): void {
  const [a, b] = [colours.get(front), colours.get(back)];
  assert.ok(a !== undefined && b !== undefined, `${front} or ${back} is missing`);
  for (const palette of ["light", "dark"] as const) {
    const found = contrast(a[palette], b[palette]);
    assert.ok(found >= least, `${front} on ${back}, ${palette}: ${found.toFixed(2)}`);
  }
}

test("text has a contrast of 4.5 on every background that it has", () => {
  const backs = ["--grid-back", "--grid-up-back", "--grid-down-back", "--grid-same-back"];
  for (const back of backs) for (const front of ["--grid-text", "--grid-muted"]) check(front, back, 4.5);
  for (const back of ["--grid-gutter", "--grid-head", "--grid-hover"]) check("--grid-muted", back, 4.5);
  for (const back of ["--grid-head", "--grid-hover"]) check("--grid-head-text", back, 4.5);
  for (const back of ["--back", "--raised", "--sunken"]) for (const front of ["--text", "--muted", "--accent"]) check(front, back, 4.5);
  check("--accent-text", "--accent", 4.5);
  check("--accent", "--accent-soft", 4.5);
  check("--bad", "--bad-soft", 4.5);
});

test("marks, focus and controls have a contrast of 3", () => {
  for (const mark of ["up", "down", "same"]) {
    check(`--grid-${mark}`, `--grid-${mark}-back`, 3);
  }
  check("--grid-accent", "--grid-back", 3);
  check("--accent", "--back", 3);
});
