// Replica of the rows in view.

import { type Column, type Value } from "../cells/column.ts";
import { direction } from "../cells/order.ts";
import { WireError } from "../wire/error.ts";
import type { Update } from "../wire/update.ts";

/** A cell that an update has changed. `at`: the update's number, as {@link TableWindow.version} counts. */
export interface Change {
  readonly at: number;
  /** 1: it has risen, -1: fallen, 0: neither, as for text. */
  readonly direction: -1 | 0 | 1;
}

/** One row: its cells, and their last changes since it came into view, in the order of the columns held. */
interface Row {
  cells: Value[];
  changes: (Change | undefined)[] | undefined;
}

/** The positions asked for. With `reverse` they count from the table's end. */
interface Viewport {
  readonly first: number;
  readonly last: number;
  readonly reverse: boolean;
}

/** What an update leads to. It is computed, and checked, as a whole before anything changes. */
interface Next {
  readonly viewport: Viewport;
  readonly columns: readonly number[];
  readonly rows: Row[];
  readonly first: number;
}

/** The rows in view of one table, brought up to date by updates. Pure: no socket, no clock. */
export class TableWindow {
  private readonly schema: readonly Column[];
  private readonly mostRows: number;
  private viewport: Viewport = { first: 0, last: -1, reverse: false };
  private rows: Row[] = [];
  private held: readonly number[] = [];
  private places = new Map<number, number>();
  private sizeNow = 0;
  private firstNow = 0;
  private applied = 0;

  /** `columns`: all of the table. `mostRows`: in view. */
  constructor(columns: readonly Column[], mostRows = 10_000) {
    this.schema = columns;
    this.mostRows = mostRows;
  }

  /** Rows of the table. */
  get size(): number {
    return this.sizeNow;
  }

  /** Absolute position of the first row held. */
  get first(): number {
    return this.firstNow;
  }

  /** Rows held. */
  get count(): number {
    return this.rows.length;
  }

  /** Numbers of the columns held, rising. */
  get columns(): readonly number[] {
    return this.held;
  }

  /** Updates applied. */
  get version(): number {
    return this.applied;
  }

  /** The value at an absolute position; undefined: not held. */
  value(row: number, column: number): Value | undefined {
    const place = this.places.get(column);
    return place === undefined ? undefined : this.rows[row - this.firstNow]?.cells[place];
  }

  /** The last change of a cell since its row came into view; undefined: none. */
  changedAt(row: number, column: number): Change | undefined {
    const place = this.places.get(column);
    return place === undefined ? undefined : this.rows[row - this.firstNow]?.changes?.[place];
  }

  /** Bring the window up to `update`. WireError: the update contradicts what came before, and has changed nothing. */
  apply(update: Update): void {
    const next = this.next(update);
    this.checkModified(update, next);
    this.applied += 1;
    if (next.columns !== this.held) {
      this.held = next.columns;
      this.places = new Map(next.columns.map((column, place) => [column, place]));
    }
    this.viewport = next.viewport;
    this.rows = next.rows;
    this.sizeNow = update.size;
    this.firstNow = next.first;
    this.modify(update);
  }

  /** Columns and rows after the update, without its modifications. */
  private next(update: Update): Next {
    const columns = update.isSnapshot ? this.columnsOf(update) : this.held;
    const viewport = update.isSnapshot ? viewportOf(update) : this.viewport;
    if (this.applied === 0 && !update.isSnapshot) throw new WireError("An update came before any snapshot.");
    const { size, added, removed } = update;
    if (removed.last >= this.rows.length) throw new WireError(`Row ${removed.last} of ${this.rows.length} was removed.`);
    const { first, last, reverse } = viewport;
    const start = reverse ? Math.max(0, size - 1 - last) : Math.min(first, size);
    const stop = reverse ? Math.max(0, size - first) : Math.min(last + 1, size);
    const count = Math.max(0, stop - start);
    if (count > this.mostRows) throw new WireError(`A view has ${count} rows, more than ${this.mostRows}.`);
    if (this.rows.length - removed.size + added.size !== count) throw new WireError(`There are to be ${count} rows in view.`);
    if (added.last >= count) throw new WireError(`Row ${added.last} was added to ${count} in view.`);
    const isHeld = new Set(columns);
    for (let column = 0; column < this.schema.length; column += 1) {
      const wanted = isHeld.has(column) ? added.size : 0;
      if (update.adds[column]?.length !== wanted) throw new WireError(`Column ${column} has not ${wanted} added values.`);
    }
    if (removed.size === 0 && added.size === 0 && columns === this.held) return { viewport, columns, rows: this.rows, first: start };
    return { viewport, columns, rows: this.merged(update, columns, count), first: start };
  }

  /** The rows that stay, in the columns `columns`, with those that are added between them. */
  private merged(update: Update, columns: readonly number[], count: number): Row[] {
    const gone = new Set(update.removed.rows());
    const stay = this.rows.filter((_, position) => !gone.has(position));
    const kept = columns === this.held || stay.length === 0 ? stay : this.projected(stay, columns);
    const rows: Row[] = [];
    let [fromKept, fromAdded] = [0, 0];
    const addedRows = update.added.rows();
    let nextAdded = addedRows.next();
    for (let position = 0; position < count; position += 1) {
      if (nextAdded.value === position) {
        const number = fromAdded;
        rows.push({ cells: columns.map((column) => update.adds[column]?.[number] ?? null), changes: undefined });
        fromAdded += 1;
        nextAdded = addedRows.next();
      } else {
        const row = kept[fromKept];
        if (row === undefined) throw new WireError("An update does not say what is in a row.");
        rows.push(row);
        fromKept += 1;
      }
    }
    return rows;
  }

  private projected(rows: readonly Row[], columns: readonly number[]): Row[] {
    const from = columns.map((column) => {
      const place = this.places.get(column);
      if (place === undefined) throw new WireError(`Column ${column} came into view without its values.`);
      return place;
    });
    return rows.map(({ cells, changes }) => ({
      cells: from.map((place) => cells[place] ?? null),
      changes: changes && from.map((place) => changes[place]),
    }));
  }

  private checkModified(update: Update, next: Next): void {
    const isHeld = new Set(next.columns);
    update.modified.forEach((rows, column) => {
      if (rows.last >= next.rows.length) throw new WireError(`Row ${rows.last} of ${next.rows.length} was modified.`);
      if (rows.size > 0 && !isHeld.has(column)) throw new WireError(`Column ${column} was modified and is not in view.`);
    });
    update.mods.forEach((values, column) => {
      if (values.length !== (update.modified[column]?.size ?? 0)) throw new WireError(`Column ${column} has another number of modified values than it says.`);
    });
  }

  private modify(update: Update): void {
    const isNew = new Set(update.added.rows());
    update.modified.forEach((rows, column) => {
      const place = this.places.get(column);
      const about = this.schema[column];
      if (place === undefined || about === undefined) return;
      let number = 0;
      for (const position of rows.rows()) {
        const row = this.rows[position];
        const value = update.mods[column]?.[number] ?? null;
        number += 1;
        if (row === undefined) continue;
        const before = row.cells[place] ?? null;
        row.cells[place] = value;
        if (isNew.has(position) || Object.is(before, value)) continue;
        row.changes ??= [];
        row.changes[place] = { at: this.applied, direction: direction(about, before, value) };
      }
    });
  }

  private columnsOf(update: Update): readonly number[] {
    const columns = update.columns ?? this.schema.map((_, number) => number);
    if ((columns.at(-1) ?? -1) >= this.schema.length) throw new WireError(`There is no column ${columns.at(-1)} of ${this.schema.length}.`);
    const same = columns.length === this.held.length && columns.every((column, place) => column === this.held[place]);
    return same ? this.held : columns;
  }
}

function viewportOf(update: Update): Viewport {
  const { viewport, reverse } = update;
  if (viewport === undefined) return { first: 0, last: Number.MAX_SAFE_INTEGER - 1, reverse: false };
  if (viewport.starts.length > 1) throw new WireError("A view was sent rows with gaps between them.");
  return { first: viewport.starts[0] ?? 0, last: viewport.ends[0] ?? -1, reverse };
}
