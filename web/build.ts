// Bundles the page: `node build.ts FOLDER` writes page.js, page.css, plot.js and plot.css, which are loaded with the first plot,
// index.html and LICENSES.txt into FOLDER.
// The same sources and packages give the same bytes on every machine.

import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { argv, exit, stderr } from "node:process";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import type { Plugin } from "esbuild";

const ROOT = dirname(fileURLToPath(import.meta.url));
const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//;

/** What is imported when it is needed is a file of its own. */
const LATER: Plugin = {
  name: "later",
  setup: (made) => made.onResolve({ filter: /\/plot\/chart\.ts$/ }, ({ kind }) => (kind === "dynamic-import" ? { path: "./plot.js", external: true } : undefined)),
};

/** Names of the packages of which at least one byte is in the bundle, in order. */
function bundledPackages(inputs: readonly string[]): string[] {
  const names = new Set<string>();
  for (const input of inputs) {
    const name = PACKAGE.exec(input)?.[1];
    if (name !== undefined) names.add(name);
  }
  return [...names].sort();
}

/** Name, version and licence text of a package. A package without a licence file fails the build. */
function licence(name: string): string {
  const folder = join(ROOT, "node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string; license: string };
  const files = readdirSync(folder).filter((file) => /^licen[cs]e/i.test(file)).sort();
  const first = files[0];
  if (first === undefined) throw new Error(`${name} has no licence file`);
  const text = readFileSync(join(folder, first), "utf8").trim();
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
}

async function main(target: string): Promise<void> {
  mkdirSync(target, { recursive: true });
  const result = await build({
    absWorkingDir: ROOT,
    entryPoints: { page: "src/page/main.ts", "page-style": "src/page/page.css", plot: "src/plot/chart.ts", "plot-style": "src/plot/plot.css" },
    plugins: [LATER],
    entryNames: "[name]",
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    outdir: target,
    write: false,
    logLevel: "warning",
  });
  for (const file of result.outputFiles) {
    const name = basename(file.path).replace("-style", "");
    writeFileSync(join(target, name), file.contents);
  }
  copyFileSync(join(ROOT, "index.html"), join(target, "index.html"));
  const inputs = Object.values(result.metafile.outputs).flatMap((output) =>
    Object.entries(output.inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  const packages = bundledPackages(inputs);
  const head = packages.length
    ? "page.js, plot.js and plot.css contain parts of these packages.\n"
    : "page.js contains no packages of others; its licence is that of barrage-server.\n";
  writeFileSync(join(target, "LICENSES.txt"), [head, ...packages.map(licence)].join("\n----\n\n"));
}

const target = argv[2];
if (target === undefined) {
  stderr.write("Usage: node build.ts FOLDER\n");
  exit(2);
}
await main(resolve(target));
