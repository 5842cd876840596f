// The comm of a widget as a websocket: messages through the kernel instead of a connection to the server.

import type { WebSocketLike } from "../link/socket.ts";

type Listener = (message: unknown, buffers?: readonly unknown[]) => void;

/** The part of anywidget's model that is used. */
export interface Model {
  get(name: string): unknown;
  on(event: string, run: Listener): void;
  off(event: string, run: Listener): void;
  send(message: unknown): void;
}

const MESSAGE = "msg:custom";
/** Milliseconds without a message to the kernel after which a further one is sent: it ends a link that is silent for 60 s. */
const KEEP_MS = 15_000;
/** An answer to it is ignored: the link's own pings count from 1. */
const PING = JSON.stringify({ type: "ping", n: 0 });

/** Time in ms that only rises. */
export type Now = () => number;

/**
 * One link of a display. `open` is sent at once, and `close` when it is closed here.
 *
 * @param told is called with the reason when the kernel ends the link
 */
export function commSocket(model: Model, link: string, told: (why: string) => void = () => undefined, now: Now = () => performance.now()): WebSocketLike {
  let isOver = false;
  let spoke = now();
  const post = (kind: "open" | "text" | "close", text?: string): void => {
    spoke = now();
    model.send({ kind, link, ...(text === undefined ? {} : { text }) });
  };
  const end = (): boolean => {
    if (isOver) return false;
    isOver = true;
    model.off(MESSAGE, receive);
    return true;
  };
  /** The kernel is gone: a comm that is closed throws. */
  const fail = (): void => {
    if (end()) queueMicrotask(() => like.onerror?.());
  };
  const like: WebSocketLike = {
    binaryType: "",
    onopen: null,
    onmessage: null,
    onclose: null,
    onerror: null,
    send: (text) => {
      if (isOver) return;
      try {
        post("text", text);
      } catch {
        fail();
      }
    },
    close: () => {
      if (!end()) return;
      try {
        post("close");
      } catch {
        // The kernel is gone, and with it the link.
      }
    },
  };

  function receive(message: unknown, buffers: readonly unknown[] = []): void {
    if (typeof message !== "object" || message === null || isOver) return;
    const { kind, link: of, text } = message as Readonly<Record<string, unknown>>;
    if (of !== link) return;
    if (kind === "opened") like.onopen?.();
    else if (kind === "text" && typeof text === "string") like.onmessage?.({ data: text });
    else if (kind === "binary" && ArrayBuffer.isView(buffers[0])) like.onmessage?.({ data: buffers[0] });
    else if (kind === "closed") {
      end();
      told(typeof text === "string" ? text : "");
      like.onclose?.();
      return;
    }
    if (!isOver && now() - spoke > KEEP_MS) like.send(PING); // not by a timer, which hidden tabs slow down
  }

  model.on(MESSAGE, receive);
  try {
    post("open");
  } catch {
    fail();
  }
  return like;
}

/** A name for a link that no other display of the widget has. */
export function linkName(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("");
}
