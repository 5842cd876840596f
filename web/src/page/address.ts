// The view that the address names: table, columns, position, follow. Never the token.

import { formatWord, parseFormat } from "../cells/format.ts";
import type { Format } from "../cells/format.ts";
import { MOST_SERIES, parseRange, rangeText } from "../plot/spec.ts";
import type { PlotSpec } from "../plot/spec.ts";
import { MOST_NAMED_COLUMNS } from "../views/address.ts";
import type { Address, NumberFormats } from "../views/address.ts";
import { isEmpty, read, write } from "../views/query.ts";
import type { Query } from "../wire/messages.ts";

/** The address that a fragment stands for. What it does not understand it leaves out. */
export function parseAddress(hash: string): Address {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const table = fields.get("table");
  if (table === null) return fields.has("health") ? { health: true } : {};
  const address: { table: string; row?: number; follow?: boolean; columns?: string[]; formats?: NumberFormats; query?: Query; plot?: PlotSpec } = { table };
  const query = read(fields);
  if (!isEmpty(query)) address.query = query;
  const row = fields.get("row");
  if (row !== null && /^[0-9]{1,16}$/.test(row)) {
    const number = Number(row) - 1;
    if (number >= 0 && Number.isSafeInteger(number)) address.row = number;
  }
  const follow = fields.get("follow");
  if (follow === "end") address.follow = true;
  else if (address.row !== undefined) address.follow = false;
  const columns = fields.getAll("column");
  if (columns.length > 0) address.columns = columns.slice(0, MOST_NAMED_COLUMNS);
  const formats = formatsOf(fields.getAll("format"));
  if (formats !== undefined) address.formats = formats;
  if (fields.has("plot")) {
    const x = fields.get("x");
    address.plot = { ...(x === null ? {} : { x }), ys: fields.getAll("y").slice(0, MOST_SERIES), range: parseRange(fields.get("plot") ?? "") };
  }
  return address;
}

/** The fragment of an address, with "#"; rows count from 1. */
export function formatAddress(address: Address): string {
  if (address.table === undefined) return address.health === true ? "#health" : "#";
  const fields = new URLSearchParams();
  fields.set("table", address.table);
  if (address.follow === true) fields.set("follow", "end");
  else if (address.row !== undefined) fields.set("row", String(address.row + 1));
  for (const column of (address.columns ?? []).slice(0, MOST_NAMED_COLUMNS)) fields.append("column", column);
  const { others, columns: formatted = [] } = address.formats ?? {};
  if (others !== undefined) fields.append("format", formatWord(others));
  for (const [column, format] of [...formatted].slice(0, MOST_NAMED_COLUMNS)) fields.append("format", `${formatWord(format)} ${column}`);
  if (address.query !== undefined) write(address.query, fields);
  if (address.plot !== undefined) {
    fields.set("plot", rangeText(address.plot.range));
    if (address.plot.x !== undefined) fields.set("x", address.plot.x);
    for (const y of address.plot.ys) fields.append("y", y);
  }
  return `#${fields.toString()}`;
}

/** From texts such as "2g", for all columns but those that are named, as in "2e price". undefined: there are none. */
function formatsOf(texts: readonly string[]): NumberFormats | undefined {
  let others: Format | undefined;
  const columns = new Map<string, Format>();
  for (const text of texts) {
    const [word = ""] = text.split(" ", 1);
    const format = parseFormat(word);
    if (format === undefined) continue;
    if (word === text) others = format;
    else if (columns.size < MOST_NAMED_COLUMNS) columns.set(text.slice(word.length + 1), format);
  }
  if (others === undefined && columns.size === 0) return undefined;
  return others === undefined ? { columns } : { others, columns };
}
