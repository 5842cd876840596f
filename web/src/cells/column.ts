// What a column is, and what a cell can hold. This room knows nothing of the wire.

/** A cell: null, or the value in the form in which it travels (see {@link Form}). Integers of 64 bits are bigint. */
export type Value = null | boolean | number | bigint | string;

/** How values of a column are written out. */
export type Form =
  | "bool"
  | "int"
  | "float"
  | "decimal"
  | "text"
  | "binary"
  | "nested"
  | "timestamp"
  | "date"
  | "time"
  | "duration"
  | "null";

export const FORMS: readonly Form[] = [
  "bool", "int", "float", "decimal", "text", "binary", "nested", "timestamp", "date", "time", "duration", "null",
];

/** The unit of a timestamp, time or duration; of a date: "D" for days, "ms" for milliseconds. */
export type Unit = "D" | "s" | "ms" | "us" | "ns";

/** A column of a table. `type` is the name that Arrow gives its type, such as "timestamp[ns, tz=UTC]". */
export interface Column {
  readonly name: string;
  readonly type: string;
  readonly form: Form;
  readonly unit?: Unit;
  readonly zone?: string;
  /** Whether it is one of those whose values identify a row. */
  readonly key?: true;
}

/** Whether values of the column have an order that "up" and "down" make sense in. */
export function isOrdered(column: Column): boolean {
  return !["text", "binary", "nested", "null"].includes(column.form);
}

/** Whether cells of the column are aligned to the right. */
export function isNumber(column: Column): boolean {
  return column.form === "int" || column.form === "float" || column.form === "decimal";
}
