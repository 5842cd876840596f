// Where the page's websocket is, and the token that opens it.

import { storedToken } from "./storage.ts";

/** The address of the websocket: beside the page. */
export function liveUrl(): string {
  const url = new URL("live", `${location.origin}${location.pathname}`);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

/** The token of a link's fragment, and the fragment without it. */
export function takeToken(hash: string): { readonly token: string | undefined; readonly rest: string } {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const token = fields.get("token");
  if (token === null) return { token: undefined, rest: hash };
  fields.delete("token");
  const rest = fields.toString();
  return { token: token === "" ? undefined : token, rest: rest === "" ? "" : `#${rest}` };
}

/** The token with which the page logs in at first: that of its link, or the one kept for the tab. */
export function firstToken(): string | undefined {
  return takeToken(location.hash).token ?? storedToken();
}
