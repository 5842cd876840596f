// One table that is looked at: what callers see of it.

import type { Column } from "../cells/column.ts";
import type { Fetched } from "../window/fetched.ts";
import type { TableWindow } from "../window/window.ts";
import type { PlotRequest, Query } from "../wire/messages.ts";

/** Which part of a table is looked at. `interval`: least time between updates in ms; absent: the server's. `plot`: of the points of a plot of the table; it stays. */
export interface View {
  readonly columns: readonly number[] | undefined;
  readonly first: number;
  readonly count: number;
  readonly reverse: boolean;
  readonly interval?: number;
  readonly plot?: PlotRequest;
}

/** What is looked at: a table, or what a Flight ticket in base64 stands for, of which `table` is a title; `query`: some of its rows, in an order. */
export interface Target {
  readonly table: string;
  readonly ticket: string | undefined;
  readonly query: Query | undefined;
}

/** Milliseconds without an update after which what is shown is not behind: the figure of the last one is old. */
export const QUIET_MS = 2_000;

/** Called after anything has changed: paint again. */
export type ViewListener = () => void;

/** A view that is open. It stays through lost connections, and shows meanwhile what it had. */
export interface OpenView {
  readonly table: string;
  /** undefined: nothing has come yet. A new object after a reconnection, and then only once it has its rows. */
  readonly window: TableWindow | undefined;
  /** All columns of the table; empty before the server has named them. */
  readonly columns: readonly Column[];
  /** "keyed", "append", "blink", "ring", "static" ...; "" before it is known. */
  readonly kind: string;
  /** Whether the server sorts the rows of a plot by its x: it does not know that they are in this order. */
  readonly sorted: boolean;
  /** Why the view has ended, as a sentence. It opens again when the table or the connection comes back. */
  readonly error: string | undefined;
  /** Whether what is shown is old: the connection is lost, or its rows have not come again yet. */
  readonly stale: boolean;
  readonly paused: boolean;
  /** How far what is shown was behind when it was painted, or is, before; in ms. undefined: unknown, or nothing has come for a while. */
  lag(): number | undefined;
  /** Look elsewhere. One request is under way at a time; of further ones the newest waits. */
  move(view: View): void;
  /** All updates applied so far are painted. */
  painted(): void;
  pause(): void;
  resume(): void;
  /** The whole text of a cell at an absolute position; null for null. Rejects with an Error that has a sentence. */
  cell(row: number, column: number): Promise<string | null>;
  /** The version of the table that the window shows: a cycle of the server; undefined: nothing has come. */
  readonly step: number | undefined;
  /** Rows beyond the window: one array per row, in the order of `columns`. Rejects with an Error that has a sentence. */
  snapshot(columns: readonly number[], first: number, count: number): Promise<Fetched>;
  close(): void;
}
