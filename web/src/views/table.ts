// The view of one table.

import type { Column } from "../cells/column.ts";
import type { Format } from "../cells/format.ts";
import { plainText } from "../cells/text.ts";
import { ColumnLayout } from "../grid/columns.ts";
import type { ColumnMemory } from "../grid/columns.ts";
import { CopyError, copyAll, copyHeld } from "../grid/copy.ts";
import type { Copied, CopyForm, CopySource } from "../grid/copy.ts";
import { FIRST_MS, Grid } from "../grid/grid.ts";
import { shownName } from "../grid/names.ts";
import { followsEnd } from "../grid/scroll.ts";
import { cells } from "../grid/selection.ts";
import type { Link } from "../link/link.ts";
import { QUIET_MS } from "../link/view.ts";
import type { OpenView } from "../link/view.ts";
import type { Query, TableInfo } from "../wire/messages.ts";
import { MOST_NAMED_COLUMNS } from "./address.ts";
import type { Address, NumberFormats } from "./address.ts";
import { CellPanel } from "./cellpanel.ts";
import { copyText } from "./clipboard.ts";
import { onColours } from "./colours.ts";
import { ColumnPanel } from "./columnpanel.ts";
import { make, setText } from "./dom.ts";
import { columnFormats } from "./formats.ts";
import { headMenu } from "./headmenu.ts";
import { openMenu } from "./menu.ts";
import type { Notice } from "./notice.ts";
import { canPick } from "./operations.ts";
import { FULL, NOTHING, isEmpty } from "./query.ts";
import { QueryBar } from "./querybar.ts";
import { Toolbar, copyEntries } from "./toolbar.ts";
import type { BarState } from "./toolbar.ts";
import { copiedText, count, counted, lag, rate, withoutStep } from "./words.ts";

export interface TablePage {
  readonly link: Link;
  readonly notice: Notice;
  readonly memory: ColumnMemory;
  /** Of the view: "main" where it is the page's. */
  readonly landmark: "main" | "section";
  /** A Flight ticket in base64, of what is shown instead of the table of that name. */
  readonly ticket?: string;
  /** Whether the grid gets the keys at once. */
  readonly takesFocus: boolean;
  /** Shows what is in view in the address. */
  moved(address: Address): void;
  /** Goes to another view. */
  open(address: Address): void;
}

/** Milliseconds without rows after which the page says so. */
const EMPTY_MS = 700;
/** Milliseconds between two updates of the line below the grid. */
const LINE_MS = 250;

export class TableView {
  readonly element: HTMLElement;
  private readonly page: TablePage;
  private readonly table: string;
  private readonly address: Address;
  private readonly view: OpenView;
  private readonly grid: Grid;
  private readonly bar: Toolbar;
  private readonly query: Query;
  private readonly queryBar: QueryBar;
  private readonly cover = make("div", { class: "cover", attributes: { role: "status" } });
  private readonly body: HTMLElement;
  private readonly stop = new AbortController();
  // Made when they are first shown.
  private columnPanel: ColumnPanel | undefined;
  private cellPanel: CellPanel | undefined;
  private panel: BarState["panel"];
  private format: Format | undefined;
  private kind: string;
  private lineTimer = 0;
  private coverTimer = 0;
  private emptyTimer = 0;
  private quietTimer = 0;
  private wasEmpty = false;
  /** Whether the address or the user has named a row or the end. */
  private placed: boolean;

  /** @param place where the view is shown: the grid measures itself */
  constructor(place: HTMLElement, page: TablePage, table: string, address: Address) {
    this.page = page;
    this.table = table;
    this.address = address;
    const { info } = this;
    this.placed = address.follow !== undefined;
    this.query = address.query ?? NOTHING;
    this.kind = this.query.sort.length > 0 ? "derived" : info?.kind ?? ""; // the end of an order is not what is newest
    this.bar = this.makeBar();
    this.queryBar = new QueryBar(this.query, (query) => this.ask(query));
    const host = make("div", { class: "grid" });
    this.body = make("div", { class: "table-body" }, make("div", { class: "grid-space" }, host, this.cover));
    this.element = make(page.landmark, { class: "table", attributes: page.landmark === "main" ? {} : { "aria-label": `Table ${shownName(table)}` } }, this.bar.element, this.queryBar.element, this.body, this.bar.line);
    place.append(this.element);
    this.grid = new Grid(host, "cells", this.kind, {
      changed: () => this.changed(),
      columnsChanged: () => this.saveColumns(),
      openCell: () => this.openPanel("cell"),
      openMenu: (part, x, y) => this.menu(part, x, y),
      copy: () => this.copy("text"),
    });
    this.grid.expectedRows = info?.rows ?? 0;
    this.grid.sorts = new Map(this.query.sort.map(({ column, descending }) => [column, descending ? "\u25bc" : "\u25b2"]));
    this.grid.limits = page.link.limits;
    if (address.follow !== undefined) this.grid.startAt(address.row ?? 0, address.follow);
    this.format = address.formats === undefined ? page.memory.load(table).format : address.formats.others;
    this.grid.setFormat(this.format);
    this.view = page.link.open(table, this.grid.firstDemand(info?.width ?? 0), () => this.updated(), isEmpty(this.query) ? undefined : this.query, page.ticket);
    this.coverTimer = window.setTimeout(() => {
      this.coverTimer = 0;
      this.showCover();
    }, FIRST_MS);
    this.grid.attach(this.view, (columns, usual) => this.layOut(columns, usual));
    onColours(this.element, () => this.grid.restyle(), this.stop.signal);
    host.addEventListener("keydown", (event) => this.key(event));
    this.updated();
    if (page.takesFocus) this.grid.focus();
  }

  /** What the list of tables says of it; undefined: it is not in there. */
  private get info(): TableInfo | undefined {
    return this.page.ticket === undefined ? this.page.link.tables.get(this.table) : undefined;
  }

  /** The link's state or its list of tables has changed. */
  update(): void {
    this.grid.limits = this.page.link.limits;
    this.updated();
  }

  close(): void {
    clearTimeout(this.lineTimer);
    clearTimeout(this.coverTimer);
    clearTimeout(this.emptyTimer);
    clearTimeout(this.quietTimer);
    this.stop.abort();
    this.view.close();
    this.grid.close();
    this.element.remove();
  }

  private makeBar(): Toolbar {
    return new Toolbar(this.table, {
      goTo: (row) => {
        this.page.notice.clear();
        this.placed = true;
        this.grid.goTo(row);
        this.grid.focus();
      },
      follow: () => this.grid.follow(!this.grid.scroller.following),
      pause: () => {
        if (this.view.paused) this.view.resume();
        else this.view.pause();
        this.showBar();
      },
      rows: () => {
        this.queryBar.toggle(isEmpty(this.query));
        this.showBar();
      },
      columns: () => this.openPanel(this.panel === "columns" ? undefined : "columns"),
      plot: () => this.page.open({ table: this.table, query: { ...this.query, sort: [] }, plot: { ys: [], range: { kind: "all" } } }),
      cell: () => this.openPanel(this.panel === "cell" ? undefined : "cell"),
      copy: (form) => this.copy(form),
      format: () => this.format,
      setFormat: (format) => {
        this.format = format;
        this.grid.setFormat(format);
        this.saveColumns();
        this.page.moved(this.addressNow());
      },
      say: (text) => this.page.notice.say(text),
    });
  }

  /** Something of the view has changed. */
  private updated(): void {
    if (this.kind === "" && this.view.kind !== "") {
      this.kind = this.view.kind;
      this.grid.scroller.sticky = followsEnd(this.kind);
      if (this.grid.scroller.sticky && !this.placed) this.grid.follow(true);
    }
    this.grid.invalidate();
    this.showCover();
    this.showBar();
    this.laterLine();
    clearTimeout(this.quietTimer);
    this.quietTimer = window.setTimeout(() => this.laterLine(), QUIET_MS + LINE_MS);
  }

  private changed(): void {
    this.showCover();
    this.showBar();
    this.showPanel();
    this.laterLine();
    if (this.grid.layout.columns.length > 0) this.page.moved(this.addressNow());
  }

  private showCover(): void {
    const { view, grid } = this;
    const isLost = this.page.link.state !== "live" && view.window !== undefined;
    const told = this.queryBar.fail(isLost || view.error === undefined ? undefined : withoutStep(view.error), view.window === undefined);
    const isEarly = this.coverTimer !== 0 && view.window === undefined && view.error === undefined;
    const text = isLost || told || isEarly ? undefined : coverText(this.table, view, grid.layout, this.isEmpty(view), this.query);
    this.cover.hidden = text === undefined;
    this.body.classList.toggle("stale", view.stale);
    if (text !== undefined) setText(this.cover, text);
  }

  /** Whether there have been no rows for a moment: a blink table has none again and again. */
  private isEmpty(view: OpenView): boolean {
    if (view.window === undefined || view.window.size > 0) {
      clearTimeout(this.emptyTimer);
      this.emptyTimer = 0;
      this.wasEmpty = false;
    } else if (this.emptyTimer === 0) {
      this.emptyTimer = window.setTimeout(() => {
        this.wasEmpty = true;
        this.showCover();
      }, EMPTY_MS);
    }
    return this.wasEmpty;
  }

  private showBar(): void {
    this.bar.show({ kind: this.kind, following: this.grid.scroller.following, paused: this.view.paused, panel: this.panel, canPick: this.page.link.operations.includes("filter"), picking: this.queryBar.isShown });
  }

  private laterLine(): void {
    if (this.lineTimer !== 0) return;
    const show = (): void => {
      this.showLine();
      this.showPanel(); // the active cell may have come, or changed
    };
    show();
    this.lineTimer = window.setTimeout(() => {
      this.lineTimer = 0;
      show();
    }, LINE_MS);
  }

  private showLine(): void {
    const { grid, view } = this;
    const { position, extent } = grid.scroller;
    const { rows } = extent;
    const last = Math.min(rows, position.row + Math.max(1, Math.floor(position.fraction + extent.visible)));
    const inView = rows === 0 ? "" : `${count(position.row + 1)}\u2013${count(last)} of `;
    const areas = grid.selection.areas;
    const selected = areas.reduce((sum, area) => sum + cells(area), 0);
    const { info } = this;
    const held = view.window;
    const isHeld = held !== undefined && (rows === 0 || (held.first <= position.row && held.first + held.count >= last));
    const paused = isHeld ? "paused" : "paused; other rows come when you go on";
    const behind = view.paused ? paused : view.stale ? "old" : lag(view.lag());
    this.bar.showLine({
      rows: view.window === undefined && view.error !== undefined ? "" : `${inView}${counted(rows, "row")}`,
      selected: selected > 1 ? `${counted(selected, "cell")} selected` : "",
      rate: info?.rate === undefined ? "" : `${rate(info.rate)} changes/s`,
      lag: view.window === undefined ? "" : behind,
    });
  }

  private layOut(columns: readonly Column[], usual: (column: number) => number): ColumnLayout {
    const { formats } = this.address;
    const saved = this.page.memory.load(this.table);
    const layout = new ColumnLayout(columns, usual, formats === undefined ? saved : { ...saved, formats: Object.fromEntries(formats.columns) });
    if (this.address.columns !== undefined) {
      const numbers = new Map(columns.map((column, number) => [column.name, number]));
      layout.showOnly(this.address.columns.map((name) => numbers.get(name)).filter((number) => number !== undefined));
      if (layout.shown.length === 0) layout.showAll();
    }
    return layout;
  }

  private saveColumns(): void {
    const saved = this.grid.layout.save();
    this.page.memory.save(this.table, this.format === undefined ? saved : { ...saved, format: this.format });
    this.showPanel();
  }

  private addressNow(): Address {
    const { scroller, layout } = this.grid;
    const names = layout.shown.map((column) => layout.columns[column]?.name ?? "");
    return {
      table: this.table,
      ...(scroller.following ? { follow: true } : { row: scroller.position.row, follow: false }),
      ...(isEmpty(this.query) ? {} : { query: this.query }),
      ...(layout.isUsual || names.length > MOST_NAMED_COLUMNS ? {} : { columns: names }),
      ...this.formatsNow(),
    };
  }

  private formatsNow(): { readonly formats?: NumberFormats } {
    const { layout } = this.grid;
    const { format: others } = this;
    if (others === undefined && layout.formats.size === 0) return {};
    const columns = new Map([...layout.formats].map(([column, format]) => [layout.columns[column]?.name ?? "", format]));
    return { formats: others === undefined ? { columns } : { others, columns } };
  }

  private openPanel(panel: BarState["panel"]): void {
    const before = this.panel;
    this.panel = panel;
    this.cellPanel?.element.remove();
    this.columnPanel?.element.remove();
    if (panel === "cell") {
      this.cellPanel ??= new CellPanel(() => this.openPanel(undefined), (text) => this.put(text, "the cell"));
      this.body.append(this.cellPanel.element);
    }
    if (panel === "columns") {
      this.columnPanel ??= new ColumnPanel({
        close: () => this.openPanel(undefined),
        changed: () => this.grid.layoutChanged(),
        show: (column) => this.grid.goToColumn(column),
      });
      this.body.append(this.columnPanel.element);
    }
    this.showPanel();
    this.showBar();
    if (panel === "columns" && before !== "columns") this.columnPanel?.focus();
    else this.grid.focus();
  }

  private showPanel(): void {
    const { grid, view } = this;
    if (this.panel === "columns") this.columnPanel?.update(grid.layout, view.columns);
    if (this.panel !== "cell") return;
    const number = grid.activeColumn;
    const column = number === undefined ? undefined : view.columns[number];
    const { row } = grid.selection.active;
    if (number !== undefined && column !== undefined) {
      this.cellPanel?.show(view, row, number, column, view.window?.value(row, number));
    }
  }

  private menu(part: "head" | "cell", x: number, y: number): void {
    const copies = copyEntries((form) => this.copy(form));
    if (part === "cell") {
      openMenu(this.element, "Cell", [copies, [{ label: "Show the whole cell", run: () => this.openPanel("cell") }]], x, y);
      return;
    }
    const { grid, view } = this;
    const number = grid.activeColumn;
    const column = number === undefined ? undefined : view.columns[number];
    if (number === undefined || column === undefined) return;
    const value = view.window?.value(grid.selection.active.row, number);
    const cell = value === undefined || value === null ? value : plainText(column, value);
    const text = canPick(column, cell) ? cell : undefined;
    const numbers = (): void => {
      const groups = columnFormats(column, grid.layout.formats.get(number), this.format, (format) => grid.formatColumn(number, format));
      openMenu(this.element, `Numbers of ${shownName(column.name)}`, groups, x, y);
    };
    const groups = headMenu(grid, column, text, this.page.link.operations, this.query, (query) => this.ask(query), numbers);
    openMenu(this.element, `Column ${shownName(column.name)}`, [...groups, copies], x, y);
  }

  /** Shows other rows, or in another order: the view opens anew. undefined: there are too many parts. */
  private ask(query: Query | undefined): void {
    if (query === undefined) {
      this.page.notice.say(FULL);
      return;
    }
    const { columns, formats } = this.addressNow();
    this.page.open({ table: this.table, query, ...(columns === undefined ? {} : { columns }), ...(formats === undefined ? {} : { formats }) });
  }

  private copy(form: CopyForm): void {
    const { grid, view } = this;
    const { areas } = grid.selection;
    const { shown } = grid.layout;
    const source: CopySource = {
      columns: view.columns,
      get step() {
        return view.step;
      },
      value: (row, column) => view.window?.value(row, column),
      snapshot: (columns, first, rows) => view.snapshot(columns, first, rows),
    };
    const what = counted(areas.reduce((sum, area) => sum + cells(area), 0), "cell");
    try {
      const held = copyHeld(source, areas, shown, form);
      if (held === undefined) this.page.notice.say(`Fetching ${what}\u2026`);
      let copied = held;
      const fetched = async (): Promise<string> => {
        copied = await copyAll(source, areas, shown, form, this.page.link.limits.columns);
        return copied.text;
      };
      this.put(held?.text ?? fetched(), what, () => copied);
    } catch (error) {
      if (!(error instanceof CopyError)) throw error;
      this.page.notice.say(error.message);
    }
  }

  private put(text: string | Promise<string>, what: string, copied = (): Copied | undefined => undefined): void {
    const { notice } = this.page;
    const done = (): void => notice.say(copiedText(what, copied()?.cut ?? 0, copied()?.versions));
    let asked = false;
    copyText(text, (again) => {
      asked = true;
      notice.say(`${what} are ready.`, "Copy", () => (again() ? done() : notice.say("The browser does not allow copying.")));
    }).then(
      () => {
        if (!asked) done();
      },
      (error: unknown) => notice.say(error instanceof Error ? error.message : String(error)),
    );
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key.toLowerCase() !== "g") return;
    event.preventDefault();
    this.bar.focusRow();
  }
}

/** The sentence over the grid; undefined: there is something to see. */
function coverText(table: string, view: OpenView, layout: ColumnLayout, isEmpty: boolean, query: Query): string | undefined {
  if (view.error !== undefined) return view.window === undefined ? withoutStep(view.error) : `${withoutStep(view.error)} It is shown again as soon as it is back.`;
  if (view.window === undefined) return `Waiting for the first rows of ${shownName(table)}\u2026`;
  if (view.columns.length === 0) return "This table has no columns.";
  if (layout.columns.length > 0 && layout.shown.length === 0) return "All columns are hidden. Press \u201cColumns\u201d to show some.";
  if (isEmpty && query.where.length + query.filters.length > 0) return "No row matches. Take a condition away to see more.";
  if (isEmpty) return `This table has no rows${view.kind === "blink" ? " at the moment" : " yet"}. They appear here as soon as they are published.`;
  return undefined;
}
