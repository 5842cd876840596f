// Rows picked and sorted by the server: what a view asks for beside its table, and how the address says it.

import type { CellFilter, Query, SortKey } from "../wire/messages.ts";

/** Keys of an order, conditions and filters that a view has at most. */
export const MOST_PARTS = 8;

/** What a user reads who asks for more conditions or filters. */
export const FULL = `A view has at most ${MOST_PARTS} conditions and ${MOST_PARTS} picked values. Take one away, or join two conditions with &&.`;

export const NOTHING: Query = { where: [], filters: [], sort: [] };

export function isEmpty(query: Query): boolean {
  return query.where.length + query.filters.length + query.sort.length === 0;
}

/** Sorted by a column first, and as before where that has equal cells. A key too many, the least significant, is dropped. */
export function sorted(query: Query, key: SortKey): Query {
  const others = query.sort.filter(({ column }) => column !== key.column);
  return { ...query, sort: [key, ...others].slice(0, MOST_PARTS) };
}

/** With one more filter; undefined: there are too many. */
export function picked(query: Query, filter: CellFilter): Query | undefined {
  const others = query.filters.filter(({ column, equals }) => column !== filter.column || equals !== filter.equals);
  return others.length >= MOST_PARTS ? undefined : { ...query, filters: [...others, filter] };
}

/** With one more condition, a formula; undefined: there are too many. */
export function where(query: Query, formula: string): Query | undefined {
  const text = formula.trim();
  if (text === "" || query.where.includes(text)) return query;
  return query.where.length >= MOST_PARTS ? undefined : { ...query, where: [...query.where, text] };
}

/** With another formula in place of the condition number `n`; without that condition if the formula is empty. */
export function rewritten(query: Query, n: number, formula: string): Query {
  const text = formula.trim();
  if (text === query.where[n]) return query;
  const conditions = query.where.map((other, at) => (at === n ? text : other));
  return { ...query, where: [...new Set(conditions)].filter((other) => other !== "") };
}

/** A part of a query as a user reads it, and the query without it. */
export interface Part {
  readonly text: string;
  readonly without: Query;
  /** The number of the condition that it is; undefined: it is none. */
  readonly condition?: number;
}

/** All parts; `name` shows a column's name, `value` a cell's. */
export function parts(query: Query, name: (column: string) => string, value: (text: string) => string): readonly Part[] {
  const except = <T>(list: readonly T[], n: number): T[] => list.filter((_, other) => other !== n);
  return [
    ...query.where.map((text, n) => ({ text: `where ${value(text)}`, without: { ...query, where: except(query.where, n) }, condition: n })),
    ...query.filters.map(({ column, equals }, n) => ({
      text: equals === null ? `${name(column)} is null` : `${name(column)} is ${equals === "" ? "empty" : value(equals)}`,
      without: { ...query, filters: except(query.filters, n) },
    })),
    ...query.sort.map(({ column, descending }, n) => ({
      text: `${n === 0 ? "sorted by" : "then by"} ${name(column)} ${descending ? "\u2193" : "\u2191"}`,
      without: { ...query, sort: except(query.sort, n) },
    })),
  ];
}

/** Puts the query into the fields of an address. */
export function write(query: Query, fields: URLSearchParams): void {
  for (const text of query.where) fields.append("where", text);
  for (const { column, equals } of query.filters) fields.append("pick", JSON.stringify([column, equals]));
  for (const { column, descending } of query.sort) fields.append(descending ? "sort-down" : "sort", column);
}

/** The query in the fields of an address. What it does not understand it leaves out. */
export function read(fields: URLSearchParams): Query {
  const filters: CellFilter[] = [];
  for (const text of fields.getAll("pick")) {
    const filter = filterOf(text);
    if (filter !== undefined) filters.push(filter);
  }
  const sort: SortKey[] = [];
  for (const [field, column] of fields) {
    if ((field === "sort" || field === "sort-down") && column !== "") sort.push({ column, descending: field === "sort-down" });
  }
  return {
    where: fields.getAll("where").filter((text) => text !== "").slice(0, MOST_PARTS),
    filters: filters.slice(0, MOST_PARTS),
    sort: sort.slice(0, MOST_PARTS),
  };
}

function filterOf(text: string): CellFilter | undefined {
  try {
    const found: unknown = JSON.parse(text);
    if (!Array.isArray(found) || found.length !== 2) return undefined;
    const [column, equals] = found as readonly unknown[];
    if (typeof column !== "string" || column === "" || !(typeof equals === "string" || equals === null)) return undefined;
    return { column, equals };
  } catch {
    return undefined;
  }
}
