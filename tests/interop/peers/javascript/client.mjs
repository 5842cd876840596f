// Deephaven's JavaScript API in Node, which does what the test says.
//
// Settings: modules (a folder with node_modules that has @deephaven/jsapi-nodejs), api (a folder with jsapi/dh-core.js,
// as a Deephaven server serves it), storage (a folder of its own).

import { createReadStream, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';
import { run, say, settings } from './loop.mjs';

// The API keeps timers and sockets of its own; what goes wrong in them belongs to the test, which asks for it.
const faults = [];
process.on('unhandledRejection', error => faults.push(String(error?.stack ?? error)));
process.on('uncaughtException', error => faults.push(String(error?.stack ?? error)));

/** The API, loaded from a web server as its own loader does it. */
async function load() {
  const entry = join(settings.modules, 'node_modules', '@deephaven', 'jsapi-nodejs', 'dist', 'index.js');
  const { loadDhModules } = await import(pathToFileURL(entry).href);
  const files = createServer((request, response) => {
    const path = join(settings.api, normalize(request.url));
    if (existsSync(path)) {
      createReadStream(path).pipe(response);
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise(resolve => files.listen(0, '127.0.0.1', resolve));
  try {
    mkdirSync(settings.storage, { recursive: true });
    writeFileSync(join(settings.storage, 'package.json'), '{"type": "module"}');
    return await loadDhModules({
      serverUrl: `http://127.0.0.1:${files.address().port}`,
      storageDir: settings.storage,
      targetModuleType: 'esm',
    });
  } finally {
    files.closeAllConnections();
    files.close();
  }
}

const dh = await load();
const things = new Map();
let count = 0;

function keep(thing) {
  count += 1;
  things.set(count, thing);
  return count;
}

/** A cell as JSON can say it: what the API wraps comes as {text}, and numbers that JSON lacks as {number}. */
function plain(value) {
  if (value === null || value === undefined) {
    return null;
  }
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return Array.from(value, plain);
  }
  if (typeof value === 'number') {
    return Number.isFinite(value) && !Object.is(value, -0) ? value : { number: Object.is(value, -0) ? '-0' : String(value) };
  }
  if (typeof value === 'object') {
    return { text: value.toString() };
  }
  return value;
}

/** Row keys as numbers. */
function keys(ranges) {
  const found = [];
  const iterator = ranges.iterator();
  while (iterator.hasNext()) {
    found.push(iterator.next().value.asNumber());
  }
  return found;
}

function cells(data, columns) {
  return Object.fromEntries(columns.map(column => [column.name, data.rows.map(row => plain(row.get(column)))]));
}

function columnsOf(table, names) {
  return names ? table.findColumns(names) : table.columns;
}

function watched(thing, events, id) {
  for (const event of events) {
    thing.addEventListener(event, ({ detail }) => say(`${event}:${id}`, { text: String(detail?.errorMessage ?? detail ?? '') }));
  }
}

const functions = {
  /** Connect and log in; gives the client and its connection. */
  async connect({ url, type, user, token, options }) {
    const client = new dh.CoreClient(url, options ?? undefined);
    // what is not given must not be there at all
    await client.login({ type, ...(user && { username: user }), ...(token && { token }) });
    const connection = await client.getAsIdeConnection();
    const id = keep({ client, connection });
    watched(connection, [dh.IdeConnection.EVENT_DISCONNECT, dh.IdeConnection.EVENT_RECONNECT], id);
    watched(connection, [dh.IdeConnection.EVENT_SHUTDOWN, dh.CoreClient.EVENT_RECONNECT_AUTH_FAILED], id);
    return id;
  },

  /** What a server tells before log-in, and after. */
  async settings({ url, connection }) {
    const client = connection ? things.get(connection).client : new dh.CoreClient(url);
    const values = await (connection ? client.getServerConfigValues() : client.getAuthConfigValues());
    return Object.fromEntries(values);
  },

  disconnect({ connection }) {
    things.get(connection).client.disconnect();
    things.delete(connection);
  },

  /** Tell of the server's tables, as they come and go. */
  watch({ connection }) {
    const names = fields => fields.map(field => [field.title ?? field.name, field.type]);
    things.get(connection).connection.subscribeToFieldUpdates(change =>
      say(`fields:${connection}`, {
        created: names(change.created),
        updated: names(change.updated),
        removed: names(change.removed),
      })
    );
  },

  /** The languages of scripts. */
  async languages({ connection }) {
    return await things.get(connection).connection.getConsoleTypes();
  },

  /** Run a script; its error, and the tables that it made, replaced and deleted. */
  async script({ connection, code }) {
    const held = things.get(connection);
    if (!held.session) {
      held.session = await held.connection.startSession('python');
      held.connection.onLogMessage(item => say(`printed:${connection}`, { text: item.message, level: item.logLevel }));
    }
    const { error, changes } = await held.session.runCode(code);
    const names = fields => fields.map(field => field.title ?? field.name).sort();
    return {
      error: error ?? '',
      created: names(changes.created),
      updated: names(changes.updated),
      removed: names(changes.removed),
    };
  },

  async open({ connection, name }) {
    const table = await things.get(connection).connection.getObject({ name, type: 'Table' });
    const number = keep(table);
    watched(table, [dh.Table.EVENT_DISCONNECT, dh.Table.EVENT_RECONNECT, dh.Table.EVENT_REQUEST_FAILED], number);
    return {
      number,
      columns: table.columns.map(column => [column.name, column.type]),
      size: table.size,
      refreshing: table.isRefreshing,
      blink: table.isBlinkTable(),
    };
  },

  /** A viewport; what is in it is told whenever it changes. The API has two ways to ask: the newer takes options. */
  viewport({ table, first, last, columns, interval, options }) {
    const source = things.get(table);
    const wanted = columnsOf(source, columns);
    const subscription = options
      ? source.createViewportSubscription({ rows: { first, last }, columns: wanted, updateIntervalMs: interval })
      : source.setViewport(first, last, wanted, interval);
    const id = keep(subscription);
    subscription.addEventListener(dh.Table.EVENT_UPDATED, ({ detail }) =>
      say(`viewport:${id}`, { offset: detail.offset, cells: cells(detail, detail.columns), size: source.size })
    );
    watched(subscription, [dh.Table.EVENT_REQUEST_FAILED], id);
    return id;
  },

  /** Look elsewhere with the same viewport. */
  move({ table, viewport, first, last, columns, options }) {
    const wanted = columnsOf(things.get(table), columns);
    if (options) {
      things.get(viewport).update({ rows: { first, last }, columns: wanted });
    } else {
      things.get(viewport).setViewport(first, last, wanted);
    }
  },

  /** The present size of a table, as far as the server has told. */
  size({ table }) {
    return things.get(table).size;
  },

  /** A subscription to all rows; each of its updates is told, and what the table is after it. */
  subscribe({ table, columns, interval, options }) {
    const source = things.get(table);
    const wanted = columnsOf(source, columns);
    const subscription = options
      ? source.createSubscription({ columns: wanted, updateIntervalMs: interval })
      : source.subscribe(wanted, interval);
    const id = keep(subscription);
    subscription.addEventListener(dh.Table.EVENT_UPDATED, ({ detail }) =>
      say(`updated:${id}`, {
        added: keys(detail.added),
        removed: keys(detail.removed),
        modified: keys(detail.modified),
        index: keys(detail.fullIndex),
        cells: cells(detail, detail.columns),
      })
    );
    watched(subscription, [dh.Table.EVENT_REQUEST_FAILED], id);
    return id;
  },

  /** A subscription to all of a large table: only its size and the sum of one column are told. */
  sum({ table, column, interval }) {
    const source = things.get(table);
    const found = source.findColumn(column);
    const subscription = source.subscribe(source.columns, interval);
    const id = keep(subscription);
    subscription.addEventListener(dh.Table.EVENT_UPDATED, ({ detail }) => {
      let sum = 0;
      const iterator = detail.fullIndex.iterator();
      while (iterator.hasNext()) {
        sum += detail.getData(iterator.next().value, found);
      }
      say(`sum:${id}`, { rows: detail.fullIndex.size, sum });
    });
    watched(subscription, [dh.Table.EVENT_REQUEST_FAILED], id);
    return id;
  },

  /** What a table has now, once. */
  async snapshot({ table, first, last, columns }) {
    const source = things.get(table);
    const wanted = columnsOf(source, columns);
    const data = await source.createSnapshot({
      columns: wanted,
      rows: { first, last },
    });
    return cells(data, wanted);
  },

  // What the server is asked to compute; it answers with an event of the table.

  sort({ table, column, descending }) {
    const source = things.get(table);
    const sort = source.findColumn(column).sort();
    source.applySort([descending ? sort.desc() : sort.asc()]);
  },

  filter({ table, column, atLeast, text }) {
    const source = things.get(table);
    const of = source.findColumn(column).filter();
    source.applyFilter([
      text === undefined ? of.greaterThanOrEqualTo(dh.FilterValue.ofNumber(atLeast)) : of.eq(dh.FilterValue.ofString(text)),
    ]);
  },

  async columns({ table, added }) {
    const source = things.get(table);
    const settled = new Promise(resolve => {
      source.addEventListener(dh.Table.EVENT_CUSTOMCOLUMNSCHANGED, resolve);
      source.addEventListener(dh.Table.EVENT_REQUEST_FAILED, resolve);
    });
    source.applyCustomColumns(added);
    await settled;
  },

  close({ id }) {
    things.get(id).close();
    things.delete(id);
  },

  /** Errors without a handler since the last call. */
  faults() {
    return faults.splice(0);
  },
};

await run(functions, { node: process.version, pid: process.pid });
