// Applies recorded frames to windows: `node replay.ts FILE`. FILE is JSON: a list of cases of {columns, limits, frames, looks},
// frames in base64, looks the numbers of frames after which the window is printed. Prints a list per case, of what was seen, or of
// {error} where a frame was refused, which ends the case.

import { readFileSync } from "node:fs";
import { argv, stdout } from "node:process";

import type { Column, Value } from "../../src/cells/column.ts";
import { WireError } from "../../src/wire/error.ts";
import { decodeFrame } from "../../src/wire/frame.ts";
import { type UpdateLimits, StreamReader } from "../../src/wire/update.ts";
import { TableWindow } from "../../src/window/window.ts";

interface Case {
  readonly columns: readonly Column[];
  readonly limits: UpdateLimits;
  readonly frames: readonly string[];
  readonly looks: readonly number[];
}

/** A value with its kind, so that no digit is lost in JSON. */
function tagged(value: Value | undefined, column: Column | undefined): unknown {
  if (value === undefined) return "missing";
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") return `text ${value}`;
  if (typeof value === "bigint" || column?.form !== "float") return `int ${value}`;
  if (Number.isNaN(value)) return "float nan";
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  return `float ${bits.getBigUint64(0).toString(16).padStart(16, "0")}`;
}

function seen(window: TableWindow, columns: readonly Column[]): unknown {
  const rows = Array.from({ length: window.count }, (_, n) => window.columns.map((column) => tagged(window.value(window.first + n, column), columns[column])));
  return { size: window.size, first: window.first, columns: window.columns, rows };
}

function replay({ columns, limits, frames, looks }: Case): unknown[] {
  const reader = new StreamReader(columns.length, limits);
  const window = new TableWindow(columns, limits.rows);
  const found: unknown[] = [];
  const wanted = new Set(looks);
  for (const [number, frame] of frames.entries()) {
    try {
      const bytes = Buffer.from(frame, "base64");
      const update = reader.take(decodeFrame(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)));
      if (update !== undefined) window.apply(update);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return [...found, { error: error.message }];
    }
    if (wanted.has(number)) found.push(seen(window, columns));
  }
  return found;
}

const cases = JSON.parse(readFileSync(argv[2] ?? "", "utf8")) as readonly Case[];
stdout.write(JSON.stringify(cases.map(replay)));
