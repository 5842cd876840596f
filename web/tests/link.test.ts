// The link, with sockets and a clock of our own.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Value } from "../src/cells/column.ts";
import { Link, type WebSocketLike } from "../src/link/link.ts";
import type { View } from "../src/link/view.ts";
import { COLUMNS, schemaFrame, updateFrame, TYPES } from "./builders.ts";
import { FakeClock } from "./clock.ts";

class FakeSocket implements WebSocketLike {
  binaryType = "";
  onopen: (() => void) | null = null;
  onmessage: ((event: { readonly data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  sent: Record<string, unknown>[] = [];
  isClosed = false;

  send(data: string): void {
    assert.ok(!this.isClosed, "sent on a closed socket");
    this.sent.push(JSON.parse(data) as Record<string, unknown>);
  }

  close(): void {
    this.isClosed = true;
  }

  say(message: Record<string, unknown>): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  frame(data: ArrayBuffer): void {
    this.onmessage?.({ data });
  }

  /** What was sent since the last call, without pings. */
  taken(): Record<string, unknown>[] {
    const sent = this.sent.filter(({ type }) => type !== "ping");
    this.sent = [];
    return sent;
  }
}

const LIMITS = { streams: 16, rows: 100, columns: 50, cells: 300 };
const WELCOME = { type: "welcome", version: 1, server: "barrage-server 0.1", limits: LIMITS, operations: ["sort"] };
const VIEW: View = { columns: undefined, first: 0, count: 2, reverse: false };
const ROWS = [[1n, 2n], [0.5, 1.5], ["a", "b"]];

class World {
  readonly clock = new FakeClock();
  readonly sockets: FakeSocket[] = [];
  readonly link: Link;
  changes = 0;
  paints = 0;

  constructor(token?: string) {
    const makeSocket = (): FakeSocket => {
      const socket = new FakeSocket();
      this.sockets.push(socket);
      return socket;
    };
    this.link = new Link("ws://here/live", token, makeSocket, this.clock);
    this.link.onChange(() => {
      this.changes += 1;
    });
  }

  get socket(): FakeSocket {
    const last = this.sockets.at(-1);
    assert.ok(last);
    return last;
  }

  connect(): void {
    this.socket.onopen?.();
    this.socket.say(WELCOME);
  }

  open(view: View = VIEW): ReturnType<Link["open"]> {
    return this.link.open("t", view, () => {
      this.paints += 1;
    });
  }

  opened(stream: number): void {
    this.socket.say({ type: "opened", stream, columns: COLUMNS, kind: "keyed", rows: 10 });
    this.socket.frame(schemaFrame(stream));
  }

  /** The answer to `open` or `move`: two rows, of which the first is at `first`. */
  answer(stream: number, first = 0, values: readonly (readonly Value[])[] = ROWS, isMove = false): void {
    const facts = { size: 10, snapshot: true, viewport: [first, first + 1] as const, columns: [0, 1, 2], added: [[0, 1]] as const };
    this.socket.frame(updateFrame(stream, isMove ? { ...facts, removed: [[0, 1]] } : facts, values));
  }
}

test("hello, welcome, and the list of tables", () => {
  const world = new World("secret");
  const { link, socket } = world;
  assert.equal(link.state, "connecting");
  socket.onopen?.();
  assert.deepEqual(socket.taken(), [{ type: "hello", version: 1, token: "secret" }]);
  socket.say(WELCOME);
  assert.deepEqual([link.state, link.limits, link.operations, link.server], ["live", LIMITS, ["sort"], "barrage-server 0.1"]);
  const table = { name: "t", kind: "keyed", rows: 5, rate: 2.5, columns: [["id", "int64"]] };
  socket.say({ type: "tables", all: true, tables: [table, { ...table, name: "u", width: 500 }] });
  assert.deepEqual([...link.tables.values()], [{ ...table, width: 1 }, { ...table, name: "u", width: 500 }]);
  socket.say({ type: "tables", tables: [{ name: "t", kind: "keyed", rows: 6, rate: 0 }], dropped: ["u"] });
  assert.deepEqual([...link.tables.values()], [{ ...table, rows: 6, rate: 0, width: 1 }]);
  assert.equal(world.changes, 3);
});

test("no token is no field", () => {
  const { socket } = new World();
  socket.onopen?.();
  assert.deepEqual(socket.taken(), [{ type: "hello", version: 1 }]);
});

test("a refused log-in is final", () => {
  const world = new World("wrong");
  world.socket.onopen?.();
  world.socket.say({ type: "refused", error: "AuthenticationError", text: "The token is wrong." });
  assert.deepEqual([world.link.state, world.link.refusal, world.socket.isClosed], ["refused", "The token is wrong.", true]);
  world.clock.pass(60_000);
  assert.deepEqual([world.sockets.length, world.clock.waiting], [1, 0]);
});

test("a view shows its rows after its snapshot, and acknowledges what is painted", () => {
  const world = new World();
  world.connect();
  world.socket.taken();
  const view = world.open({ columns: [0, 2], first: 0, count: 2, reverse: true, interval: 20 });
  assert.deepEqual(world.socket.taken(), [{ type: "open", stream: 1, kind: "follow", table: "t", columns: [0, 2], first: 0, count: 2, reverse: true, interval: 20 }]);
  world.opened(1);
  assert.deepEqual([view.window, view.columns, view.kind, view.stale], [undefined, COLUMNS, "keyed", true]);
  world.answer(1);
  assert.deepEqual([view.window?.value(1, 2), view.stale, world.paints], ["b", false, 2]);
  world.socket.frame(updateFrame(1, { size: 10, modified: [[[0, 0]], [], []] }, [[9n], [], []]));
  assert.deepEqual(world.socket.taken(), []);
  view.painted();
  view.painted();
  assert.deepEqual(world.socket.taken(), [{ type: "ack", stream: 1, updates: 2 }]);
  view.close();
  assert.deepEqual(world.socket.taken(), [{ type: "close", stream: 1 }]);
  world.answer(1);
  world.socket.say({ type: "ended", stream: 1 });
  assert.deepEqual([world.link.state, view.error], ["live", undefined], "what was on its way is ignored");
});

test("a wide table's stream begins anew with the columns in view, by the table's numbers", () => {
  const world = new World();
  world.connect();
  const view = world.open({ ...VIEW, columns: [1] });
  world.socket.say({ type: "opened", stream: 1, columns: COLUMNS, kind: "keyed", rows: 10 });
  const show = (columns: readonly number[], values: readonly (readonly Value[])[]): void => {
    const types = columns.map((column) => TYPES[column] ?? assert.fail());
    world.socket.say({ type: "columns", stream: 1, columns });
    world.socket.frame(schemaFrame(1, types));
    const facts = { size: 10, snapshot: true, viewport: [0, 1], columns: columns.map((_, place) => place), added: [[0, 1]] } as const;
    world.socket.frame(updateFrame(1, facts, values, 10, types));
  };
  show([1], [[1.5, 2.5]]);
  assert.deepEqual([view.window?.columns, view.window?.value(1, 1), view.window?.value(1, 0)], [[1], 2.5, undefined]);
  view.move({ ...VIEW, columns: [0, 2] });
  show([0, 2], [[7n, 8n], ["x", "y"]]);
  assert.deepEqual([view.window?.columns, view.window?.value(0, 0), view.window?.value(1, 2)], [[0, 2], 7n, "y"]);
  world.socket.frame(updateFrame(1, { size: 10, modified: [[], [[1, 1]]] }, [[], ["z"]], 10, [TYPES[0] ?? assert.fail(), TYPES[2] ?? assert.fail()]));
  assert.deepEqual([view.window?.value(1, 2), view.window?.changedAt(1, 2)?.direction], ["z", 0]);
  assert.equal(world.link.state, "live");
});

test("columns that a table does not have, or that do not rise, end the connection", () => {
  for (const columns of [[3], [1, 1], [2, 1], [-1], [0.5], "1"]) {
    const world = new World();
    world.connect();
    world.open();
    world.opened(1);
    world.socket.say({ type: "columns", stream: 1, columns });
    assert.equal(world.link.state, "lost");
  }
});

test("one move is under way, and the newest waits", () => {
  const world = new World();
  world.connect();
  const view = world.open();
  view.move({ ...VIEW, first: 1 });
  world.opened(1);
  world.socket.taken();
  world.answer(1);
  assert.deepEqual(world.socket.taken(), [{ type: "move", stream: 1, first: 1, count: 2, reverse: false }]);
  for (const first of [2, 3, 4]) view.move({ ...VIEW, first });
  assert.deepEqual(world.socket.taken(), []);
  world.answer(1, 1, ROWS, true);
  assert.deepEqual(world.socket.taken().map(({ first }) => first), [4]);
  view.move({ ...VIEW, first: 5 });
  view.move({ ...VIEW, first: 4 });
  world.answer(1, 4, ROWS, true);
  assert.deepEqual(world.socket.taken(), [], "back where it is already");
  view.move({ ...VIEW, first: 4 });
  assert.deepEqual(world.socket.taken(), []);
  assert.equal(view.window?.first, 4);
  view.move({ ...VIEW, first: 6 });
  world.socket.taken();
  world.answer(1, 6, ROWS, true);
  view.move({ ...VIEW, first: 7 });
  view.move({ ...VIEW, first: 3 });
  world.answer(1, 7, ROWS, true);
  world.answer(1, 3, ROWS, true);
  view.move({ ...VIEW, first: 6 });
  world.socket.taken();
  world.answer(1, 6, ROWS, true);
  assert.deepEqual(world.socket.taken(), [], "nothing waits any more");
});

test("updates that come more slowly than a round trip are acknowledged two together", () => {
  const world = new World();
  world.socket.onopen?.();
  world.socket.say(WELCOME);
  world.clock.pass(40);
  world.socket.say({ type: "pong", n: 1 });
  const view = world.open();
  world.opened(1);
  world.answer(1);
  view.painted();
  world.socket.taken();
  const acknowledged = (gaps: readonly number[]): readonly unknown[] =>
    gaps.map((gap) => {
      world.clock.pass(gap);
      world.socket.frame(updateFrame(1, { size: 10 }, [[], [], []]));
      view.painted();
      view.painted();
      return world.socket.taken().map((message) => message["updates"]);
    });
  assert.deepEqual(acknowledged([100, 100, 100, 100]), [[2], [], [2], []]);
  assert.deepEqual(acknowledged([80, 80, 80]), [[2], [1], [1]], "the server may have the third one by then");
});

test("lag is age, half a round trip, and the time until the paint", () => {
  const world = new World();
  world.socket.onopen?.();
  world.socket.say(WELCOME);
  world.clock.pass(40);
  world.socket.say({ type: "pong", n: 1 });
  assert.equal(world.link.roundTrip, 40);
  const view = world.open();
  world.opened(1);
  world.answer(1);
  world.clock.pass(7);
  assert.equal(view.lag(), 10 + 20 + 7);
  view.painted();
  world.clock.pass(500);
  assert.equal(view.lag(), 37, "a quiet table is not behind");
  world.clock.pass(1_500);
  assert.equal(view.lag(), undefined, "the lag of the last update does not stick");
  world.socket.frame(updateFrame(1, { size: 10 }, [[], [], []], 0xffff_ffff));
  assert.equal(view.lag(), undefined);
});

test("it comes back by itself, at the same place, and shows meanwhile what it had", () => {
  const world = new World();
  world.connect();
  const view = world.open();
  world.opened(1);
  world.answer(1);
  const before = view.window;
  view.move({ ...VIEW, first: 3 });
  world.clock.pass(100);
  world.socket.onclose?.();
  assert.deepEqual([world.link.state, world.link.lostSince, view.stale], ["lost", 1100, true]);
  view.move({ ...VIEW, first: 5 });
  view.painted();
  world.clock.pass(249);
  assert.equal(world.sockets.length, 1);
  world.clock.pass(1);
  assert.equal(world.sockets.length, 2);
  world.connect();
  assert.deepEqual([world.link.state, world.link.lostSince, view.stale, view.window === before], ["live", undefined, true, true]);
  assert.deepEqual(world.socket.taken().slice(1), [{ type: "open", stream: 2, kind: "follow", table: "t", first: 5, count: 2, reverse: false }]);
  world.opened(2);
  assert.ok(view.window === before);
  world.answer(2, 5);
  assert.deepEqual([view.stale, view.window?.first, before?.first], [false, 5, 0]);
});

test("what is asked for while the connection is away is newer than what waited before it", () => {
  const world = new World();
  world.connect();
  const view = world.open();
  world.opened(1);
  world.answer(1);
  view.move({ ...VIEW, first: 3 });
  view.move({ ...VIEW, first: 4 }); // waits for the answer to the first
  world.socket.onclose?.();
  view.move({ ...VIEW, first: 6 });
  world.clock.pass(250);
  world.connect();
  assert.deepEqual(world.socket.taken().slice(1).map(({ type, first }) => [type, first]), [["open", 6]]);
  world.opened(2);
  view.move({ ...VIEW, first: 2 });
  world.socket.onclose?.();
  world.clock.pass(500);
  world.connect();
  assert.deepEqual(world.socket.taken().slice(1).map(({ type, first }) => [type, first]), [["open", 2]], "what waited is asked for where nothing newer is");
});

test("attempts wait longer each time, up to ten seconds, and at once when asked", () => {
  const world = new World();
  const times: number[] = [];
  for (let attempt = 0; attempt < 9; attempt += 1) {
    world.socket.onclose?.();
    const [count, lost] = [world.sockets.length, world.clock.time];
    while (world.sockets.length === count) world.clock.pass(250);
    times.push(world.clock.time - lost);
  }
  assert.deepEqual(times, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
  assert.equal(world.link.state, "connecting");
  world.socket.onclose?.();
  world.link.retry();
  assert.equal(world.sockets.length, 11);
  world.link.retry();
  assert.equal(world.sockets.length, 11, "an attempt is under way");
});

test("a connection that has lasted makes the next attempt a first one", () => {
  for (const [lasted, wait] of [[5000, 250], [4000, 2000]] as const) {
    const world = new World();
    for (let attempt = 0; attempt < 3; attempt += 1) {
      world.socket.onclose?.();
      world.clock.pass(250 * 2 ** attempt);
    }
    world.connect();
    world.clock.pass(lasted);
    world.socket.onclose?.();
    const count = world.sockets.length;
    world.clock.pass(wait - 1);
    assert.equal(world.sockets.length, count);
    world.clock.pass(1);
    assert.equal(world.sockets.length, count + 1);
  }
});

test("five silent seconds are a lost connection, and a beat is none", () => {
  const world = new World();
  world.connect();
  for (let n = 0; n < 20; n += 1) {
    world.clock.pass(1000);
    world.socket.say({ type: "beat" });
  }
  assert.equal(world.link.state, "live");
  world.clock.pass(6001);
  assert.deepEqual([world.link.state, world.sockets[0]?.isClosed], ["lost", true]);
});

test("damaged frames end the connection, are named, and change nothing that is shown", () => {
  const damages: ((socket: FakeSocket) => void)[] = [
    (socket) => socket.frame(new ArrayBuffer(3)),
    (socket) => socket.frame(updateFrame(1, { size: 10, removed: [[5, 5]] }, [[], [], []])),
    (socket) => socket.frame(updateFrame(7, { size: 10 }, [[], [], []])),
    (socket) => socket.onmessage?.({ data: "{" }),
    (socket) => socket.onmessage?.({ data: 5 }),
    (socket) => socket.say(WELCOME),
    (socket) => socket.say({ type: "opened", stream: 1, columns: [], kind: "", rows: 0 }),
  ];
  for (const damage of damages) {
    const world = new World();
    world.connect();
    const view = world.open();
    world.opened(1);
    world.answer(1);
    damage(world.socket);
    assert.deepEqual([world.link.state, typeof world.link.problem, view.window?.value(0, 2), view.stale], ["lost", "string", "a", true]);
    world.clock.pass(250);
    world.connect();
    assert.deepEqual([world.link.state, world.link.problem], ["live", undefined]);
  }
});

test("a server of another version is named, and asked again", () => {
  const world = new World();
  world.socket.onopen?.();
  world.socket.say({ ...WELCOME, version: 2 });
  assert.match(world.link.problem ?? "", /version 2/);
  assert.notEqual(world.link.state, "live");
  world.clock.pass(250);
  assert.equal(world.sockets.length, 2);
});

test("an ended view says why, and opens again when its table is back", () => {
  const world = new World();
  world.connect();
  const table = { name: "t", kind: "keyed", rows: 5, rate: 0, columns: [] };
  world.socket.say({ type: "tables", all: true, tables: [table] });
  const view = world.open();
  world.opened(1);
  world.answer(1);
  world.socket.say({ type: "ended", stream: 1, error: "TableDroppedError", text: "The table was dropped." });
  assert.deepEqual([view.error, view.stale], ["The table was dropped.", true]);
  world.socket.taken();
  world.socket.say({ type: "tables", tables: [{ ...table, rows: 6 }] });
  assert.deepEqual(world.socket.taken(), []);
  world.socket.say({ type: "tables", tables: [], dropped: ["t"] });
  world.socket.say({ type: "tables", tables: [table] });
  assert.deepEqual(world.socket.taken().map(({ type, stream }) => [type, stream]), [["open", 2]]);
  world.opened(2);
  world.answer(2);
  view.painted();
  assert.deepEqual(world.socket.taken(), [{ type: "ack", stream: 2, updates: 1 }], "of this stream alone");
  assert.equal(view.error, undefined);
  world.socket.say({ type: "ended", stream: 2, error: "TableDroppedError", text: "The table was dropped." });
  world.socket.say({ type: "tables", tables: [table], dropped: ["t"] }); // dropped and made between two messages
  assert.deepEqual(world.socket.taken().map(({ type, stream }) => [type, stream]), [["open", 3]]);
});

test("a view that was refused opens again when it asks for something else", () => {
  const world = new World();
  world.connect();
  const view = world.open({ ...VIEW, count: 1000 });
  world.socket.say({ type: "ended", stream: 1, error: "LimitError", text: "A stream shows 100 rows at most." });
  world.socket.taken();
  view.move({ ...VIEW, count: 1000 });
  assert.deepEqual(world.socket.taken(), []);
  view.move(VIEW);
  assert.deepEqual(world.socket.taken().map(({ type, count }) => [type, count]), [["open", 2]]);
  world.opened(2);
  assert.equal(view.error, undefined);
});

test("what waits while a view is refused is asked for, once", () => {
  const world = new World();
  world.connect();
  const view = world.open({ ...VIEW, count: 1000 });
  view.move(VIEW);
  world.socket.taken();
  world.socket.say({ type: "ended", stream: 1, error: "LimitError", text: "A stream shows 100 rows at most." });
  assert.deepEqual(world.socket.taken().map(({ type, count }) => [type, count]), [["open", 2]]);
  world.socket.say({ type: "ended", stream: 2, error: "TableDroppedError", text: "The table was dropped." });
  assert.deepEqual([world.socket.taken(), view.error], [[], "The table was dropped."]);
});

test("a table that comes back between the opening and the list is opened", () => {
  const world = new World();
  world.connect();
  const table = { name: "t", kind: "keyed", rows: 5, rate: 0, columns: [] };
  world.socket.say({ type: "tables", all: true, tables: [table] });
  world.open();
  world.socket.onclose?.();
  world.clock.pass(250);
  world.connect();
  world.socket.say({ type: "ended", stream: 2, error: "UnknownTableError", text: "There is no table t." });
  world.socket.taken();
  world.socket.say({ type: "tables", all: true, tables: [table] });
  assert.deepEqual(world.socket.taken().map(({ type }) => type), ["open"]);
});

test("a paused view can be moved, and its pause outlives the connection", () => {
  const world = new World();
  world.connect();
  const view = world.open();
  const types = (): unknown[] => world.socket.taken().map(({ type }) => type);
  view.pause();
  view.pause();
  assert.deepEqual(types(), ["hello", "open"]);
  world.opened(1);
  world.answer(1);
  assert.deepEqual(types(), ["pause"]);
  view.move({ ...VIEW, first: 2 });
  view.move({ ...VIEW, first: 4 });
  assert.deepEqual(types(), ["resume", "move"]);
  world.answer(1, 2, ROWS, true);
  assert.deepEqual(types(), ["move"]);
  world.answer(1, 4, ROWS, true);
  assert.deepEqual(types(), ["pause"]);
  world.socket.onclose?.();
  world.clock.pass(250);
  world.connect();
  assert.deepEqual(types(), ["hello", "open"]);
  world.opened(2);
  world.answer(2, 4);
  assert.deepEqual([types(), view.paused], [["pause"], true]);
  view.resume();
  view.resume();
  assert.deepEqual([types(), view.paused], [["resume"], false]);
});

test("whole cells come by request, or a sentence does", async () => {
  const world = new World();
  world.connect();
  const view = world.open();
  world.opened(1);
  world.answer(1);
  world.socket.taken();
  const answers = [view.cell(5, 2), view.cell(6, 2), view.cell(7, 2), view.cell(8, 2)];
  const requests = world.socket.taken().map(({ type, stream, row, column, request }) => ({ type, stream, row, column, request: request as number }));
  assert.deepEqual(requests.map(({ row }) => row), [5, 6, 7, 8]);
  world.socket.say({ type: "cell", request: requests[1]?.request, text: null });
  world.socket.say({ type: "cell", request: requests[0]?.request, text: "long" });
  world.socket.say({ type: "failed", request: requests[2]?.request, error: "LimitError", text: "It is too long." });
  world.socket.say({ type: "cell", request: 12_345, text: "not asked for" });
  assert.deepEqual(await Promise.all(answers.slice(0, 2)), ["long", null]);
  await assert.rejects(answers[2] ?? Promise.resolve(), /It is too long/);
  world.socket.onclose?.();
  await assert.rejects(answers[3] ?? Promise.resolve(), /no connection/);
  await assert.rejects(view.cell(0, 0), /no connection/);
});

test("a snapshot is read in pieces that the limits allow", async () => {
  const world = new World();
  world.connect();
  const view = world.open();
  world.opened(1);
  world.answer(1);
  world.socket.taken();
  // 300 cells, of which the view has 6: 98 rows of 3 columns.
  const result = view.snapshot([2, 0, 1], 5, 120);
  const pieces: unknown[] = [];
  for (const [rows, step] of [[98, 12], [4, 15]] as const) {
    await Promise.resolve();
    const [open] = world.socket.taken().filter(({ type }) => type === "open");
    assert.ok(open);
    const stream = open["stream"] as number;
    const first = open["first"] as number;
    pieces.push([open["kind"], open["columns"], first, open["count"]]);
    world.opened(stream);
    const ids = Array.from({ length: rows }, (_, n) => BigInt(first + n));
    const facts = { step, size: 107, snapshot: true, viewport: [first, first + (open["count"] as number) - 1] as const, columns: [0, 1, 2], added: [[0, rows - 1]] as const };
    world.socket.frame(updateFrame(stream, facts, [ids, ids.map(Number), ids.map(String)]));
    world.socket.say({ type: "ended", stream });
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(pieces, [["snapshot", [0, 1, 2], 5, 98], ["snapshot", [0, 1, 2], 103, 22]]);
  const { rows, versions } = await result;
  assert.deepEqual([...versions], [12, 15]);
  assert.equal(rows.length, 102);
  assert.deepEqual([rows[0], rows[101]], [["5", 5n, 5], ["106", 106n, 106]]);
});

test("a snapshot that fails says why", async () => {
  const world = new World();
  world.connect();
  const view = world.open();
  const refused = view.snapshot([0], 0, 5);
  world.socket.say({ type: "ended", stream: 2, error: "LimitError", text: "Too many streams." });
  await assert.rejects(refused, /Too many streams/);
  const lost = view.snapshot([0], 0, 5);
  world.socket.onclose?.();
  await assert.rejects(lost, /no connection/);
  await assert.rejects(view.snapshot([0], 0, 5), /no connection/);
});

test("closing leaves no timer, and no socket", () => {
  const world = new World();
  world.connect();
  world.open();
  world.link.close();
  assert.deepEqual([world.clock.waiting, world.socket.isClosed], [0, true]);
  const other = new World();
  other.socket.onclose?.();
  other.link.close();
  other.clock.pass(60_000);
  assert.deepEqual([other.clock.waiting, other.sockets.length], [0, 1]);
});

test("a thousand views opened and closed leave nothing", () => {
  const world = new World();
  world.connect();
  for (let n = 1; n <= 1000; n += 1) {
    const view = world.open();
    if (n % 2 === 0) {
      world.opened(n);
      world.answer(n);
    }
    view.close();
  }
  world.socket.taken();
  world.socket.onclose?.();
  world.clock.pass(250);
  world.connect();
  assert.deepEqual(world.socket.taken().map(({ type }) => type), ["hello"]);
});
