// The other side of tests/interop/peer.py in Node: functions that are called by JSON lines, as peers/loop.py does it.
//
// Nothing but messages goes to standard output: what anything else logs goes to standard error.

import { createInterface } from 'node:readline';

const write = process.stdout.write.bind(process.stdout);
const send = message => write(`${JSON.stringify(message)}\n`);

for (const level of ['log', 'info', 'debug', 'warn']) {
  console[level] = (...args) => console.error(...args);
}

/** What the test gave at the start. */
export const settings = JSON.parse(process.argv[2] ?? '{}');

/** Tell the test something unasked. */
export function say(event, fields = {}) {
  send({ event, ...fields });
}

/** Say that the peer is ready, and serve the functions, by name, until the test wants no more. */
export async function run(functions, hello) {
  say('ready', hello);
  for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    if (message.call === 'end') {
      break;
    }
    try {
      const value = await functions[message.call](message.with);
      send({ id: message.id, value: value ?? null });
    } catch (error) {
      const text = String(error?.message ?? error);
      send({ id: message.id, error: error?.constructor?.name ?? typeof error, text, trace: error?.stack ?? text });
    }
  }
  process.exit(0);
}
