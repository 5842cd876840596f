// The bar above the grid, and the line below it.

import type { Format } from "../cells/format.ts";
import type { CopyForm } from "../grid/copy.ts";
import { shownName } from "../grid/names.ts";
import { button, make, press, setText, toggle } from "./dom.ts";
import { pageFormats } from "./formats.ts";
import { menuButton } from "./menu.ts";
import type { MenuGroups } from "./menu.ts";

export interface ToolbarActions {
  goTo(row: number): void;
  follow(): void;
  pause(): void;
  rows(): void;
  columns(): void;
  plot(): void;
  cell(): void;
  copy(form: CopyForm): void;
  format(): Format | undefined;
  setFormat(format: Format | undefined): void;
  say(text: string): void;
}

export interface BarState {
  readonly kind: string;
  readonly following: boolean;
  readonly paused: boolean;
  /** Whether the server picks rows. */
  readonly canPick: boolean;
  readonly picking: boolean;
  readonly panel: "cell" | "columns" | undefined;
}

export interface LineState {
  readonly rows: string;
  readonly selected: string;
  readonly rate: string;
  readonly lag: string;
}

const COPIES: readonly (readonly [string, CopyForm])[] = [
  ["Copy", "text"],
  ["Copy as CSV, with names", "csv"],
  ["Copy as CSV for spreadsheets", "sheet"],
];

export function copyEntries(copy: (form: CopyForm) => void): MenuGroups[number] {
  return COPIES.map(([label, form]) => ({ label, run: () => copy(form) }));
}

/** Row number that a user has entered, from 0; undefined: none. Thousands may be grouped, but no fraction is taken for a group. */
export function enteredRow(text: string): number | undefined {
  const entered = text.trim();
  if (!/^([0-9]+|[0-9]{1,3}([\s,_.'][0-9]{3})+)$/.test(entered)) return undefined;
  const digits = entered.replace(/[^0-9]/g, "");
  if (digits.length > 16) return undefined;
  const row = Number(digits) - 1;
  return Number.isSafeInteger(row) ? Math.max(0, row) : undefined;
}

export class Toolbar {
  readonly element: HTMLElement;
  readonly line: HTMLElement;
  private readonly kind = make("span", { class: "badge" });
  private readonly row: HTMLInputElement;
  private readonly follow: HTMLButtonElement;
  private readonly pause: HTMLButtonElement;
  private readonly picks: HTMLButtonElement;
  private readonly columns: HTMLButtonElement;
  private readonly cell: HTMLButtonElement;
  private readonly rows = make("span");
  private readonly selected = make("span", { class: "selected" });
  private readonly rate = make("span");
  private readonly lag = make("span", { class: "lag" });

  constructor(table: string, actions: ToolbarActions) {
    this.row = make("input", {
      class: "row-number",
      attributes: { type: "text", inputmode: "numeric", placeholder: "Go to row", "aria-label": "Go to row", autocomplete: "off" },
    });
    const go = make("form", { class: "go", title: "Go to row (G)" }, this.row);
    go.addEventListener("submit", (event) => {
      event.preventDefault();
      const row = enteredRow(this.row.value);
      if (row === undefined) actions.say("Enter the number of a row; the first is 1.");
      else actions.goTo(row);
    });
    this.follow = toggle("Follow the end", actions.follow, "Stay at the last rows while the table grows");
    this.pause = toggle("Pause", actions.pause, "Hold the rows as they are");
    this.picks = toggle("Filter", actions.rows, "Only some rows");
    this.columns = toggle("Columns", actions.columns, "Search, show, hide, pin and move columns");
    this.cell = toggle("Cell", actions.cell, "The whole of the active cell (Enter)");
    const numbers = menuButton("Numbers", "How numbers are shown", () => pageFormats(actions.format(), (format) => actions.setFormat(format)));
    const copies = menuButton("Copy", "Copy what is selected (Ctrl+C)", () => [copyEntries((form) => actions.copy(form))]);
    this.element = make(
      "div", { class: "toolbar" },
      make("h1", { text: shownName(table), title: shownName(table) }), this.kind,
      make("div", { class: "tools", attributes: { role: "group", "aria-label": "Tools of the table" } },
        go, this.follow, this.pause, this.picks, this.columns, button("Plot", actions.plot, { title: "Lines of columns" }), numbers, copies, this.cell),
    );
    this.line = make("div", { class: "line-below" }, this.rows, this.selected, make("span", { class: "space" }), this.rate, this.lag);
  }

  focusRow(): void {
    this.row.focus();
    this.row.select();
  }

  show(state: BarState): void {
    setText(this.kind, state.kind);
    this.kind.hidden = state.kind === "";
    press(this.follow, state.following);
    press(this.pause, state.paused);
    this.picks.hidden = !state.canPick;
    press(this.picks, state.picking);
    press(this.columns, state.panel === "columns");
    press(this.cell, state.panel === "cell");
  }

  showLine(state: LineState): void {
    setText(this.rows, state.rows);
    setText(this.selected, state.selected);
    setText(this.rate, state.rate);
    setText(this.lag, state.lag);
  }
}
