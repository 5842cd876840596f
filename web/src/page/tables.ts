// The list of tables.

import { shownName } from "../grid/names.ts";
import { button, make, setText } from "../views/dom.ts";
import { count, counted, rate } from "../views/words.ts";
import type { TableInfo } from "../wire/messages.ts";
import { formatAddress } from "./address.ts";

/** Rows that are shown; a search finds the others. */
const MOST_SHOWN = 500;

/** Columns that are named beside their table. */
const PREVIEWED = 12;

interface Line {
  readonly row: HTMLTableRowElement;
  readonly details: HTMLTableRowElement;
  readonly more: HTMLButtonElement;
  readonly link: HTMLAnchorElement;
  readonly preview: HTMLElement;
  readonly kind: HTMLElement;
  readonly rows: HTMLElement;
  readonly rate: HTMLElement;
  readonly width: HTMLElement;
  shown: TableInfo | undefined;
}

/** Tables of which every word of `search` is in the name, the kind or a column's name, by name. */
export function found(tables: Iterable<TableInfo>, search: string): readonly TableInfo[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matches = (table: TableInfo): boolean => {
    const texts = [table.name, table.kind, ...table.columns.map(([name]) => name)].map((text) => text.toLowerCase());
    return words.every((word) => texts.some((text) => text.includes(word)));
  };
  return [...tables].filter(matches).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** The first columns' names; an ellipsis stands for the others. */
export function preview({ columns, width }: Pick<TableInfo, "columns" | "width">): string {
  const names = columns.slice(0, PREVIEWED).map(([name]) => shownName(name));
  return [...names, ...(width > names.length ? ["\u2026"] : [])].join(" \u00b7 ");
}

export class TableList {
  readonly element: HTMLElement;
  private readonly search: HTMLInputElement;
  private readonly summary: HTMLElement;
  private readonly body: HTMLTableSectionElement;
  private readonly lines = new Map<string, Line>();
  private tables: ReadonlyMap<string, TableInfo> = new Map();
  private live = false;

  constructor() {
    this.search = make("input", {
      attributes: { type: "search", placeholder: "Search tables and columns", "aria-label": "Search tables and columns", spellcheck: "false" },
      on: { input: () => this.render() },
    });
    this.summary = make("p", { class: "muted summary", attributes: { role: "status" } });
    this.body = make("tbody");
    const head = make(
      "tr", {},
      make("th", { text: "Name", attributes: { scope: "col" } }),
      make("th", { text: "Kind", attributes: { scope: "col" } }),
      make("th", { class: "number", text: "Rows", attributes: { scope: "col" } }),
      make("th", { class: "number", text: "Changes/s", attributes: { scope: "col" } }),
      make("th", { class: "number", text: "Columns", attributes: { scope: "col" } }),
    );
    this.element = make(
      "main", { class: "tables" },
      make("div", { class: "tables-head" }, make("h1", { text: "Tables" }), this.summary, this.search),
      make("table", { class: "list" }, make("thead", {}, head), this.body),
    );
  }

  update(tables: ReadonlyMap<string, TableInfo>, live: boolean): void {
    this.tables = tables;
    this.live = live;
    this.render();
  }

  focus(): void {
    this.search.focus();
  }

  private render(): void {
    const matching = found(this.tables.values(), this.search.value);
    const shown = matching.slice(0, MOST_SHOWN);
    setText(this.summary, this.summaryText(matching.length));
    this.element.classList.toggle("stale", !this.live);
    const wanted = new Set(shown.map((table) => table.name));
    for (const [name, line] of this.lines) {
      if (wanted.has(name)) continue;
      line.row.remove();
      line.details.remove();
      this.lines.delete(name);
    }
    let before: Element | null = null;
    for (const table of shown) {
      const line = this.line(table.name);
      this.fill(line, table);
      const next: Element | null = before === null ? this.body.firstElementChild : before.nextElementSibling;
      if (next !== line.row) {
        this.body.insertBefore(line.row, next);
        this.body.insertBefore(line.details, line.row.nextElementSibling);
      }
      before = line.details;
    }
  }

  private summaryText(matching: number): string {
    const all = this.tables.size;
    if (!this.live && all === 0) return "Connecting to the server\u2026";
    if (all === 0) return "The server has no tables yet. They appear here as soon as they are created.";
    const part = matching === all ? counted(all, "table") : `${count(matching)} of ${counted(all, "table")}`;
    return matching > MOST_SHOWN ? `${part}; the first ${count(MOST_SHOWN)} are shown` : part;
  }

  private line(name: string): Line {
    const there = this.lines.get(name);
    if (there !== undefined) return there;
    const link = make("a", { text: shownName(name), title: shownName(name) });
    link.href = formatAddress({ table: name });
    const details = make("tr", { class: "details" });
    details.hidden = true;
    const more = button("", () => this.toggle(name), { class: "more", attributes: { "aria-expanded": "false", "aria-label": `Columns of ${shownName(name)}` } });
    const line: Line = {
      link, details, more,
      preview: make("span", { class: "muted preview" }),
      kind: make("td", { class: "kind" }), rows: make("td", { class: "number" }), rate: make("td", { class: "number" }),
      width: make("span"), row: make("tr"), shown: undefined,
    };
    line.row.append(
      make("td", { class: "name" }, link, line.preview), line.kind, line.rows, line.rate, make("td", { class: "number" }, line.width, " ", more),
    );
    this.lines.set(name, line);
    return line;
  }

  private fill(line: Line, table: TableInfo): void {
    if (line.shown === table) return;
    const columns = line.shown?.columns;
    line.shown = table;
    setText(line.kind, table.kind);
    setText(line.rows, table.rows === undefined ? "\u2013" : count(table.rows));
    setText(line.rate, !table.rate ? "\u2013" : rate(table.rate));
    setText(line.width, count(table.width));
    if (columns === table.columns) return;
    setText(line.preview, preview(table));
    if (!line.details.hidden) this.fillDetails(line);
  }

  private toggle(name: string): void {
    const line = this.lines.get(name);
    if (line === undefined) return;
    line.details.hidden = !line.details.hidden;
    line.more.setAttribute("aria-expanded", String(!line.details.hidden));
    if (!line.details.hidden) this.fillDetails(line);
  }

  private fillDetails(line: Line): void {
    const { shown } = line;
    if (shown === undefined) return;
    const list = make("ul", { class: "columns" });
    for (const [name, type] of shown.columns) {
      list.append(make("li", {}, make("span", { text: shownName(name) }), " ", make("span", { class: "muted", text: shownName(type) })));
    }
    if (shown.width > shown.columns.length) {
      list.append(make("li", { class: "muted", text: `and ${counted(shown.width - shown.columns.length, "further column")}` }));
    }
    const cell = make("td", { attributes: { colspan: "5" } }, list);
    line.details.replaceChildren(cell);
  }
}
