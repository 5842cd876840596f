// A view through any number of connections.

import type { Column } from "../cells/column.ts";
import type { Frame } from "../wire/frame.ts";
import type { Limits, PageMessage, Query, ServerMessage, ViewRequest } from "../wire/messages.ts";
import type { Fetched } from "../window/fetched.ts";
import type { TableWindow } from "../window/window.ts";
import { Stream } from "./stream.ts";
import { QUIET_MS } from "./view.ts";
import type { OpenView, Target, View, ViewListener } from "./view.ts";

/** Milliseconds that are allowed for the painting of two updates. */
const PAINTING_MS = 50;

/** What a view needs of the link. */
export interface ViewHost {
  readonly limits: Limits;
  readonly isLive: boolean;
  now(): number;
  /** Time in ms that a frame takes from the server; undefined: unknown. */
  delay(): number | undefined;
  send(message: PageMessage): void;
  /** A number that no stream of this link has had. */
  nextStream(): number;
  requestCell(stream: number, row: number, column: number): Promise<string | null>;
  snapshot(of: LiveView, columns: readonly number[], first: number, count: number): Promise<Fetched>;
  closed(view: LiveView): void;
}

export class LiveView implements OpenView {
  readonly about: Target;
  private readonly host: ViewHost;
  private readonly listener: ViewListener;
  private asked: View;
  private waiting: View | undefined;
  private isUnderWay = false;
  private stream: Stream | undefined;
  private shown: TableWindow | undefined;
  private stepNow: number | undefined;
  private heads: readonly Column[] = [];
  private kindNow = "";
  private isSorted = false;
  private problem: string | undefined;
  private isPaused = false;
  private isServerPaused = false; // it makes nothing then, not even the answer to a move
  private isClosed = false;
  private unacknowledged = 0; // updates that came, painted or not
  private gap = 0; // ms between the last two updates
  private newest: { readonly delay: number | undefined; readonly arrived: number } | undefined;
  private paintedAt: number | undefined;

  constructor(about: Target, view: View, host: ViewHost, listener: ViewListener) {
    this.about = about;
    this.asked = view;
    this.host = host;
    this.listener = listener;
  }

  get table(): string {
    return this.about.table;
  }

  get window(): TableWindow | undefined {
    return this.shown;
  }

  get step(): number | undefined {
    return this.stepNow;
  }

  get columns(): readonly Column[] {
    return this.heads;
  }

  get kind(): string {
    return this.kindNow;
  }

  get sorted(): boolean {
    return this.isSorted;
  }

  get error(): string | undefined {
    return this.problem;
  }

  get stale(): boolean {
    return !this.host.isLive || this.stream?.window === undefined || this.shown !== this.stream.window;
  }

  get paused(): boolean {
    return this.isPaused;
  }

  /** The stream that it is on; undefined: none. */
  get number(): number | undefined {
    return this.stream?.number;
  }

  /** Cells that it may have in view, as the server counts them. */
  get cells(): number {
    return this.stream === undefined ? 0 : this.asked.count * (this.asked.columns?.length ?? this.heads.length);
  }

  lag(): number | undefined {
    if (this.newest?.delay === undefined) return undefined;
    if (this.paintedAt !== undefined && this.host.now() - this.newest.arrived >= QUIET_MS) return undefined;
    return this.newest.delay + (this.paintedAt ?? this.host.now()) - this.newest.arrived;
  }

  move(view: View): void {
    if (this.isClosed) return;
    if (this.stream === undefined) {
      const isOther = !isSame(view, this.asked);
      this.asked = view;
      if (isOther && this.problem !== undefined && this.host.isLive) this.begin(); // as after a limit: this one may do
    } else if (this.isUnderWay) this.waiting = isSame(view, this.asked) ? undefined : view;
    else if (!isSame(view, this.asked)) {
      this.asked = view;
      this.isUnderWay = true;
      this.tellPaused();
      this.host.send({ type: "move", stream: this.stream.number, ...request(view) });
    }
  }

  painted(): void {
    this.paintedAt ??= this.host.now();
    if (this.unacknowledged === 0 || this.stream === undefined || this.mayWait()) return;
    this.host.send({ type: "ack", stream: this.stream.number, updates: this.unacknowledged });
    this.unacknowledged = 0;
  }

  pause(): void {
    this.setPaused(true);
  }

  resume(): void {
    this.setPaused(false);
  }

  cell(row: number, column: number): Promise<string | null> {
    if (this.stream === undefined || !this.host.isLive) return Promise.reject(new Error(this.problem ?? NOT_CONNECTED));
    return this.host.requestCell(this.stream.number, row, column);
  }

  snapshot(columns: readonly number[], first: number, count: number): Promise<Fetched> {
    return this.host.snapshot(this, columns, first, count);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.stream !== undefined) this.host.send({ type: "close", stream: this.stream.number });
    this.stream = undefined;
    this.host.closed(this);
  }

  // For the link.

  /** Open it on the present connection. */
  begin(): void {
    this.isUnderWay = true;
    this.isServerPaused = false;
    this.unacknowledged = 0;
    this.stream = new Stream(this.host.nextStream(), this.host.limits);
    const { interval, plot } = this.asked;
    const about = { type: "open", stream: this.stream.number, kind: "follow" } as const;
    this.host.send({ ...about, ...opening(this.about), ...request(this.asked), ...(interval === undefined ? {} : { interval }), ...(plot === undefined ? {} : { plot }) });
  }

  opened(message: ServerMessage & { readonly type: "opened" }): void {
    this.stream?.opened(message);
    this.heads = message.columns;
    this.kindNow = message.kind;
    this.isSorted = message.plot?.sorted ?? false;
    this.problem = undefined;
    this.listener();
  }

  chose(columns: readonly number[]): void {
    this.stream?.chose(columns);
  }

  frame(frame: Frame): void {
    const applied = this.stream?.take(frame);
    if (applied === undefined || this.stream === undefined) return;
    this.shown = this.stream.window;
    this.stepNow = applied.step;
    this.unacknowledged += 1;
    const way = this.host.delay();
    const delay = applied.age === undefined || way === undefined ? undefined : applied.age + way;
    const arrived = this.host.now();
    this.gap = arrived - (this.newest?.arrived ?? -Infinity);
    this.newest = { delay, arrived };
    this.paintedAt = undefined;
    if (applied.isSnapshot) {
      this.isUnderWay = false;
      const next = this.waiting;
      this.waiting = undefined;
      if (next !== undefined) this.move(next);
      this.tellPaused();
    }
    this.listener();
  }

  /** The server has ended its stream. */
  ended(text: string | undefined): void {
    this.stream = undefined;
    this.problem = text ?? "The server has ended this view.";
    if (this.takeWaiting()) this.begin(); // as after a limit: what waited may do
    this.listener();
  }

  /** The connection is lost. */
  lost(): void {
    this.stream = undefined;
    this.takeWaiting();
    this.isUnderWay = false;
    this.unacknowledged = 0;
    this.listener();
  }

  /** Whether an update can be acknowledged with the next one, because the server has it before it makes a third. */
  private mayWait(): boolean {
    const way = this.host.delay();
    return this.unacknowledged === 1 && way !== undefined && this.gap > 2 * way + PAINTING_MS;
  }

  /** Without a stream, what is asked for next is the newest request, whether it waited or not. */
  private takeWaiting(): boolean {
    const next = this.waiting;
    this.waiting = undefined;
    if (next !== undefined) this.asked = next;
    return next !== undefined;
  }

  private setPaused(paused: boolean): void {
    if (this.isClosed || this.isPaused === paused) return;
    this.isPaused = paused;
    this.tellPaused();
    this.listener();
  }

  /** Have the server pause, but for what was asked of it: a paused view can be scrolled, and comes back after a lost connection. */
  private tellPaused(): void {
    const paused = this.isPaused && !this.isUnderWay;
    if (this.stream === undefined || paused === this.isServerPaused) return;
    this.isServerPaused = paused;
    this.host.send({ type: paused ? "pause" : "resume", stream: this.stream.number });
  }
}

export const NOT_CONNECTED = "There is no connection to the server. Try again when it is back.";

/** The fields of `open` that say what is looked at. */
export function opening({ table, ticket, query }: Target): { readonly table?: string; readonly ticket?: string } & Partial<Query> {
  return { ...(ticket === undefined ? { table } : { ticket }), ...query };
}

/** The fields of `open` and `move` that say which part of a table is wanted. */
export function request(view: View): ViewRequest {
  const { columns, first, count, reverse } = view;
  return { first, count, reverse, ...(columns === undefined ? {} : { columns }) };
}

function isSame(left: View, right: View): boolean {
  if (left.first !== right.first || left.count !== right.count || left.reverse !== right.reverse) return false;
  if (left.columns === undefined || right.columns === undefined) return left.columns === right.columns;
  const { columns } = right;
  return left.columns.length === columns.length && left.columns.every((column, n) => column === columns[n]);
}
