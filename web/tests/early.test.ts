import assert from "node:assert/strict";
import { test } from "node:test";

import { adopted, openEarly } from "../src/link/early.ts";
import type { RawSocket } from "../src/link/early.ts";

class Raw implements RawSocket {
  binaryType = "";
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { readonly data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: string[] = [];
  send(data: string): void {
    this.sent.push(data);
  }
  close(): void {
    this.readyState = 3;
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  hear(data: unknown): void {
    this.onmessage?.({ data });
  }
}

const HELLO = '{"type":"hello","version":1,"token":"s3cret"}';

/** A socket adopted as a link does it: it says hello when it opens, and notes what it hears. */
function link(raw: Raw): { readonly heard: unknown[]; readonly adopt: () => void; socket: ReturnType<typeof adopted> | undefined } {
  const early = openEarly("ws://there/live", "s3cret", () => raw);
  const found: ReturnType<typeof link> = {
    heard: [],
    socket: undefined,
    adopt: () => {
      const like = adopted(early);
      like.onopen = () => like.send(HELLO);
      like.onmessage = ({ data }) => found.heard.push(data);
      like.onclose = () => found.heard.push("the end");
      found.socket = like;
    },
  };
  return found;
}

test("hello is said once, whether the socket opens before or after it is adopted", () => {
  for (const isFirst of [true, false]) {
    const raw = new Raw();
    const { adopt } = link(raw);
    if (isFirst) raw.open();
    adopt();
    if (!isFirst) raw.open();
    assert.deepEqual(raw.sent, [HELLO]);
  }
});

test("what was heard before comes first, and all of it once", async () => {
  const raw = new Raw();
  const made = link(raw);
  raw.open();
  raw.hear("one");
  const two = new ArrayBuffer(2);
  raw.hear(two);
  made.adopt();
  assert.deepEqual(made.heard, [], "the link may not listen yet");
  await Promise.resolve();
  raw.hear("three");
  assert.deepEqual(made.heard, ["one", two, "three"]);
  assert.equal(raw.binaryType, "arraybuffer");
});

test("a message that comes before the earlier ones are told waits for them", async () => {
  const raw = new Raw();
  const made = link(raw);
  raw.open();
  raw.hear("one");
  made.adopt();
  raw.hear("two");
  await Promise.resolve();
  assert.deepEqual(made.heard, ["one", "two"]);
});

test("a socket that has closed meanwhile says so after what it has heard", async () => {
  const raw = new Raw();
  const made = link(raw);
  raw.open();
  raw.hear("refused");
  raw.close();
  made.adopt();
  await Promise.resolve();
  assert.deepEqual(made.heard, ["refused", "the end"]);
});

test("an adopted socket sends while it is open", () => {
  const raw = new Raw();
  const made = link(raw);
  raw.open();
  made.adopt();
  made.socket?.send("ping");
  raw.readyState = 2;
  made.socket?.send("lost");
  assert.deepEqual(raw.sent, [HELLO, "ping"]);
});
