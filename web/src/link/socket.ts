// What the link needs of the browser, so that tests can have their own.

import { SUBPROTOCOL } from "../wire/messages.ts";

/** The part of a websocket that the link uses. */
export interface WebSocketLike {
  binaryType: string;
  onopen: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: (() => void) | null;
  onerror: (() => void) | null;
  send(data: string): void;
  close(): void;
}

/** Time in ms, which only rises, and timers. */
export interface Clock {
  now(): number;
  /** Calls `run` once after `ms`; the result cancels it. */
  after(ms: number, run: () => void): () => void;
}

export const browserClock: Clock = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export function browserSocket(url: string): WebSocketLike {
  const socket = new WebSocket(url, SUBPROTOCOL);
  const like: WebSocketLike = {
    binaryType: "",
    onopen: null,
    onmessage: null,
    onclose: null,
    onerror: null,
    send: (data) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(data); // else it ends, and onclose is on its way
    },
    close: () => socket.close(),
  };
  socket.binaryType = "arraybuffer";
  socket.onopen = () => like.onopen?.();
  socket.onmessage = (event: MessageEvent<unknown>) => like.onmessage?.({ data: event.data });
  socket.onclose = () => like.onclose?.();
  socket.onerror = () => like.onerror?.();
  return like;
}
