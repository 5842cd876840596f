// The active cell and the selected rectangles.

/** A cell on the screen: the row of the table, and the place of the column among the shown ones. */
export interface Cell {
  readonly row: number;
  readonly place: number;
}

/** Rows [top, bottom] and places [left, right], both ends included. */
export interface Rectangle {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

export function rectangle(a: Cell, b: Cell): Rectangle {
  return {
    top: Math.min(a.row, b.row),
    bottom: Math.max(a.row, b.row),
    left: Math.min(a.place, b.place),
    right: Math.max(a.place, b.place),
  };
}

export function contains(area: Rectangle, row: number, place: number): boolean {
  return row >= area.top && row <= area.bottom && place >= area.left && place <= area.right;
}

/** Cells of a rectangle; may be beyond 2^53, and is then not exact. */
export function cells(area: Rectangle): number {
  return (area.bottom - area.top + 1) * (area.right - area.left + 1);
}

/** The keys that move the active cell. */
export type Step =
  | "up" | "down" | "left" | "right"
  | "page-up" | "page-down"
  | "first-row" | "last-row" | "row-start" | "row-end" | "first" | "last";

export interface Size {
  readonly rows: number;
  readonly places: number;
  /** Rows that a page key moves by. */
  readonly page: number;
}

/** The cell after one step, or the same at an edge. */
export function stepped(cell: Cell, step: Step, size: Size): Cell {
  const lastRow = Math.max(0, size.rows - 1);
  const lastPlace = Math.max(0, size.places - 1);
  const at = (row: number, place: number): Cell => ({
    row: Math.max(0, Math.min(row, lastRow)),
    place: Math.max(0, Math.min(place, lastPlace)),
  });
  const page = Math.max(1, Math.floor(size.page));
  switch (step) {
    case "up": return at(cell.row - 1, cell.place);
    case "down": return at(cell.row + 1, cell.place);
    case "left": return at(cell.row, cell.place - 1);
    case "right": return at(cell.row, cell.place + 1);
    case "page-up": return at(cell.row - page, cell.place);
    case "page-down": return at(cell.row + page, cell.place);
    case "first-row": return at(0, cell.place);
    case "last-row": return at(lastRow, cell.place);
    case "row-start": return at(cell.row, 0);
    case "row-end": return at(cell.row, lastPlace);
    case "first": return at(0, 0);
    case "last": return at(lastRow, lastPlace);
  }
}

export interface KeyPress {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/** The step that a key stands for; undefined: none. */
export function stepOf(press: KeyPress): Step | undefined {
  if (press.altKey) return undefined;
  const far = press.ctrlKey || press.metaKey;
  switch (press.key) {
    case "ArrowUp": return far ? "first-row" : "up";
    case "ArrowDown": return far ? "last-row" : "down";
    case "ArrowLeft": return far ? "row-start" : "left";
    case "ArrowRight": return far ? "row-end" : "right";
    case "PageUp": return far ? "first-row" : "page-up";
    case "PageDown": return far ? "last-row" : "page-down";
    case "Home": return far ? "first" : "row-start";
    case "End": return far ? "last" : "row-end";
    default: return undefined;
  }
}

const ORIGIN: Cell = { row: 0, place: 0 };

/** What is selected: at least the active cell. The newest rectangle is from the anchor to the active cell. */
export class Selection {
  active: Cell = ORIGIN;
  private anchor: Cell = ORIGIN;
  private others: Rectangle[] = [];
  /** Ends of the newest rectangle that are dragged along: whole rows, whole columns. */
  private span: "cells" | "rows" | "columns" = "cells";
  private size: Size = { rows: 0, places: 0, page: 1 };
  version = 0;

  /** The selected rectangles, the newest last. */
  get areas(): readonly Rectangle[] {
    return [...this.others, this.newest];
  }

  /** Whether only the active cell is selected. */
  get isSingle(): boolean {
    return this.others.length === 0 && cells(this.newest) === 1;
  }

  has(row: number, place: number): boolean {
    return contains(this.newest, row, place) || this.others.some((area) => contains(area, row, place));
  }

  /** Takes over the size of the table, and leaves nothing selected beyond it. */
  resize(size: Size): void {
    const shrunk = size.rows < this.size.rows || size.places < this.size.places;
    this.size = size;
    if (!shrunk) return;
    this.active = this.inside(this.active);
    this.anchor = this.inside(this.anchor);
    this.others = this.others
      .filter((area) => area.top < size.rows && area.left < size.places)
      .map((area) => ({ ...area, bottom: Math.min(area.bottom, size.rows - 1), right: Math.min(area.right, size.places - 1) }));
    this.version += 1;
  }

  /** Makes `cell` active. `extend`: the newest rectangle reaches to it; otherwise it alone is selected. */
  moveTo(cell: Cell, extend = false): void {
    this.active = this.inside(cell);
    if (!extend) {
      this.anchor = this.active;
      this.others = [];
      this.span = "cells";
    }
    this.version += 1;
  }

  /** Begins a further rectangle at `cell`. */
  add(cell: Cell): void {
    this.others = [...this.others, this.newest].slice(-MOST_AREAS);
    this.active = this.inside(cell);
    this.anchor = this.active;
    this.span = "cells";
    this.version += 1;
  }

  step(step: Step, extend: boolean): void {
    this.moveTo(stepped(this.active, step, this.size), extend);
  }

  /** Selects whole rows, from `row`, or from where the selection began. */
  rows(row: number, extend: boolean): void {
    this.moveTo({ row, place: extend ? this.active.place : 0 }, extend);
    this.span = "rows";
  }

  /** Selects whole columns, from `place`, or from where the selection began. */
  columns(place: number, extend: boolean): void {
    this.moveTo({ row: this.active.row, place }, extend);
    this.span = "columns";
  }

  all(): void {
    this.others = [];
    this.anchor = ORIGIN;
    this.span = "columns";
    this.active = this.inside({ row: this.active.row, place: this.size.places - 1 });
    this.version += 1;
  }

  /** Only the active cell stays selected. */
  clear(): void {
    this.moveTo(this.active);
  }

  private get newest(): Rectangle {
    const area = rectangle(this.anchor, this.active);
    if (this.span === "rows") return { ...area, left: 0, right: Math.max(0, this.size.places - 1) };
    if (this.span === "columns") return { ...area, top: 0, bottom: Math.max(0, this.size.rows - 1) };
    return area;
  }

  private inside(cell: Cell): Cell {
    return {
      row: Math.max(0, Math.min(cell.row, this.size.rows - 1)),
      place: Math.max(0, Math.min(cell.place, this.size.places - 1)),
    };
  }
}

/** Rectangles that are kept; the oldest goes first. */
const MOST_AREAS = 100;
