// The comm of a widget as a websocket, with a model of our own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Link } from "../../src/link/link.ts";
import { type Model, commSocket, linkName } from "../../src/notebook/comm.ts";
import type { Column } from "../../src/cells/column.ts";
import { COLUMNS, schemaFrame, updateFrame } from "../builders.ts";
import { FakeClock } from "../clock.ts";

type Listener = (message: unknown, buffers?: readonly unknown[]) => void;
type Sent = { kind: string; link: string; text?: string };

class FakeModel implements Model {
  sent: Sent[] = [];
  isGone = false;
  readonly listeners = new Set<Listener>();

  get(): unknown {
    return null;
  }

  on(event: string, run: Listener): void {
    assert.equal(event, "msg:custom");
    this.listeners.add(run);
  }

  off(_event: string, run: Listener): void {
    this.listeners.delete(run);
  }

  send(message: unknown): void {
    if (this.isGone) throw new Error("Cannot send");
    this.sent.push(message as Sent);
  }

  say(message: unknown, ...buffers: unknown[]): void {
    for (const listener of [...this.listeners]) listener(message, buffers);
  }

  taken(): Sent[] {
    const { sent } = this;
    this.sent = [];
    return sent;
  }
}

/** As JupyterLab gives buffers: views into one message, at any offset. */
function within(frame: ArrayBuffer, offset: number): DataView {
  const whole = new Uint8Array(offset + frame.byteLength + 3);
  whole.set(new Uint8Array(frame), offset);
  return new DataView(whole.buffer, offset, frame.byteLength);
}

const WELCOME = { type: "welcome", version: 1, server: "s", limits: { streams: 16, rows: 100, columns: 50, cells: 300 }, operations: [] };

test("a link opens, passes texts on, and says when it is closed", () => {
  const model = new FakeModel();
  const told: string[] = [];
  const socket = commSocket(model, "a", (why) => told.push(why), () => 0);
  assert.deepEqual(model.taken(), [{ kind: "open", link: "a" }]);
  const events: unknown[] = [];
  socket.onopen = () => events.push("open");
  socket.onmessage = ({ data }) => events.push(data);
  socket.onclose = () => events.push("close");
  model.say({ kind: "opened", link: "a" });
  socket.send("hello");
  model.say({ kind: "text", link: "a", text: "welcome" });
  assert.deepEqual(model.taken(), [{ kind: "text", link: "a", text: "hello" }]);
  socket.close();
  socket.close();
  socket.send("late");
  model.say({ kind: "text", link: "a", text: "late" });
  assert.deepEqual(model.taken(), [{ kind: "close", link: "a" }]);
  assert.deepEqual([events, told, model.listeners.size], [["open", "welcome"], [], 0]);
});

test("a link that the kernel ends is told why, and says nothing more", () => {
  const model = new FakeModel();
  const told: string[] = [];
  const socket = commSocket(model, "a", (why) => told.push(why), () => 0);
  let closed = 0;
  socket.onclose = () => (closed += 1);
  model.taken();
  model.say({ kind: "closed", link: "a", text: "The server has ended." });
  model.say({ kind: "closed", link: "a", text: "again" });
  socket.close();
  assert.deepEqual([told, closed, model.taken(), model.listeners.size], [["The server has ended."], 1, [], 0]);
});

test("displays of one widget hear their own link only, and no nonsense", () => {
  const model = new FakeModel();
  const heard: unknown[] = [];
  const sockets = ["a", "b"].map((name) => commSocket(model, name, undefined, () => 0));
  for (const [n, socket] of sockets.entries()) socket.onmessage = ({ data }) => heard.push([n, data]);
  model.say({ kind: "text", link: "b", text: "x" });
  for (const message of [null, 1, "text", {}, { kind: "text", link: "a" }, { kind: "binary", link: "a" }, { kind: "other", link: "a" }]) model.say(message);
  model.say({ kind: "binary", link: "a" }, "no buffer");
  assert.deepEqual(heard, [[1, "x"]]);
});

test("a kernel that is gone is an error, not an exception", async () => {
  const model = new FakeModel();
  model.isGone = true;
  const events: string[] = [];
  const early = commSocket(model, "a", undefined, () => 0);
  early.onerror = () => events.push("early");
  model.isGone = false;
  const late = commSocket(model, "b", undefined, () => 0);
  late.onerror = () => events.push("late");
  model.isGone = true;
  late.send("x");
  const third = commSocket(model, "c", undefined, () => 0);
  third.close();
  await Promise.resolve();
  assert.deepEqual([events, model.listeners.size], [["early", "late"], 0]);
});

test("a hidden display keeps its link: it answers beats when it has been silent", () => {
  const model = new FakeModel();
  let time = 0;
  commSocket(model, "a", undefined, () => time);
  model.say({ kind: "opened", link: "a" });
  model.taken();
  time = 10_000;
  model.say({ kind: "text", link: "a", text: "beat" });
  assert.deepEqual(model.taken(), []);
  time = 15_001;
  model.say({ kind: "text", link: "a", text: "beat" });
  model.say({ kind: "text", link: "a", text: "beat" });
  assert.deepEqual(model.taken(), [{ kind: "text", link: "a", text: '{"type":"ping","n":0}' }]);
});

test("frames are read where they lie, at any offset", () => {
  for (let offset = 0; offset < 9; offset++) {
    const model = new FakeModel();
    const link = new Link("", undefined, () => commSocket(model, "a", undefined, () => 0), new FakeClock());
    const say = (message: object): void => model.say({ kind: "text", link: "a", text: JSON.stringify(message) });
    model.say({ kind: "opened", link: "a" });
    say(WELCOME);
    const view = link.open("t", { columns: undefined, first: 0, count: 2, reverse: false }, () => undefined);
    say({ type: "opened", stream: 1, columns: COLUMNS satisfies readonly Column[], kind: "keyed", rows: 10 });
    model.say({ kind: "binary", link: "a" }, within(schemaFrame(1), offset));
    const facts = { size: 10, snapshot: true, viewport: [0, 1] as const, columns: [0, 1, 2], added: [[0, 1]] as const };
    model.say({ kind: "binary", link: "a" }, within(updateFrame(1, facts, [[1n, 2n], [0.5, 1.5], ["a", "b"]]), offset));
    assert.deepEqual([0, 1, 2].map((column) => view.window?.value(1, column)), [2n, 1.5, "b"]);
    link.close();
  }
});

test("a lost link is opened anew under another name, with the same views; the end says close", () => {
  const model = new FakeModel();
  const clock = new FakeClock();
  const names: string[] = [];
  const link = new Link("", undefined, () => {
    const name = linkName();
    names.push(name);
    return commSocket(model, name, undefined, () => clock.now());
  }, clock);
  const connect = (): Sent[] => {
    const name = names.at(-1);
    model.say({ kind: "opened", link: name });
    model.say({ kind: "text", link: name, text: JSON.stringify(WELCOME) });
    return model.taken();
  };
  connect();
  link.open("a plan", { columns: undefined, first: 0, count: 2, reverse: false }, () => undefined, undefined, "dGlja2V0");
  const opened = JSON.parse(model.taken().at(-1)?.text ?? "") as Record<string, unknown>;
  assert.deepEqual([opened["type"], opened["ticket"], opened["table"]], ["open", "dGlja2V0", undefined]);
  model.say({ kind: "closed", link: names[0], text: "why" });
  assert.equal(link.state, "lost");
  clock.pass(250);
  const sent = connect();
  assert.equal(link.state, "live");
  assert.equal(new Set(names).size, 2);
  assert.ok(sent.every((message) => message.link === names[1]));
  assert.equal(sent.filter(({ text }) => text?.includes('"ticket":"dGlja2V0"')).length, 1);
  link.close();
  assert.deepEqual(model.taken().at(-1), { kind: "close", link: names[1] });
  assert.equal(model.listeners.size, 0);
});
