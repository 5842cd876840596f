// Cells as text.

import type { Column, Value } from "./column.ts";
import type { Format } from "./format.ts";
import { dateText, durationText, timeText, timestampText } from "./moment.ts";
import { decimalText, floatText, grouped, scientificFloat, scientificText } from "./number.ts";
import { visible } from "./visible.ts";

/** Characters (code points) of a cell that the server has sent the beginning of. */
export const CUT_AT = 512;

/**
 * What is shown of a cell, on one line: exact to the last digit, unless `format` rounds. Null is "null", which painters set
 * apart by `value === null`; empty text is "". Characters that would not be seen, or would move others, are symbols.
 */
export function cellText(column: Column, value: Value, format: Format = {}): string {
  if (value === null) return "null";
  const text = textOf(column, value, format);
  return typeof value === "string" ? visible(text) : text;
}

/** What is copied of a cell: characters of text as they are, "" for null. */
export function plainText(column: Column, value: Value, format: Format = {}): string {
  return value === null ? "" : textOf(column, value, format);
}

/** Whether the server has sent only the beginning of the cell. The whole comes when asked for. */
export function isCut(column: Column, value: Value): boolean {
  return cut(column, value) !== undefined;
}

function textOf(column: Column, value: boolean | number | bigint | string, format: Format): string {
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value === "string") {
    if (column.form === "decimal") return decimal(value, format);
    const parts = cut(column, value);
    if (parts === undefined) return value;
    return `${parts.beginning}…${parts.length === undefined ? "" : ` (${grouped(parts.length)} characters)`}`;
  }
  switch (column.form) {
    case "timestamp":
      return timestampText(BigInt(value), column.unit ?? "ns", column.zone);
    case "date":
      return dateText(BigInt(value), column.unit ?? (column.type.startsWith("date64") ? "ms" : "D"));
    case "time":
      return timeText(BigInt(value), column.unit ?? "ns");
    case "duration":
      return durationText(BigInt(value), column.unit ?? "ns");
    default:
      return typeof value === "bigint" || column.form === "int" ? integer(String(value), format) : float(value, floatBits(column.type), format);
  }
}

function integer(text: string, format: Format): string {
  if (format.scientific === true) return scientificText(text, format.digits);
  return format.grouped === true ? grouped(text) : text;
}

function decimal(value: string, format: Format): string {
  if (format.scientific === true) return scientificText(decimalText(value), format.digits);
  const text = decimalText(value, format.digits);
  return format.grouped === true ? grouped(text) : text;
}

function float(value: number, bits: 16 | 32 | 64, format: Format): string {
  if (format.scientific === true) return scientificFloat(value, bits, format.digits);
  const text = floatText(value, bits, format.digits);
  return format.grouped === true ? grouped(text) : text;
}

function floatBits(type: string): 16 | 32 | 64 {
  if (type === "halffloat" || type === "float16") return 16;
  return type === "float" || type === "float32" ? 32 : 64;
}

/** The beginning of a cut cell, and the number of characters of the whole, if the server has counted them; undefined: the cell is whole. */
function cut(column: Column, value: Value): { beginning: string; length: string | undefined } | undefined {
  if (typeof value !== "string" || value.length <= CUT_AT) return undefined;
  if (column.form !== "text" && column.form !== "binary" && column.form !== "nested") return undefined;
  let end = 0; // in UTF-16
  for (let n = 0; n < CUT_AT; n += 1) end += (value.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  if (end >= value.length) return undefined;
  const rest = value.slice(end);
  return { beginning: value.slice(0, end), length: /^\d+$/.test(rest) ? rest : undefined };
}
