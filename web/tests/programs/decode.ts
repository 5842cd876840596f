// Decodes what Python has encoded: `node decode.ts FILE`. FILE is JSON: {rowSets, metadata, schema, texts}, the first two lists in base64.
// Prints what was read, {error} where it was refused.

import { readFileSync } from "node:fs";
import { argv, stdout } from "node:process";

import type { Column } from "../../src/cells/column.ts";
import { cellText } from "../../src/cells/text.ts";
import { WireError } from "../../src/wire/error.ts";
import { decodeMetadata } from "../../src/wire/metadata.ts";
import { type RowSet, decodeRowSet } from "../../src/wire/rowset.ts";

interface Input {
  readonly rowSets: readonly string[];
  readonly metadata: readonly string[];
  readonly texts: readonly { readonly column: Column; readonly values: readonly string[] }[];
}

function tried(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return { error: error.message };
  }
}

function bytes(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, "base64"));
}

function ranges({ starts, ends }: RowSet): unknown {
  return starts.map((start, n) => [start, ends[n]]);
}

function metadata(base64: string): unknown {
  const found = decodeMetadata(bytes(base64));
  const { added, removed, modified, viewport } = found;
  return {
    ...found,
    columns: found.columns ?? null,
    added: ranges(added),
    removed: ranges(removed),
    modified: modified.map(ranges),
    viewport: viewport === undefined ? null : ranges(viewport),
  };
}

const { rowSets, metadata: messages, texts } = JSON.parse(readFileSync(argv[2] ?? "", "utf8")) as Input;
stdout.write(
  JSON.stringify({
    rowSets: rowSets.map((data) => tried(() => ranges(decodeRowSet(bytes(data))))),
    metadata: messages.map((data) => tried(() => metadata(data))),
    texts: texts.map(({ column, values }) => values.map((value) => cellText(column, column.form === "float" ? Number(value) : BigInt(value)))),
  }),
);
