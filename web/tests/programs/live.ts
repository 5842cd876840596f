// A page without a screen: `node live.ts URL ORIGIN [TOKEN]`. Reads commands from its input, a JSON object per line, and answers each
// with one: {do: "link"} the state of the link; {do: "open" | "move", table, view}; {do: "look"} what is in view, painted then;
// {do: "pause" | "resume" | "close"}; {do: "cell", row, column}; {do: "snapshot", columns, first, count}.

import { createInterface } from "node:readline";
import { argv, exit, stdin, stdout } from "node:process";

import type { Column, Value } from "../../src/cells/column.ts";
import { cellText } from "../../src/cells/text.ts";
import { Link, type WebSocketLike } from "../../src/link/link.ts";
import type { OpenView, View } from "../../src/link/view.ts";
import { SUBPROTOCOL } from "../../src/wire/messages.ts";

const [, , url = "", origin = "", token] = argv;

/** A browser names the page's origin by itself; Node is to be told. */
function makeSocket(): WebSocketLike {
  const options = { protocols: [SUBPROTOCOL], headers: { Origin: origin } };
  return new WebSocket(url, options as never) as unknown as WebSocketLike;
}

const link = new Link(url, token, makeSocket);
let view: OpenView | undefined;
let paints = 0;

interface Command {
  readonly do: string;
  readonly table?: string;
  readonly view?: View;
  readonly row?: number;
  readonly column?: number;
  readonly columns?: readonly number[];
  readonly first?: number;
  readonly count?: number;
}

function texts(rows: readonly (readonly (Value | undefined)[])[], columns: readonly (Column | undefined)[]): (string | null)[][] {
  return rows.map((row) => row.map((value, n) => {
    const column = columns[n];
    return value === undefined || column === undefined ? "missing" : value === null ? null : cellText(column, value);
  }));
}

function look(open: OpenView): unknown {
  open.painted();
  const { window, columns, kind, error, stale, paused } = open;
  const about = { kind, error: error ?? null, stale, paused, lag: open.lag() ?? null, paints, names: columns.map(({ name }) => name) };
  if (window === undefined) return about;
  const rows = Array.from({ length: window.count }, (_, n) => window.columns.map((column) => window.value(window.first + n, column)));
  return { ...about, size: window.size, first: window.first, columns: window.columns, version: window.version, rows: texts(rows, window.columns.map((n) => columns[n])) };
}

async function answer(command: Command): Promise<unknown> {
  if (command.do === "link") {
    const { state, refusal, problem, limits, server, operations, tables, roundTrip } = link;
    return { state, refusal: refusal ?? null, problem: problem ?? null, limits, server, operations, tables: [...tables.values()], roundTrip: roundTrip ?? null };
  }
  if (command.do === "open") {
    view = link.open(command.table ?? "", command.view as View, () => {
      paints += 1;
    });
    return {};
  }
  if (view === undefined) return { failed: "no view" };
  switch (command.do) {
    case "move":
      view.move(command.view as View);
      return {};
    case "look":
      return look(view);
    case "pause":
      view.pause();
      return {};
    case "resume":
      view.resume();
      return {};
    case "close":
      view.close();
      return {};
    case "cell":
      return { text: await view.cell(command.row ?? 0, command.column ?? 0) };
    case "snapshot": {
      const { columns: all } = view;
      const wanted = command.columns ?? [];
      const { rows } = await view.snapshot(wanted, command.first ?? 0, command.count ?? 0);
      return { rows: texts(rows, wanted.map((n) => all[n])) };
    }
    default:
      return { failed: "unknown command" };
  }
}

createInterface({ input: stdin })
  .on("line", (line) => {
    void answer(JSON.parse(line) as Command)
      .catch((error: unknown) => ({ failed: String(error) }))
      .then((found) => stdout.write(`${JSON.stringify(found)}\n`));
  })
  .on("close", () => exit(0));
