// Operations of the server that a header's menu offers, such as sorting. Nothing is sorted in the browser: the view is opened
// anew with another query, and the server computes it.

import type { Column, Form } from "../cells/column.ts";
import type { Query } from "../wire/messages.ts";
import { picked, sorted } from "./query.ts";

/** Forms of columns of which the server picks rows by a cell. */
const PICKED: readonly Form[] = ["bool", "int", "float", "decimal", "text", "timestamp", "date"];

/** Whether rows can be picked by a cell of a column. */
export function canPick(column: Column, cell: string | null | undefined): boolean {
  return cell !== undefined && (cell === null || PICKED.includes(column.form));
}

export interface OperationEntry {
  readonly label: string;
  /** The query that the entry leads to; undefined: that would have too many parts. */
  readonly query: Query | undefined;
}

/**
 * The entries that a column's menu has: those for the operations that the server has announced.
 *
 * @param cell the active cell as plain text; null for null; undefined: none
 */
export function entriesFor(announced: readonly string[], column: string, cell: string | null | undefined, query: Query): readonly OperationEntry[] {
  const entries: OperationEntry[] = [];
  if (announced.includes("sort")) {
    entries.push({ label: "Sort rising", query: sorted(query, { column, descending: false }) });
    entries.push({ label: "Sort falling", query: sorted(query, { column, descending: true }) });
  }
  if (announced.includes("filter") && cell !== undefined) {
    entries.push({ label: "Only rows with this value", query: picked(query, { column, equals: cell }) });
  }
  return entries;
}
