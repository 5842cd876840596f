// One display of a widget: a link through the kernel, and the view that it shows.

import { ColumnMemory } from "../grid/columns.ts";
import type { KeyValueStore } from "../grid/columns.ts";
import { Link } from "../link/link.ts";
import { mendLanguage } from "../plot/language.ts";
import type { Address } from "../views/address.ts";
import { make, setText } from "../views/dom.ts";
import { closeMenu } from "../views/menu.ts";
import { Notice } from "../views/notice.ts";
import { PlotView } from "../views/plotview.ts";
import { NOTHING } from "../views/query.ts";
import { TableView } from "../views/table.ts";
import { clockTime } from "../views/words.ts";
import { commSocket, linkName } from "./comm.ts";
import type { Model } from "./comm.ts";
import { Shell } from "./shell.ts";
import { heightOf, plotOf, targetOf, themeOf } from "./traits.ts";
import type { WidgetTarget } from "./traits.ts";

/** Milliseconds that the list of tables is waited for, which has the kind and the columns of a table. */
const TABLES_MS = 1_000;

export class Display {
  private readonly model: Model;
  private readonly stop = new AbortController();
  private readonly shell: Shell;
  private readonly status = make("div", { class: "connection", attributes: { role: "status" } });
  private readonly place = make("div", { class: "content" });
  private readonly notice = new Notice();
  private readonly memory = new ColumnMemory(memoryStore());
  private readonly link: Link;
  private target: WidgetTarget | undefined;
  private address: Address = {};
  private view: TableView | PlotView | undefined;
  /** Why the kernel has ended the last link. */
  private reason = "";
  private waitTimer = 0;
  private waited = false;
  private isShown = false;

  constructor(model: Model, el: HTMLElement) {
    this.model = model;
    const { signal } = this.stop;
    this.shell = new Shell(el, signal);
    this.status.hidden = true;
    this.shell.content.append(this.status, this.place, this.notice.element);
    this.link = new Link("", undefined, () => commSocket(model, linkName(), (why) => (this.reason = why)));
    this.link.onChange(() => this.update());
    const listen = (name: string, run: () => void): void => {
      model.on(`change:${name}`, run);
      signal.addEventListener("abort", () => model.off(`change:${name}`, run));
      run();
    };
    listen("theme", () => this.shell.setTheme(themeOf(model.get("theme"))));
    listen("height", () => this.shell.setHeight(heightOf(model.get("height"))));
    listen("_target", () => this.begin());
    listen("plot", () => this.begin());
    this.shell.onShown(() => {
      this.isShown = true;
      this.update();
    }, signal);
  }

  close(): void {
    clearTimeout(this.waitTimer);
    this.leave();
    this.notice.clear();
    this.link.close();
    this.stop.abort();
  }

  /** Shows what the traits say. */
  private begin(): void {
    this.target = targetOf(this.model.get("_target"));
    const plot = plotOf(this.model.get("plot"));
    this.open({ ...(this.target === undefined ? {} : { table: this.target.title }), ...(plot === undefined ? {} : { plot }) });
  }

  /** Goes to another view of the same table. */
  private open(address: Address): void {
    this.address = address;
    this.leave();
    this.update();
  }

  private leave(): void {
    closeMenu();
    this.view?.close();
    this.view = undefined;
  }

  private update(): void {
    this.showStatus();
    if (this.view !== undefined) this.view.update();
    else if (this.isShown && this.target !== undefined && this.isReady(this.target)) this.show(this.target);
  }

  /** The kind of a table decides how it is shown first, and a plot needs its columns: its entry in the list is waited for, but not for ever. */
  private isReady({ title, ticket }: WidgetTarget): boolean {
    if (ticket !== undefined || this.waited || this.link.tables.has(title)) return true;
    if (this.link.state === "live" && this.waitTimer === 0) {
      this.waitTimer = window.setTimeout(() => {
        this.waited = true;
        this.update();
      }, TABLES_MS);
    }
    return false;
  }

  private show({ title, ticket }: WidgetTarget): void {
    const { address } = this;
    const takesFocus = this.shell.isFocused;
    const page = {
      link: this.link,
      notice: this.notice,
      memory: this.memory,
      landmark: "section" as const,
      takesFocus,
      loadChart,
      moved: (now: Address) => (this.address = now),
      open: (next: Address) => this.open(next),
      ...(ticket === undefined ? {} : { ticket }),
    };
    if (address.plot !== undefined) this.view = new PlotView(this.place, page, title, address.plot, address.query ?? NOTHING);
    else this.view = new TableView(this.place, page, title, address);
  }

  private showStatus(): void {
    const text = this.statusText();
    this.status.hidden = text === undefined;
    this.status.dataset["state"] = this.link.state;
    setText(this.status, text ?? "");
  }

  /** undefined: there is nothing to say. */
  private statusText(): string | undefined {
    const { link } = this;
    const why = link.problem ?? this.reason;
    switch (link.state) {
      case "live":
        return this.target === undefined ? "This widget names no table." : undefined;
      case "connecting":
        return why === "" ? "Connecting through the kernel\u2026" : why;
      case "refused":
        return link.refusal ?? "The server has refused the log-in.";
      case "lost": {
        const since = link.lostSince === undefined ? "" : ` Old since ${clockTime(performance.timeOrigin + link.lostSince)}.`;
        return `Connection lost${why === "" ? "." : `: ${why}`}${since} Trying again\u2026 If the kernel was restarted, run the cell again.`;
      }
    }
  }
}

function loadChart(): Promise<typeof import("../plot/chart.ts")> {
  mendLanguage();
  return import("../plot/chart.ts");
}

/** Remembers columns as long as the display. */
function memoryStore(): KeyValueStore {
  const kept = new Map<string, string>();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  };
}
