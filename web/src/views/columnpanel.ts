// The columns of a table, to be searched, shown, hidden, pinned and moved, beside the grid.

import type { Column } from "../cells/column.ts";
import type { ColumnLayout } from "../grid/columns.ts";
import { focusedIn } from "../grid/focus.ts";
import { shownName } from "../grid/names.ts";
import { button, make, setText } from "./dom.ts";
import { count, counted } from "./words.ts";

/** Columns that are listed; a search finds the others. */
const MOST_LISTED = 200;

export interface ColumnActions {
  close(): void;
  /** The layout has changed. */
  changed(): void;
  /** A column is to be brought into view. */
  show(column: number): void;
}

export class ColumnPanel {
  readonly element: HTMLElement;
  private readonly search: HTMLInputElement;
  private readonly summary: HTMLElement;
  private readonly list: HTMLUListElement;
  private readonly actions: ColumnActions;
  private layout: ColumnLayout | undefined;
  private columns: readonly Column[] = [];
  private seen = -1;

  constructor(actions: ColumnActions) {
    this.actions = actions;
    this.search = make("input", {
      attributes: { type: "search", placeholder: "Search columns", "aria-label": "Search columns", spellcheck: "false" },
      on: { input: () => this.render() },
    });
    this.summary = make("p", { class: "muted", attributes: { role: "status" } });
    this.list = make("ul", { class: "column-list" });
    this.element = make(
      "aside", { class: "panel", attributes: { "aria-label": "Columns" } },
      make("div", { class: "panel-head" }, make("h2", { text: "Columns" }),
        button("\u00d7", actions.close, { class: "plain", attributes: { "aria-label": "Close the columns" } })),
      this.search,
      make("div", { class: "panel-tools" },
        button("Show all", () => this.change((layout) => layout.showAll(this.matching(layout)))),
        button("Hide all", () => this.change((layout) => layout.showOnly([]))),
        button("As at first", () => this.change((layout) => layout.reset()))),
      this.summary, this.list,
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") actions.close();
    });
  }

  /** Shows the columns as they are now. */
  update(layout: ColumnLayout, columns: readonly Column[]): void {
    if (layout === this.layout && layout.version === this.seen) return;
    this.layout = layout;
    this.columns = columns;
    this.render();
  }

  focus(): void {
    this.search.focus();
  }

  private change(run: (layout: ColumnLayout) => void): void {
    if (this.layout === undefined) return;
    run(this.layout);
    this.actions.changed();
    this.render();
  }

  private render(): void {
    const { layout } = this;
    if (layout === undefined) return;
    this.seen = layout.version;
    const search = this.search.value.toLowerCase();
    const matching = this.matching(layout);
    const listed = matching.slice(0, MOST_LISTED);
    const hidden = this.columns.length - layout.shown.length;
    const parts = [search === "" ? counted(this.columns.length, "column") : `${count(matching.length)} of ${counted(this.columns.length, "column")}`];
    if (hidden > 0) parts.push(`${count(hidden)} hidden`);
    if (matching.length > listed.length) parts.push(`the first ${count(MOST_LISTED)} are listed`);
    setText(this.summary, parts.join(" \u00b7 "));
    const focused = this.focusedControl();
    this.list.replaceChildren(...listed.map((column) => this.item(layout, column)));
    if (focused !== undefined) {
      const again = this.list.querySelector<HTMLElement>(`[data-control="${focused}"]`);
      again?.focus();
    }
  }

  /** The columns that the search finds. */
  private matching(layout: ColumnLayout): readonly number[] {
    const search = this.search.value.toLowerCase();
    return layout.all().filter((column) => this.columns[column]?.name.toLowerCase().includes(search) ?? false);
  }

  /** The list is made anew by each change: the control that was pressed keeps the focus. */
  private focusedControl(): string | undefined {
    const activeElement = focusedIn(this.list);
    return activeElement instanceof HTMLElement && this.list.contains(activeElement) ? activeElement.dataset["control"] : undefined;
  }

  private item(layout: ColumnLayout, column: number): HTMLElement {
    const about = this.columns[column];
    const name = shownName(about?.name ?? "");
    const box = make("input", { attributes: { type: "checkbox", "aria-label": `Show ${name}`, "data-control": `show-${column}` } });
    box.checked = !layout.isHidden(column);
    box.addEventListener("change", () => this.change(() => layout.hide(column, !box.checked)));
    const place = layout.place(column);
    const control = (text: string, label: string, id: string, run: () => void, disabled: boolean): HTMLButtonElement => {
      const made = button(text, () => this.change(run), { class: "plain", title: label, attributes: { "aria-label": `${label}: ${name}`, "data-control": `${id}-${column}` } });
      made.disabled = disabled;
      return made;
    };
    const pin = control("Pin", layout.isPinned(column) ? "Unpin" : "Pin to the left", "pin", () => layout.pin(column, !layout.isPinned(column)), place < 0);
    pin.setAttribute("aria-pressed", String(layout.isPinned(column)));
    const label = button(name, () => this.actions.show(column), { class: "plain name", title: "Show in the grid", attributes: { "data-control": `go-${column}` } });
    return make(
      "li", {}, box, label, make("span", { class: "muted type", text: shownName(about?.type ?? "") }), pin,
      control("\u2191", "Move left", "up", () => layout.move(place, place - 1), place <= 0),
      control("\u2193", "Move right", "down", () => layout.move(place, place + 2), place < 0 || place >= layout.shown.length - 1),
    );
  }
}
