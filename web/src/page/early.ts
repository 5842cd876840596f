// Runs before the rest of the page has been read: the websocket opens meanwhile, and the server says what it says at first.

import { openEarly } from "../link/early.ts";
import type { EarlySocket } from "../link/early.ts";
import { firstToken, liveUrl } from "./door.ts";

declare global {
  interface Window {
    barrageSocket?: EarlySocket | undefined;
  }
}

window.barrageSocket = openEarly(liveUrl(), firstToken());
