// The connection to the server.

import type { Limits, TableInfo } from "../wire/messages.ts";
import type { OpenView, View, ViewListener } from "./view.ts";

/** What the link needs of a websocket; the browser's has it. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string): void;
  close(): void;
}

/** Time in ms, and timers; tests have their own. */
export interface Clock {
  now(): number;
  after(ms: number, run: () => void): unknown;
  cancel(timer: unknown): void;
}

export type LinkState = "connecting" | "live" | "lost" | "refused";

/** One websocket, which comes back by itself and opens the same views again. */
export class Link {
  state: LinkState = "connecting";
  /** When the connection was lost: ms of the clock. */
  lostSince: number | undefined;
  /** Why the server has refused the log-in, as a sentence. */
  refusal: string | undefined;
  /** Tables by name. */
  tables: ReadonlyMap<string, TableInfo> = new Map<string, TableInfo>();
  limits: Limits = { streams: 16, rows: 10_000, columns: 500, cells: 100_000 };
  /** Operations that the server announces, such as "sort". */
  operations: readonly string[] = [];
  server = "";

  constructor(url: string, token: string | undefined, makeSocket?: (url: string) => WebSocketLike, clock?: Clock) {
    void [url, token, makeSocket, clock];
  }

  /** Call `listener` after the state or the tables have changed; the result ends that. */
  onChange(listener: () => void): () => void {
    return () => void listener;
  }

  /** Look at a table. */
  open(table: string, view: View, listener: ViewListener): OpenView {
    void [table, view, listener];
    throw new Error("not built yet");
  }

  close(): void {
    this.state = "lost";
  }
}
