// What a page says first.

import type { PageMessage } from "../wire/messages.ts";

/** Of what pages and servers say to each other. */
export const VERSION = 1;

export function hello(token: string | undefined): PageMessage {
  return { type: "hello", version: VERSION, ...(token === undefined ? {} : { token }) };
}
