// Operations of the server that a header's menu offers, such as sorting. Nothing is sorted in the browser: an operation
// makes another table on the server, and the page asks for that one.

/** An operation on one column of the table in view. */
export interface Operation {
  readonly name: "sort" | "filter";
  readonly column: string;
  /** Of sorting. */
  readonly descending?: boolean;
  /** Of filtering: the value that rows must have, as text. */
  readonly equals?: string;
}

export interface OperationEntry {
  readonly label: string;
  readonly operation: Operation;
}

/** Names the table that an operation on `table` makes, as the link's `open` takes it. Rejects with a sentence. */
export type Derive = (table: string, operation: Operation) => Promise<string>;

/** The entries that a column's menu has: those for the operations that the server has announced. */
export function entriesFor(announced: readonly string[], column: string, activeText: string | undefined): readonly OperationEntry[] {
  const entries: OperationEntry[] = [];
  if (announced.includes("sort")) {
    entries.push({ label: "Sort rising", operation: { name: "sort", column } });
    entries.push({ label: "Sort falling", operation: { name: "sort", column, descending: true } });
  }
  if (announced.includes("filter") && activeText !== undefined) {
    entries.push({ label: "Only rows with this value", operation: { name: "filter", column, equals: activeText } });
  }
  return entries;
}

/** Until the wire has a frame for operations: says so. */
export const notYet: Derive = (_table, operation) =>
  Promise.reject(new Error(`The server announces "${operation.name}", but this page does not know how to ask for it. Reload the page.`));
