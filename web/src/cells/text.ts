// Cells as text.

import { type Column, type Value, isNumber } from "./column.ts";
import { dateText, durationText, timeText, timestampText } from "./moment.ts";
import { decimalText, floatText, grouped } from "./number.ts";
import { visible } from "./visible.ts";

/** How numbers are shown. */
export interface Format {
  /** Digits after the point of floats and decimals; absent: all there are. */
  readonly digits?: number;
  /** Whether thousands are grouped by commas. */
  readonly grouped?: boolean;
}

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
    if (column.form === "decimal") return number(decimalText(value, format.digits), format);
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
      if (typeof value === "bigint") return number(String(value), format);
      if (column.form === "int") return number(String(value), format);
      return number(floatText(value, floatBits(column.type), format.digits), format);
  }

  function number(text: string, { grouped: wanted }: Format): string {
    return wanted === true && isNumber(column) ? grouped(text) : text;
  }
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
