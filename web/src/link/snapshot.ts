// Rows that are read once, as for copying.

import type { Frame } from "../wire/frame.ts";
import type { Limits, PageMessage, ServerMessage } from "../wire/messages.ts";
import type { UpdateLimits } from "../wire/update.ts";
import type { Fetched } from "../window/fetched.ts";
import { opening } from "./live_view.ts";
import { Stream } from "./stream.ts";
import type { Target } from "./view.ts";

/** One piece of a table, from `open` of kind "snapshot" to `ended`. */
export class Snapshot {
  readonly result: Promise<Fetched>;
  private readonly stream: Stream;
  private readonly columns: readonly number[];
  private readonly send: (message: PageMessage) => void;
  private step = -1;
  private resolve: (fetched: Fetched) => void = () => undefined;
  private reject: (error: Error) => void = () => undefined;

  constructor(number: number, of: Target, columns: readonly number[], first: number, count: number, limits: Limits, send: (message: PageMessage) => void) {
    this.stream = new Stream(number, limits);
    this.columns = columns;
    this.send = send;
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    const sorted = [...new Set(columns)].sort((left, right) => left - right);
    send({ type: "open", stream: number, kind: "snapshot", ...opening(of), columns: sorted, first, count, reverse: false });
  }

  opened(message: ServerMessage & { readonly type: "opened" }): void {
    this.stream.opened(message);
  }

  chose(columns: readonly number[]): void {
    this.stream.chose(columns);
  }

  frame(frame: Frame): void {
    const applied = this.stream.take(frame);
    if (applied === undefined) return;
    this.step = applied.step;
    this.send({ type: "ack", stream: this.stream.number, updates: 1 });
  }

  ended(text: string | undefined): void {
    const { window } = this.stream;
    if (text !== undefined || window === undefined) {
      this.reject(new Error(text ?? "The server has sent no rows."));
      return;
    }
    const rows = Array.from({ length: window.count }, (_, n) => this.columns.map((column) => window.value(window.first + n, column) ?? null));
    this.resolve({ rows, versions: new Set([this.step]) });
  }
}

/** Ranges of rows, each small enough for one stream of `columns` columns. */
export function* pieces(first: number, count: number, columns: number, limits: UpdateLimits): Generator<{ first: number; count: number }, void> {
  const most = Math.max(1, Math.min(limits.rows, Math.floor(limits.cells / Math.max(1, columns))));
  for (let done = 0; done < count; done += most) yield { first: first + done, count: Math.min(most, count - done) };
}
