// The rooms of web/src, and which of them may know which.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { test } from "node:test";

const SOURCES = join(import.meta.dirname, "..", "src");

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  cells: [],
  wire: ["cells"],
  window: ["cells", "wire"],
  link: ["cells", "wire", "window"],
  grid: ["cells", "window", "link"],
  plot: ["cells", "wire", "window", "link"],
  views: ["cells", "wire", "window", "link", "grid", "plot"],
  page: ["cells", "wire", "window", "link", "grid", "plot", "views"],
  notebook: ["cells", "wire", "window", "link", "grid", "plot", "views"],
};
/** What rooms may use of others. */
const PACKAGES: Readonly<Record<string, string>> = { plot: "uplot" };
/** Rooms that know neither the browser nor the time. */
const PURE = ["cells", "wire", "window"];
const BROWSER = /\b(?:document|navigator|localStorage|sessionStorage|fetch|WebSocket|setTimeout|setInterval|requestAnimationFrame|performance)\b|\bDate\.now\b/;
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']/g;

const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));

function code(file: string): string {
  return readFileSync(join(SOURCES, file), "utf8");
}

test("every file lies in a room", () => {
  assert.ok(files.length > 20);
  for (const file of files) assert.ok((file.split("/")[0] ?? "") in MAY_IMPORT, file);
});

test("rooms import in one direction, and nothing of others but what is bundled", () => {
  const found: string[] = [];
  for (const file of files) {
    const room = file.split("/")[0] ?? "";
    for (const [, target = ""] of code(file).matchAll(IMPORT)) {
      if (!target.startsWith(".")) {
        if (PACKAGES[room] !== target) found.push(`${file}: ${target}`);
        continue;
      }
      const other = relative(SOURCES, normalize(join(SOURCES, dirname(file), target))).split("/")[0] ?? "";
      if (other !== room && MAY_IMPORT[room]?.includes(other) !== true) found.push(`${file}: ${target}`);
    }
  }
  assert.deepEqual(found, []);
});

test("the pure rooms know neither the browser nor the time", () => {
  const comments = /\/\*[^]*?\*\/|\/\/.*$/gm;
  const found = files.filter((file) => PURE.includes(file.split("/")[0] ?? "") && BROWSER.test(code(file).replace(comments, "").replace(/(["'`])(?:\\.|(?!\1)[^\\])*\1/g, "")));
  assert.deepEqual(found, []);
});

test("nothing turns text into code or markup", () => {
  const dangerous = /\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|DOMParser|createContextualFragment)\b|\bnew Function\b/;
  assert.deepEqual(files.filter((file) => dangerous.test(code(file))), []);
});
