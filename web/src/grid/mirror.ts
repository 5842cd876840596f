// The cells in view as an accessible grid, for screen readers.

import type { SortMark } from "./painter.ts";

/** What the mirror shows: rows and columns in view, and the active cell. */
export interface Reflection {
  readonly label: string;
  readonly rows: number;
  readonly columns: number;
  /** Heads in view: their number from 0 among all shown columns, their text, whether they are keys, and how they are sorted. */
  readonly heads: readonly { readonly place: number; readonly text: string; readonly isKey: boolean; readonly sort?: SortMark | undefined }[];
  /** Rows in view, by their number from 0; texts belong to the heads. */
  readonly lines: readonly { readonly row: number; readonly texts: readonly string[] }[];
  readonly active: { readonly row: number; readonly place: number };
  isSelected(row: number, place: number): boolean;
}

/** Milliseconds between two updates. */
export const MIRROR_MS = 250;

/**
 * Elements of role grid, row and gridcell that say what the canvas shows.
 *
 * They are the canvas' fallback content: it has the focus, and is not laid out. Elements are used again for other rows,
 * so that an update costs what has changed.
 */
export class Mirror {
  readonly element: HTMLElement;
  private readonly head: HTMLElement;
  private readonly body: HTMLElement;
  private readonly id: string;

  constructor(id: string) {
    this.id = id;
    this.element = part("div", "grid");
    this.element.id = id;
    this.element.tabIndex = 0;
    this.element.setAttribute("aria-multiselectable", "true");
    this.element.setAttribute("aria-readonly", "true");
    this.head = part("div", "rowgroup");
    this.body = part("div", "rowgroup");
    this.element.setAttribute("aria-busy", "true");
  }

  update(reflection: Reflection): void {
    const { heads, lines, active } = reflection;
    set(this.element, "aria-label", reflection.label);
    set(this.element, "aria-rowcount", String(reflection.rows + 1));
    set(this.element, "aria-colcount", String(reflection.columns));
    set(this.element, "aria-busy", String(heads.length === 0));
    if (heads.length === 0) {
      this.element.replaceChildren();
      this.element.removeAttribute("aria-activedescendant");
      return;
    }
    if (this.head.parentElement === null) this.element.append(this.head, this.body);
    this.updateRow(child(this.head, 0, "row"), 1, heads.map((head) => head.text), reflection, "columnheader");
    trim(this.head, 1);
    lines.forEach((line, at) => {
      const row = child(this.body, at, "row");
      this.updateRow(row, line.row + 2, line.texts, reflection, "gridcell", line.row);
    });
    trim(this.body, lines.length);
    const line = lines.findIndex((one) => one.row === active.row);
    const place = heads.findIndex((one) => one.place === active.place);
    if (line >= 0 && place >= 0) {
      const cell = this.body.children[line]?.children[place];
      if (cell !== undefined) {
        cell.id = `${this.id}-${line}-${place}`;
        set(this.element, "aria-activedescendant", cell.id);
      }
    } else {
      this.element.removeAttribute("aria-activedescendant");
    }
  }

  private updateRow(
    element: HTMLElement, index: number, texts: readonly string[], reflection: Reflection, role: string, row?: number,
  ): void {
    set(element, "aria-rowindex", String(index));
    texts.forEach((text, at) => {
      const cell = child(element, at, role);
      if (cell.textContent !== text) cell.textContent = text;
      const place = reflection.heads[at]?.place ?? 0;
      set(cell, "aria-colindex", String(place + 1));
      if (row === undefined) {
        const { sort, isKey = false } = reflection.heads[at] ?? {};
        put(cell, "aria-sort", sort === undefined ? undefined : sort === "\u25b2" ? "ascending" : "descending");
        put(cell, "aria-description", isKey ? "key column" : undefined);
      }
      if (row !== undefined) set(cell, "aria-selected", String(reflection.isSelected(row, place)));
    });
    trim(element, texts.length);
  }
}

function part(tag: string, role: string): HTMLElement {
  const element = document.createElement(tag);
  element.setAttribute("role", role);
  return element;
}

function child(parent: HTMLElement, at: number, role: string): HTMLElement {
  const there = parent.children[at];
  if (there instanceof HTMLElement) return there;
  const made = part("div", role);
  parent.append(made);
  return made;
}

function trim(parent: HTMLElement, count: number): void {
  while (parent.children.length > count) parent.lastElementChild?.remove();
}

/** Sets an attribute, or removes it. */
function put(element: HTMLElement, name: string, value: string | undefined): void {
  if (value === undefined) element.removeAttribute(name);
  else set(element, name, value);
}

function set(element: HTMLElement, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
