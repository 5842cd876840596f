// The connection to the server, which comes back by itself.

import type { Fetched } from "../window/fetched.ts";
import { WireError } from "../wire/error.ts";
import type { Frame } from "../wire/frame.ts";
import type { Health, Limits, PageMessage, Query, ServerMessage, TableInfo } from "../wire/messages.ts";
import { Connection } from "./connection.ts";
import { VERSION, hello } from "./hello.ts";
import { LiveView, NOT_CONNECTED, type ViewHost } from "./live_view.ts";
import { Snapshot, pieces } from "./snapshot.ts";
import { type Clock, type WebSocketLike, browserClock, browserSocket } from "./socket.ts";
import type { OpenView, View, ViewListener } from "./view.ts";

export type { Clock, WebSocketLike } from "./socket.ts";

/** "lost" lasts until the connection is back; "refused" for ever: log in with a new link. */
export type LinkState = "connecting" | "live" | "lost" | "refused";

const FIRST_DELAY = 250; // ms
const LAST_DELAY = 10_000;
/** A connection that has lasted so long, in ms, makes the next attempt a first one. */
const LASTING = 5_000;

interface CellRequest {
  readonly resolve: (text: string | null) => void;
  readonly reject: (error: Error) => void;
}

/** One websocket at a time. It opens the same views again after each loss. */
export class Link {
  state: LinkState = "connecting";
  /** When the connection was lost: ms of the clock. */
  lostSince: number | undefined;
  /** Why the server has refused the log-in, as a sentence. */
  refusal: string | undefined;
  /** The class of that error, such as "AuthenticationError". */
  refusalError: string | undefined;
  /** What was wrong with what the server sent when the connection was given up, as a sentence. */
  problem: string | undefined;
  limits: Limits = { streams: 16, rows: 10_000, columns: 500, cells: 100_000 };
  /** Operations that the server announces, such as "sort". */
  operations: readonly string[] = [];
  /** The state of the server, once {@link watchHealth} has asked for it; or why it is not told, as a sentence. */
  health: Health | string | undefined;
  /** Name and version of the server. */
  server = "";
  private readonly known = new Map<string, TableInfo>();
  private readonly url: string;
  private readonly token: string | undefined;
  private readonly makeSocket: (url: string) => WebSocketLike;
  private readonly clock: Clock;
  private readonly listeners = new Set<() => void>();
  private readonly views = new Set<LiveView>();
  private readonly snapshots = new Map<number, Snapshot>();
  private readonly cells = new Map<number, CellRequest>();
  private readonly host: ViewHost;
  private connection: Connection | undefined;
  private cancelRetry: (() => void) | undefined;
  private delay = FIRST_DELAY;
  private liveSince: number | undefined;
  private streams = 0;
  private requests = 0;
  private isClosed = false;
  private wantsHealth = false;

  constructor(url: string, token: string | undefined, makeSocket: (url: string) => WebSocketLike = browserSocket, clock: Clock = browserClock) {
    this.url = url;
    this.token = token;
    this.makeSocket = makeSocket;
    this.clock = clock;
    this.host = this.hostOfViews();
    this.connect();
  }

  /** Tables by name. */
  get tables(): ReadonlyMap<string, TableInfo> {
    return this.known;
  }

  /** Time of a frame's way to the server and back, in ms; undefined: not measured yet. */
  get roundTrip(): number | undefined {
    return this.connection?.roundTrip;
  }

  /** Call `listener` after the state or the tables have changed; the result ends that. */
  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /**
   * Look at a table, or at some of its rows in an order.
   *
   * @param ticket a Flight ticket in base64, of what is looked at instead of the table of that name
   */
  open(table: string, view: View, listener: ViewListener, query?: Query, ticket?: string): OpenView {
    const opened = new LiveView({ table, ticket, query }, view, this.host, listener);
    this.views.add(opened);
    if (this.state === "live") opened.begin();
    return opened;
  }

  /** Have the state of the server told once a second, or no more. */
  watchHealth(on: boolean): void {
    if (this.wantsHealth === on) return;
    this.wantsHealth = on;
    if (!on) this.health = undefined;
    this.send({ type: "health", on });
  }

  /** Try again at once, as when the browser is on line again. */
  retry(): void {
    if (this.cancelRetry === undefined) return;
    this.delay = FIRST_DELAY;
    this.connect();
  }

  /** End it for good. */
  close(): void {
    this.isClosed = true;
    this.cancelRetry?.();
    this.connection?.close();
    this.drop();
  }

  private connect(): void {
    this.cancelRetry?.();
    this.cancelRetry = undefined;
    const events = {
      message: (message: ServerMessage) => this.message(message),
      frame: (frame: Frame) => this.frame(frame),
      ended: (problem: string | undefined) => this.lost(problem),
    };
    this.connection = new Connection(this.makeSocket(this.url), hello(this.token), this.clock, events);
  }

  private message(message: ServerMessage): void {
    if (this.state !== "live" && message.type !== "welcome" && message.type !== "refused") {
      if (message.type === "beat") return;
      throw new WireError("The server speaks before its welcome.");
    }
    switch (message.type) {
      case "welcome":
        this.welcome(message);
        break;
      case "refused":
        this.state = "refused";
        this.refusal = message.text;
        this.refusalError = message.error;
        this.connection?.close();
        this.drop();
        this.changed();
        break;
      case "tables":
        this.learn(message);
        break;
      case "opened":
        this.streamOf(message.stream)?.opened(message);
        break;
      case "columns":
        this.streamOf(message.stream)?.chose(message.columns);
        break;
      case "ended":
        this.ended(message);
        break;
      case "cell":
        this.answer(message.request)?.resolve(message.text);
        break;
      case "health":
        if (!this.wantsHealth) break;
        this.health = message.health;
        this.changed();
        break;
      case "failed":
        this.answer(message.request)?.reject(new Error(message.text));
        break;
      default: // beat, pong: the connection has noted them
    }
  }

  private welcome(message: ServerMessage & { readonly type: "welcome" }): void {
    if (message.version !== VERSION) throw new WireError(`The server speaks version ${message.version}, and this page ${VERSION}. Load the page again.`);
    if (this.state === "live") throw new WireError("The server says welcome twice.");
    this.state = "live";
    this.lostSince = undefined;
    this.problem = undefined;
    this.liveSince = this.clock.now();
    ({ limits: this.limits, operations: this.operations, server: this.server } = message);
    this.connection?.ping();
    for (const view of this.views) view.begin();
    if (this.wantsHealth) this.send({ type: "health", on: true });
    this.changed();
  }

  private learn(message: ServerMessage & { readonly type: "tables" }): void {
    const before = new Set(message.all ? [] : this.known.keys());
    const earlier = new Map(this.known);
    if (message.all) this.known.clear();
    for (const name of message.dropped) {
      this.known.delete(name);
      before.delete(name); // it may have been made anew already
    }
    for (const table of message.tables) {
      const { columns, width } = earlier.get(table.name) ?? { columns: [], width: 0 };
      this.known.set(table.name, { columns, width, ...table });
    }
    // A view that has ended opens again when its table is there again; the whole list comes once in a connection.
    const back = (view: LiveView): boolean => view.about.ticket === undefined && this.known.has(view.table) && !before.has(view.table);
    for (const view of this.views) if (view.number === undefined && back(view)) view.begin();
    this.changed();
  }

  private frame(frame: Frame): void {
    this.streamOf(frame.stream)?.frame(frame);
  }

  private ended({ stream, text, error }: ServerMessage & { readonly type: "ended" }): void {
    const snapshot = this.snapshots.get(stream);
    this.snapshots.delete(stream);
    if (snapshot !== undefined) snapshot.ended(error === undefined ? undefined : text);
    else this.viewOf(stream)?.ended(text);
  }

  /** What reads the stream; undefined: it was closed here, and the server does not know yet. */
  private streamOf(number: number): LiveView | Snapshot | undefined {
    if (number > this.streams || number < 1) throw new WireError(`The server sends the stream ${number}, which was not opened.`);
    return this.snapshots.get(number) ?? this.viewOf(number);
  }

  private viewOf(stream: number): LiveView | undefined {
    for (const view of this.views) if (view.number === stream) return view;
    return undefined;
  }

  private answer(request: number): CellRequest | undefined {
    const found = this.cells.get(request);
    this.cells.delete(request);
    return found;
  }

  private lost(problem: string | undefined): void {
    const now = this.clock.now();
    if (this.state === "live") {
      this.state = "lost";
      this.lostSince = now;
      if (this.liveSince !== undefined && now - this.liveSince >= LASTING) this.delay = FIRST_DELAY;
    }
    if (problem !== undefined) this.problem = problem;
    this.drop();
    if (!this.isClosed) this.cancelRetry = this.clock.after(this.delay, () => this.connect());
    this.delay = Math.min(2 * this.delay, LAST_DELAY);
    this.changed();
  }

  /** End what cannot outlive the connection. */
  private drop(): void {
    this.connection = undefined;
    this.liveSince = undefined;
    const requests = [...this.cells.values()];
    const snapshots = [...this.snapshots.values()];
    this.cells.clear();
    this.snapshots.clear();
    for (const { reject } of requests) reject(new Error(NOT_CONNECTED));
    for (const snapshot of snapshots) snapshot.ended(NOT_CONNECTED);
    for (const view of this.views) view.lost();
  }

  private send(message: PageMessage): void {
    if (this.state === "live") this.connection?.send(message);
  }

  private hostOfViews(): ViewHost {
    const link = this;
    return {
      get limits() {
        return link.limits;
      },
      get isLive() {
        return link.state === "live";
      },
      now: () => this.clock.now(),
      delay: () => (this.roundTrip === undefined ? undefined : this.roundTrip / 2),
      send: (message) => this.send(message),
      nextStream: () => (this.streams += 1),
      requestCell: (stream, row, column) => this.requestCell(stream, row, column),
      snapshot: (of, columns, first, count) => this.snapshot(of, columns, first, count),
      closed: (view) => this.views.delete(view),
    };
  }

  private requestCell(stream: number, row: number, column: number): Promise<string | null> {
    this.requests += 1;
    const request = this.requests;
    return new Promise((resolve, reject) => {
      this.cells.set(request, { resolve, reject });
      this.send({ type: "cell", request, stream, row, column });
    });
  }

  /** In pieces, one after the other: each is of one version of the table, all of them need not be. */
  private async snapshot(of: LiveView, columns: readonly number[], first: number, count: number): Promise<Fetched> {
    const rows: Fetched["rows"][number][] = [];
    const versions = new Set<number>();
    // The server counts the cells of all streams together.
    const inView = [...this.views].reduce((sum, view) => sum + view.cells, 0);
    const limits = { rows: this.limits.rows, cells: this.limits.cells - inView };
    for (const piece of pieces(first, count, columns.length, limits)) {
      if (this.state !== "live") throw new Error(NOT_CONNECTED);
      this.streams += 1;
      const snapshot = new Snapshot(this.streams, of.about, columns, piece.first, piece.count, this.limits, (message) => this.send(message));
      this.snapshots.set(this.streams, snapshot);
      const read = await snapshot.result;
      for (const row of read.rows) rows.push(row);
      for (const version of read.versions) versions.add(version);
      if (read.rows.length < piece.count) break;
    }
    return { rows, versions };
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}
