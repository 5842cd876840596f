// Text frames: their types in both directions.

import type { Column } from "../cells/column.ts";

/** The subprotocol of the websocket. */
export const SUBPROTOCOL = "barrage-page.1";

/** What one websocket may have open. */
export interface Limits {
  readonly streams: number;
  readonly rows: number;
  readonly columns: number;
  readonly cells: number;
}

/** A table in the list of tables. `rows` and `rate`, rows changed a second, are undefined of a table that is seen in part. `columns`: name and type, at most the first 100 of `width`. */
export interface TableInfo {
  readonly name: string;
  readonly kind: string;
  readonly rows: number | undefined;
  readonly rate: number | undefined;
  readonly columns: readonly (readonly [name: string, type: string])[];
  readonly width: number;
}

/** A table that is new or has changed; `columns` and `width` only when they are new or changed. */
export interface TableChange {
  readonly name: string;
  readonly kind: string;
  readonly rows: number | undefined;
  readonly rate: number | undefined;
  readonly columns?: readonly (readonly [name: string, type: string])[];
  readonly width?: number;
}

/** What clients use up: `now` of `most`; undefined: no limit. */
export interface Use {
  readonly name: string;
  readonly now: number;
  readonly most: number | undefined;
}

/** The state of the server. Times in seconds, sizes in bytes. The lists name the largest tables, and who is behind most. */
export interface Health {
  readonly uptime: number;
  readonly step: number;
  readonly memory: number | undefined;
  /** Processors in use since the last message. */
  readonly cores: number | undefined;
  readonly threads: number;
  readonly evicted: number;
  readonly uses: readonly Use[];
  readonly tables: readonly { readonly name: string; readonly kind: string; readonly rows: number; readonly bytes: number; readonly followers: number }[];
  readonly followers: readonly {
    readonly table: string; readonly user: string; readonly peer: string; readonly behind: number; readonly messages: number; readonly bytes: number; readonly open: number;
    /** Whether it takes nothing now: it is paused, hidden, out of view, or has updates to read. */
    readonly rests: boolean;
  }[];
  readonly stuck: readonly { readonly table: string; readonly kind: string; readonly user: string; readonly awaited: string; readonly seconds: number }[];
  readonly computed: readonly {
    readonly name: string; readonly operation: string; readonly user: string; readonly rows: number; readonly bytes: number; readonly seconds: number; readonly failed: boolean;
  }[];
}

export type ServerMessage =
  | { readonly type: "welcome"; readonly version: number; readonly server: string; readonly limits: Limits; readonly operations: readonly string[] }
  | { readonly type: "refused"; readonly error: string; readonly text: string }
  | { readonly type: "tables"; readonly all: boolean; readonly tables: readonly TableChange[]; readonly dropped: readonly string[] }
  | { readonly type: "opened"; readonly stream: number; readonly columns: readonly Column[]; readonly kind: string; readonly rows: number; readonly plot?: { readonly sorted: boolean } }
  | { readonly type: "columns"; readonly stream: number; readonly columns: readonly number[] }
  | { readonly type: "ended"; readonly stream: number; readonly error?: string; readonly text?: string }
  | { readonly type: "cell"; readonly request: number; readonly text: string | null }
  | { readonly type: "failed"; readonly request: number; readonly error: string; readonly text: string }
  | { readonly type: "health"; readonly health: Health | string }
  | { readonly type: "pong"; readonly n: number }
  | { readonly type: "beat" };

/** A column to sort by. */
export interface SortKey {
  readonly column: string;
  readonly descending: boolean;
}

/** Picks the rows whose cell is the one that is written so; null: null. */
export interface CellFilter {
  readonly column: string;
  readonly equals: string | null;
}

/** Some rows of a table, in an order. The server picks and sorts. `where`: formulas that rows must meet. */
export interface Query {
  readonly where: readonly string[];
  readonly filters: readonly CellFilter[];
  readonly sort: readonly SortKey[];
}

/** Which part of a table is asked for. `columns` absent: all. `reverse`: `first` counts from the end. */
export interface ViewRequest {
  readonly columns?: readonly number[];
  readonly first: number;
  readonly count: number;
  readonly reverse: boolean;
}

/** The points of a plot instead of rows. `x` absent: over the number of the row. Places and distances are texts of numbers in the unit of `x`. */
export interface PlotRequest {
  readonly x?: string;
  readonly ys: readonly string[];
  readonly pixels: number;
  readonly first?: string;
  readonly last?: string;
  readonly tail_rows?: number;
  readonly tail_x?: string;
}

export type PageMessage =
  | { readonly type: "hello"; readonly version: 1; readonly token?: string }
  | ({ readonly type: "open"; readonly stream: number; readonly kind: "follow" | "snapshot"; readonly table?: string; readonly ticket?: string; readonly interval?: number; readonly plot?: PlotRequest } & ViewRequest & Partial<Query>)
  | ({ readonly type: "move"; readonly stream: number } & ViewRequest)
  | { readonly type: "pause" | "resume" | "close"; readonly stream: number }
  | { readonly type: "ack"; readonly stream: number; readonly updates: number }
  | { readonly type: "cell"; readonly request: number; readonly stream: number; readonly row: number; readonly column: number }
  | { readonly type: "health"; readonly on: boolean }
  | { readonly type: "ping"; readonly n: number };
