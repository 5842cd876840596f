// Text frames from the server, checked.

import { type Column, FORMS, type Form, type Unit } from "../cells/column.ts";
import { WireError } from "./error.ts";
import type { Health, Limits, ServerMessage, TableChange } from "./messages.ts";

type Fields = Readonly<Record<string, unknown>>;

const UNITS: readonly Unit[] = ["D", "s", "ms", "us", "ns"];

/** The message in a text frame; undefined: of a type that this page does not know, and need not. WireError: damaged. */
export function parseMessage(data: string): ServerMessage | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(data);
  } catch {
    throw new WireError("A text frame is no JSON.");
  }
  const from = fields(parsed);
  const type = text(from, "type");
  switch (type) {
    case "welcome":
      return { type, version: count(from, "version"), server: text(from, "server"), limits: limits(fields(from["limits"])), operations: texts(from["operations"]) };
    case "refused":
      return { type, error: text(from, "error"), text: text(from, "text") };
    case "tables":
      return { type, all: from["all"] === true, tables: list(from["tables"] ?? []).map(table), dropped: texts(from["dropped"] ?? []) };
    case "opened":
      return { type, stream: count(from, "stream"), columns: list(from["columns"]).map(column), kind: text(from, "kind"), rows: count(from, "rows"), ...plot(from["plot"]) };
    case "columns":
      return { type, stream: count(from, "stream"), columns: rising(from["columns"]) };
    case "ended": {
      const stream = count(from, "stream");
      return from["error"] === undefined ? { type, stream } : { type, stream, error: text(from, "error"), text: text(from, "text") };
    }
    case "cell":
      return { type, request: count(from, "request"), text: from["text"] === null ? null : text(from, "text") };
    case "failed":
      return { type, request: count(from, "request"), error: text(from, "error"), text: text(from, "text") };
    case "health":
      return { type, health: from["error"] === undefined ? health(from) : text(from, "text") };
    case "pong":
      return { type, n: count(from, "n") };
    case "beat":
      return { type };
    default:
      return undefined;
  }
}

function plot(value: unknown): { readonly plot?: { readonly sorted: boolean } } {
  return value === undefined || value === null ? {} : { plot: { sorted: fields(value)["sorted"] === true } };
}

function limits(from: Fields): Limits {
  return { streams: count(from, "streams"), rows: count(from, "rows"), columns: count(from, "columns"), cells: count(from, "cells") };
}

function health(from: Fields): Health {
  const rows = <T>(name: string, read: (row: readonly unknown[]) => T): T[] => list(from[name]).map((row) => read(list(row)));
  return {
    uptime: measure(from["uptime"]),
    step: count(from, "step"),
    memory: from["memory"] === null ? undefined : count(from, "memory"),
    cores: from["cores"] === null ? undefined : measure(from["cores"]),
    threads: count(from, "threads"),
    evicted: count(from, "evicted"),
    uses: rows("counts", ([name, now, most]) => ({ name: word(name), now: measure(now), most: most === null ? undefined : measure(most) })),
    tables: rows("tables", ([name, kind, size, bytes, followers]) => ({ name: word(name), kind: word(kind), rows: measure(size), bytes: measure(bytes), followers: measure(followers) })),
    followers: rows("followers", ([name, user, peer, behind, messages, bytes, open, rests]) => ({
      table: word(name), user: word(user), peer: word(peer), behind: measure(behind), messages: measure(messages), bytes: measure(bytes), open: measure(open), rests: rests === true,
    })),
    stuck: rows("stuck", ([name, kind, user, awaited, seconds]) => ({ table: word(name), kind: word(kind), user: word(user), awaited: word(awaited), seconds: measure(seconds) })),
    computed: rows("computed", ([name, operation, user, size, bytes, seconds, failed]) => ({
      name: word(name), operation: word(operation), user: word(user), rows: measure(size), bytes: measure(bytes), seconds: measure(seconds), failed: failed === true,
    })),
  };
}

function word(value: unknown): string {
  if (typeof value !== "string") throw new WireError("The state of the server has something else than text.");
  return value;
}

function measure(value: unknown): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new WireError("The state of the server has something else than a number.");
  return value;
}

function table(value: unknown): TableChange {
  const from = fields(value);
  const rate = from["rate"];
  if (rate !== undefined && (typeof rate !== "number" || !(rate >= 0))) throw new WireError("A table's rate is no number.");
  const rows = from["rows"] === undefined ? undefined : count(from, "rows");
  const about = { name: text(from, "name"), kind: text(from, "kind"), rows, rate };
  if (from["columns"] === undefined) return about;
  const columns = list(from["columns"]).map((pair) => {
    const [name, type] = texts(pair);
    if (name === undefined || type === undefined) throw new WireError("A column is not a name and a type.");
    return [name, type] as const;
  });
  return { ...about, columns, width: from["width"] === undefined ? columns.length : count(from, "width") };
}

function column(value: unknown): Column {
  const from = fields(value);
  const form = from["form"];
  const { unit, zone } = from;
  if (!isForm(form)) throw new WireError(`A column has the unknown form ${String(form)}.`);
  if (unit !== undefined && unit !== null && !isUnit(unit)) throw new WireError("A column has an unknown unit.");
  return {
    name: text(from, "name"),
    type: text(from, "type"),
    form,
    ...(isUnit(unit) ? { unit } : {}),
    ...(typeof zone === "string" && zone !== "" ? { zone } : {}),
    ...(from["key"] === true ? { key: true } : {}),
  };
}

function isForm(value: unknown): value is Form {
  return FORMS.some((form) => form === value);
}

function isUnit(value: unknown): value is Unit {
  return UNITS.some((unit) => unit === value);
}

function fields(value: unknown): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new WireError("A message is no object.");
  return value as Fields;
}

function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new WireError("A message has no list where it needs one.");
  return value as readonly unknown[];
}

function texts(value: unknown): string[] {
  return list(value).map((item) => {
    if (typeof item !== "string") throw new WireError("A list in a message has something else than text.");
    return item;
  });
}

/** Column numbers, each larger than the one before. */
function rising(value: unknown): number[] {
  let last = -1;
  return list(value).map((item) => {
    if (typeof item !== "number" || !Number.isSafeInteger(item) || item <= last) throw new WireError("Column numbers do not rise.");
    last = item;
    return item;
  });
}

function text(from: Fields, name: string): string {
  const value = from[name];
  if (typeof value !== "string") throw new WireError(`A message has no text "${name}".`);
  return value;
}

/** A whole number from 0 to 2^53. */
function count(from: Fields, name: string): number {
  const value = from[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new WireError(`A message has no count "${name}".`);
  return value;
}
