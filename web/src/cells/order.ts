// Which of two values is larger.

import { type Column, type Value, isOrdered } from "./column.ts";
import { plainDecimal } from "./number.ts";

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?$/;

/** 1: `after` is larger than `before`, -1: smaller, 0: neither, or there is no telling. */
export function direction(column: Column, before: Value, after: Value): -1 | 0 | 1 {
  if (!isOrdered(column) || before === null || after === null) return 0;
  if (column.form === "decimal") return decimals(String(before), String(after));
  if (typeof before === "boolean" || typeof after === "boolean" || typeof before !== typeof after) return 0;
  return before < after ? 1 : before > after ? -1 : 0;
}

/** The same for decimals as text, however many digits they have. */
function decimals(before: string, after: string): -1 | 0 | 1 {
  const [left, right] = [DECIMAL.exec(plainDecimal(before)), DECIMAL.exec(plainDecimal(after))];
  if (left === null || right === null) return 0;
  const places = Math.max(left[3]?.length ?? 0, right[3]?.length ?? 0);
  const [a, b] = [scaled(left, places), scaled(right, places)];
  return a < b ? 1 : a > b ? -1 : 0;
}

function scaled([, sign, whole = "", fraction = ""]: readonly string[], places: number): bigint {
  const digits = BigInt(whole + fraction.padEnd(places, "0"));
  return sign === "-" ? -digits : digits;
}
