// Cells as text.

import type { Column, Value } from "./column.ts";

/** How numbers are shown. */
export interface Format {
  /** Digits after the point of floats and decimals; absent: all there are. */
  readonly digits?: number;
  /** Whether thousands are grouped. */
  readonly grouped?: boolean;
}

/** What is shown of a cell: exact to the last digit unless `format` rounds; characters that would not be seen as symbols. */
export function cellText(column: Column, value: Value, format?: Format): string {
  void column;
  void format;
  return String(value);
}

/** What is copied of a cell: as {@link cellText}, with text as it is; "" for null. */
export function plainText(column: Column, value: Value, format?: Format): string {
  return value === null ? "" : cellText(column, value, format);
}

/** Whether the server has sent only the beginning of the cell. The whole comes when asked for. */
export function isCut(column: Column, value: Value): boolean {
  void column;
  void value;
  return false;
}
