// A websocket that opens while the page is still being read, and what the server has said to it meanwhile.

import { SUBPROTOCOL } from "../wire/messages.ts";
import { hello } from "./hello.ts";
import type { WebSocketLike } from "./socket.ts";

/** The part of the browser's websocket that is used. */
export interface RawSocket {
  binaryType: string;
  readonly readyState: number;
  onopen: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: (() => void) | null;
  onerror: (() => void) | null;
  send(data: string): void;
  close(): void;
}

/** States of a websocket, as the browser numbers them. */
const OPEN = 1;
const CLOSED = 3;

export interface EarlySocket {
  readonly socket: RawSocket;
  /** What it says when it opens. */
  readonly hello: string;
  /** What it has heard, oldest first. */
  readonly heard: readonly unknown[];
}

/** Opens a websocket, and says hello with the token. */
export function openEarly(url: string, token: string | undefined, open = (): RawSocket => new WebSocket(url, SUBPROTOCOL) as RawSocket): EarlySocket {
  const socket = open();
  const heard: unknown[] = [];
  const text = JSON.stringify(hello(token));
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(text);
  socket.onmessage = ({ data }) => heard.push(data);
  return { socket, hello: text, heard };
}

/** The same websocket for a link: it has said hello already, and tells in order what it has heard. */
export function adopted({ socket, hello: said, heard }: EarlySocket): WebSocketLike {
  const like: WebSocketLike = {
    binaryType: "",
    onopen: null,
    onmessage: null,
    onclose: null,
    onerror: null,
    send: (data) => {
      if (data !== said && socket.readyState === OPEN) socket.send(data);
    },
    close: () => socket.close(),
  };
  if (socket.readyState === OPEN) socket.onopen = null;
  else {
    socket.onopen = () => {
      socket.send(said);
      like.onopen?.();
    };
  }
  socket.onclose = () => like.onclose?.();
  socket.onerror = () => like.onerror?.();
  socket.onmessage = (event) => {
    tell();
    like.onmessage?.(event);
  };
  let isTold = false;
  const tell = (): void => {
    if (isTold) return;
    isTold = true;
    for (const data of heard) like.onmessage?.({ data });
    if (socket.readyState === CLOSED) like.onclose?.();
  };
  queueMicrotask(tell); // when the link listens
  return like;
}
