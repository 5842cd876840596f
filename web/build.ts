// Bundles what browsers load. `node build.ts page FOLDER` writes early.js, which runs first, page.js, page.css, plot.js and
// plot.css, which are loaded with the first plot, index.html and LICENSES.txt into FOLDER; `node build.ts widget FOLDER` the
// notebook widget, widget.js alone, with its styles, and LICENSES.txt. The same sources and packages give the same bytes on every
// machine.

import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { argv, exit, stderr } from "node:process";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import type { Metafile, Plugin } from "esbuild";

const ROOT = dirname(fileURLToPath(import.meta.url));
const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//;

/** What is imported when it is needed is a file of its own. The page is in index.html, as the server sends it. */
const LATER: Plugin = {
  name: "later",
  setup: (made) => made.onResolve({ filter: /\/plot\/chart\.ts$/ }, ({ kind }) => (kind === "dynamic-import" ? { path: "./static/plot.js", external: true } : undefined)),
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

const COMMON = {
  absWorkingDir: ROOT,
  entryNames: "[name]",
  bundle: true,
  preserveSymlinks: true, // so that a package is told by its folder wherever node_modules lies
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
  logLevel: "warning",
} as const;

/** Style sheets that scripts import are text in them, with what they import. */
const STYLES: Plugin = {
  name: "styles",
  setup: (made) =>
    made.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { outputFiles } = await build({ ...COMMON, entryPoints: [path], outdir: "." });
      return { contents: (outputFiles[0]?.text ?? "").trim(), loader: "text" };
    }),
};

/** Writes the licences of the packages of which at least one byte is in `made`. */
function writeLicences(target: string, files: string, own: string, made: Metafile): void {
  const inputs = Object.values(made.outputs).flatMap((output) =>
    Object.entries(output.inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  const foreign = inputs.find((path) => path.startsWith(".."));
  if (foreign !== undefined) throw new Error(`${foreign} is bundled and lies beyond web/: its licence is unknown`);
  const packages = bundledPackages(inputs);
  const head = packages.length
    ? `${files} ${files.includes(" ") ? "contain" : "contains"} parts of these packages.\n`
    : `${own} contains no packages of others; its licence is that of barrage-server.\n`;
  writeFileSync(join(target, "LICENSES.txt"), [head, ...packages.map(licence)].join("\n----\n\n"));
}

async function page(target: string): Promise<void> {
  const result = await build({
    ...COMMON,
    entryPoints: { page: "src/page/main.ts", "page-style": "src/page/page.css", plot: "src/plot/chart.ts", "plot-style": "src/plot/plot.css" },
    plugins: [LATER],
    metafile: true,
    outdir: target,
  });
  const early = await build({ ...COMMON, format: "iife", entryPoints: { early: "src/page/early.ts" }, metafile: true, outdir: target });
  for (const file of [...result.outputFiles, ...early.outputFiles]) {
    const name = basename(file.path).replace("-style", "");
    writeFileSync(join(target, name), file.contents);
  }
  copyFileSync(join(ROOT, "index.html"), join(target, "index.html"));
  writeLicences(target, "page.js, plot.js and plot.css", "page.js", result.metafile);
}

async function widget(target: string): Promise<void> {
  const result = await build({ ...COMMON, entryPoints: { widget: "src/notebook/widget.ts" }, plugins: [STYLES], metafile: true, outdir: target });
  for (const file of result.outputFiles) writeFileSync(join(target, basename(file.path)), file.contents);
  writeLicences(target, "widget.js", "widget.js", result.metafile);
}

const WHAT: Readonly<Record<string, (target: string) => Promise<void>>> = { page, widget };
const make = WHAT[argv[2] ?? ""];
const target = argv[3];
if (make === undefined || target === undefined) {
  stderr.write("Usage: node build.ts page|widget FOLDER\n");
  exit(2);
}
mkdirSync(target, { recursive: true });
await make(resolve(target));
