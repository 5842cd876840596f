// One connection: a websocket from its opening to its end.

import { WireError } from "../wire/error.ts";
import { type Frame, decodeFrame } from "../wire/frame.ts";
import type { PageMessage, ServerMessage } from "../wire/messages.ts";
import { parseMessage } from "../wire/parse.ts";
import type { Clock, WebSocketLike } from "./socket.ts";

/** Without anything from the server for so long the connection counts as lost, in ms. The server beats each second. */
const SILENCE = 5_000;
const CHECK_EVERY = 1_000;
const PING_EVERY = 5; // checks

export interface ConnectionEvents {
  message(message: ServerMessage): void;
  frame(frame: Frame): void;
  /** The end, once. `problem`: a sentence, when the server has sent what it must not. */
  ended(problem: string | undefined): void;
}

export class Connection {
  private readonly socket: WebSocketLike;
  private readonly clock: Clock;
  private readonly events: ConnectionEvents;
  private heard: number;
  private checks = 0;
  private pings = 0;
  private pingSent: number | undefined;
  private trip: number | undefined;
  private isOver = false;
  private cancelCheck: () => void;

  constructor(socket: WebSocketLike, hello: PageMessage, clock: Clock, events: ConnectionEvents) {
    this.socket = socket;
    this.clock = clock;
    this.events = events;
    this.heard = clock.now();
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.send(hello);
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = () => this.end(undefined);
    socket.onerror = () => this.end(undefined);
    this.cancelCheck = clock.after(CHECK_EVERY, () => this.check());
  }

  /** Time of the last ping's way to the server and back, in ms; undefined before the first answer. */
  get roundTrip(): number | undefined {
    return this.trip;
  }

  send(message: PageMessage): void {
    if (!this.isOver) this.socket.send(JSON.stringify(message));
  }

  /** Measure the round trip. */
  ping(): void {
    this.pings += 1;
    this.pingSent = this.clock.now();
    this.send({ type: "ping", n: this.pings });
  }

  /** End it without telling. */
  close(): void {
    this.isOver = true;
    this.cancelCheck();
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = this.socket.onerror = null;
    this.socket.close();
  }

  private receive(data: unknown): void {
    this.heard = this.clock.now();
    try {
      if (typeof data === "string") this.text(data);
      else if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) this.events.frame(decodeFrame(data));
      else throw new WireError("A frame is neither text nor binary.");
    } catch (error) {
      if (error instanceof WireError) this.end(error.message);
      else {
        this.end("The page could not read what the server has sent.");
        throw error;
      }
    }
  }

  private text(data: string): void {
    const message = parseMessage(data);
    if (message?.type === "pong") {
      if (message.n === this.pings && this.pingSent !== undefined) {
        this.trip = this.clock.now() - this.pingSent;
        this.pingSent = undefined;
      }
    } else if (message !== undefined) this.events.message(message);
  }

  private check(): void {
    if (this.clock.now() - this.heard > SILENCE) {
      this.end(undefined);
      return;
    }
    this.cancelCheck = this.clock.after(CHECK_EVERY, () => this.check());
    this.checks += 1;
    // Before the first, the socket may not be open yet.
    if (this.checks % PING_EVERY === 0 && this.pings > 0 && this.pingSent === undefined) this.ping();
  }

  private end(problem: string | undefined): void {
    if (this.isOver) return;
    this.close();
    this.events.ended(problem);
  }
}
