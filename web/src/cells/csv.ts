// Cells as fields of CSV (RFC 4180) and of tab-separated text.

const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;
const NUMBER = /^[+-]?(?:\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|Infinity)$/i;

/**
 * One line, without its end. null is an empty field, empty text a quoted one. `spreadsheet`: fields that a spreadsheet would
 * take for a formula begin with an apostrophe.
 */
export function csvLine(fields: readonly (string | null)[], spreadsheet: boolean): string {
  return fields.map((field) => (field === null ? "" : quoted(spreadsheet ? harmless(field) : field, /[",\r\n]|^$|^\s|\s$/))).join(",");
}

/** One line of tab-separated text, without its end, as spreadsheets paste it. */
export function tabLine(fields: readonly (string | null)[]): string {
  return fields.map((field) => quoted(field ?? "", /[\t\r\n]|^"/)).join("\t");
}

function quoted(field: string, when: RegExp): string {
  return when.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

function harmless(field: string): string {
  return FORMULA.test(field) && !NUMBER.test(field) ? `'${field}` : field;
}
