// The page: which view is shown, and the line about the connection.

import { ColumnMemory } from "../grid/columns.ts";
import { shownName } from "../grid/names.ts";
import { adopted } from "../link/early.ts";
import type { EarlySocket } from "../link/early.ts";
import { Link } from "../link/link.ts";
import { browserSocket } from "../link/socket.ts";
import type { Address } from "../views/address.ts";
import { make, setText } from "../views/dom.ts";
import { closeMenu } from "../views/menu.ts";
import { Notice } from "../views/notice.ts";
import { PlotView } from "../views/plotview.ts";
import { NOTHING } from "../views/query.ts";
import { TableView } from "../views/table.ts";
import { clockTime } from "../views/words.ts";
import { formatAddress, parseAddress } from "./address.ts";
import { loadChart } from "./chart.ts";
import { firstToken, liveUrl, takeToken } from "./door.ts";
import { HealthView } from "./health.ts";
import { LogIn } from "./login.ts";
import { localStore, storeToken } from "./storage.ts";
import { TableList } from "./tables.ts";
import { applyTheme, storedTheme } from "./theme.ts";
import type { Theme } from "./theme.ts";

/** Milliseconds that the list of tables is waited for before a table is opened that is not in it. */
const TABLES_MS = 1_000;
/** Milliseconds of rest before the address names a new position. */
const ADDRESS_MS = 300;

class Page {
  private readonly notice = new Notice();
  private readonly memory = new ColumnMemory(localStore());
  private readonly status = make("span", { class: "connection", attributes: { role: "status" } });
  private readonly content = make("div", { class: "content" });
  // Views are made when they are first shown.
  private list: TableList | undefined;
  private health: HealthView | undefined;
  private logIn: LogIn | undefined;
  private link: Link | undefined;
  /** The link whose refusal is shown. */
  private refused: Link | undefined;
  private table: TableView | PlotView | undefined;
  private shown = "";
  /** How far views were scrolled when they were left, in pixels: browsers forget it. */
  private readonly scrolled = new WeakMap<Element, number>();
  private address: Address = {};
  /** The fragment that `address` came from or went to. */
  private hash = "";
  private waitTimer = 0;
  private waited = false;
  private addressTimer = 0;
  private token: string | undefined;

  /** @param early the websocket, which has opened while the page was read */
  start(early: EarlySocket | undefined): void {
    const first = firstToken();
    const { token, rest } = takeToken(location.hash);
    if (token !== undefined) {
      history.replaceState(null, "", `${location.pathname}${rest}`);
      storeToken(token);
    }
    this.connect(first, early);
    applyTheme(storedTheme(localStore()), undefined);
    document.body.append(this.header(), this.content, this.notice.element);
    addEventListener("hashchange", () => this.arrive());
    addEventListener("online", () => this.link?.retry());
    this.arrive();
  }

  private header(): HTMLElement {
    const brand = make("a", { class: "brand", text: "barrage-server" });
    brand.href = "#";
    const themes = make("select", { attributes: { "aria-label": "Colours" } });
    for (const [theme, label] of [["system", "System"], ["light", "Light"], ["dark", "Dark"]] as const) {
      themes.append(make("option", { text: label, attributes: { value: theme } }));
    }
    themes.value = storedTheme(localStore());
    themes.addEventListener("change", () => applyTheme(themes.value as Theme, localStore()));
    const tables = make("a", { class: "to-tables", text: "Tables" });
    tables.href = "#";
    const health = make("a", { class: "to-health", text: "Health" });
    health.href = formatAddress({ health: true });
    return make("header", {}, brand, tables, health, this.status, themes);
  }

  /** Connects anew, with another token. */
  private begin(token: string | undefined): void {
    this.leaveTable();
    this.link?.close();
    this.connect(token);
    this.update();
  }

  private connect(token: string | undefined, early?: EarlySocket): void {
    this.token = token;
    let first = early;
    const link = new Link(liveUrl(), token, (url) => {
      const socket = first === undefined ? browserSocket(url) : adopted(first);
      first = undefined;
      return socket;
    });
    this.link = link;
    link.onChange(() => {
      if (this.link === link) this.update();
    });
  }

  /** The address names another view, by a link or by the user. */
  private arrive(): void {
    const { token, rest } = takeToken(location.hash);
    if (token !== undefined) {
      history.replaceState(null, "", `${location.pathname}${rest}`);
      storeToken(token);
      this.begin(token);
    }
    closeMenu();
    clearTimeout(this.addressTimer);
    this.addressTimer = 0;
    this.leaveTable();
    this.hash = location.hash;
    this.address = parseAddress(this.hash);
    this.waited = false;
    clearTimeout(this.waitTimer);
    this.waitTimer = 0;
    this.update();
  }

  private update(): void {
    const { link } = this;
    if (link === undefined) return;
    this.showStatus(link);
    if (link.state === "refused") {
      storeToken(undefined);
      this.leaveTable();
      const logIn = (this.logIn ??= new LogIn((token) => this.begin(token)));
      // Once for each attempt: what is entered since stays.
      if (this.refused !== link) logIn.refused(refusalText(link, this.token));
      this.refused = link;
      if (this.show("log-in", logIn.element)) logIn.focus();
      return;
    }
    if (link.state === "live" && this.token !== undefined) storeToken(this.token);
    const { table } = this.address;
    link.watchHealth(this.address.health === true);
    if (this.address.health === true) {
      const health = (this.health ??= new HealthView());
      health.update(link.health, link.state === "live");
      if (this.show("health", health.element)) document.title = "Health \u2013 barrage-server";
    } else if (table === undefined) {
      const list = (this.list ??= new TableList());
      list.update(link.tables, link.state === "live");
      if (this.show("tables", list.element)) document.title = "Tables \u2013 barrage-server";
    } else if (this.table !== undefined) {
      this.table.update();
    } else if (this.isReady(link, table)) {
      this.openTable(link, table);
    } else {
      this.show("waiting", make("main", { class: "waiting" }, make("p", { class: "muted", text: "Connecting to the server\u2026" })));
    }
  }

  /** The kind of a table decides how it is shown first: its entry in the list is waited for, but not for ever. */
  private isReady(link: Link, table: string): boolean {
    if (link.tables.has(table) || this.waited) return true;
    if (link.state === "live" && this.waitTimer === 0) {
      this.waitTimer = window.setTimeout(() => {
        this.waitTimer = 0;
        this.waited = true;
        this.update();
      }, TABLES_MS);
    }
    return false;
  }

  private openTable(link: Link, table: string): void {
    document.title = `${shownName(table)} \u2013 barrage-server`;
    this.show("table", undefined);
    if (this.address.plot !== undefined) {
      this.table = new PlotView(this.content, {
        link,
        landmark: "main",
        loadChart,
        moved: (address) => this.moved(address),
        open: (address) => {
          location.hash = formatAddress(address);
        },
      }, table, this.address.plot, this.address.query ?? NOTHING);
      return;
    }
    this.table = new TableView(this.content, {
      link,
      notice: this.notice,
      memory: this.memory,
      landmark: "main",
      takesFocus: true,
      moved: (address) => this.moved(address),
      open: (address) => {
        location.hash = formatAddress(address);
      },
    }, table, this.address);
  }

  private leaveTable(): void {
    this.table?.close();
    this.table = undefined;
    if (this.shown === "table") this.shown = "";
  }

  /** Shows one thing; true if it was not shown before. */
  private show(name: string, element: HTMLElement | undefined): boolean {
    if (this.shown === name) return false;
    const before = this.content.firstElementChild;
    if (before !== null) this.scrolled.set(before, before.scrollTop);
    this.shown = name;
    this.content.replaceChildren(...(element === undefined ? [] : [element]));
    const scrolled = element === undefined ? undefined : this.scrolled.get(element);
    if (element !== undefined && scrolled !== undefined) element.scrollTop = scrolled; // which lays the page out
    return true;
  }

  private moved(address: Address): void {
    if (location.hash !== this.hash) return; // the user goes elsewhere, and that is about to arrive
    this.address = address;
    if (this.addressTimer !== 0) return;
    this.addressTimer = window.setTimeout(() => {
      this.addressTimer = 0;
      if (location.hash !== this.hash) return; // as above
      const hash = formatAddress(this.address);
      if (hash === this.hash) return;
      history.replaceState(null, "", hash);
      this.hash = location.hash;
    }, ADDRESS_MS);
  }

  private showStatus(link: Link): void {
    const [state, text] = statusText(link);
    this.status.dataset["state"] = state;
    setText(this.status, text);
    document.body.classList.toggle("lost", state === "lost");
  }
}

/** Why the log-in is refused, in the words of the page; undefined: no token has been tried, so that none is wrong. */
function refusalText(link: Link, token: string | undefined): string | undefined {
  if (link.refusalError !== "AuthenticationError") return link.refusal ?? "The server has refused the log-in.";
  if (token === undefined) return undefined;
  return "The server does not accept this token. Copy it anew, or ask who runs the server for it.";
}

function statusText(link: Link): readonly [state: string, text: string] {
  switch (link.state) {
    case "live":
      return ["live", "Connected"];
    case "connecting":
      return ["connecting", link.problem ?? "Connecting\u2026"];
    case "refused":
      return ["refused", "Not logged in"];
    case "lost": {
      const since = link.lostSince === undefined ? "" : ` Old since ${clockTime(wallTime(link.lostSince))}.`;
      const why = link.problem === undefined ? "Connection lost." : `Connection lost: ${link.problem}`;
      return ["lost", `${why}${since} Trying again\u2026`];
    }
  }
}

/** A time of the page's clock as ms since 1970. */
function wallTime(ms: number): number {
  return performance.timeOrigin + ms;
}

new Page().start(window.barrageSocket);
window.barrageSocket = undefined;
