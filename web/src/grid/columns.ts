// Which columns of a table are shown, in which order, how wide and how; and how that is kept for the next visit.

import { keptFormat } from "../cells/format.ts";
import type { Format } from "../cells/format.ts";

/** What is kept of a table's columns, by their names: the schema may have changed meanwhile. */
export interface SavedColumns {
  readonly order?: readonly string[];
  readonly hidden?: readonly string[];
  readonly pinned?: readonly string[];
  readonly widths?: Readonly<Record<string, number>>;
  /** How numbers are shown in columns that are not in `formats`. */
  readonly format?: Format;
  readonly formats?: Readonly<Record<string, Format>>;
}

/** The part of the Web Storage interface that is used. */
export interface KeyValueStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export const LEAST_WIDTH = 32;
export const MOST_WIDTH = 2000;

export interface NamedColumn {
  readonly name: string;
}

/**
 * The columns of one table as the grid shows them.
 *
 * A *column* is its number in the table's schema, a *place* its number among the shown ones, from the left. Pinned
 * columns come first and do not scroll.
 */
export class ColumnLayout {
  private order: number[];
  private readonly hidden = new Set<number>();
  private readonly pinned = new Set<number>();
  private readonly widths = new Map<number, number>();
  private places: number[] = [];
  private edges = new Float64Array(1);
  private pins = 0;
  private own: ReadonlyMap<number, Format> = new Map();
  /** Counts the changes. */
  version = 0;

  readonly columns: readonly NamedColumn[];
  private readonly usual: (column: number) => number;

  /** @param usual the width of a column, in pixels, that has not been resized */
  constructor(columns: readonly NamedColumn[], usual: (column: number) => number = () => 120, saved: SavedColumns = {}) {
    this.columns = columns;
    this.usual = usual;
    this.order = columns.map((_, number) => number);
    this.restore(saved);
  }

  /** Schema numbers of the shown columns, from the left. */
  get shown(): readonly number[] {
    return this.places;
  }

  /** How many of the shown columns are pinned. */
  get pinnedCount(): number {
    return this.pins;
  }

  /** Pixels of all shown columns. */
  get total(): number {
    return this.edges[this.places.length] ?? 0;
  }

  /** Pixels of the pinned columns. */
  get pinnedWidth(): number {
    return this.edges[this.pins] ?? 0;
  }

  /** Pixels from the left edge of the first column to that of the column at `place`, unscrolled. */
  left(place: number): number {
    return this.edges[Math.max(0, Math.min(place, this.places.length))] ?? 0;
  }

  width(column: number): number {
    return this.widths.get(column) ?? this.usual(column);
  }

  isHidden(column: number): boolean {
    return this.hidden.has(column);
  }

  isPinned(column: number): boolean {
    return this.pinned.has(column);
  }

  /** How the numbers of columns are shown that have a format of their own. A change makes another map. */
  get formats(): ReadonlyMap<number, Format> {
    return this.own;
  }

  /** The place of `column`, -1 if it is hidden. */
  place(column: number): number {
    return this.places.indexOf(column);
  }

  /** All columns in their order, hidden ones too. */
  all(): readonly number[] {
    return this.order;
  }

  /**
   * Scrolling columns that touch the space to the right of the pinned ones: places [from, to).
   *
   * @param scrolled pixels scrolled to the right
   * @param width pixels of the space for all columns
   */
  inView(scrolled: number, width: number): { from: number; to: number } {
    const start = this.pinnedWidth + scrolled;
    const stop = scrolled + width;
    if (stop <= start) return { from: this.pins, to: this.pins };
    const from = Math.max(this.pins, this.at(start));
    let to = from;
    while (to < this.places.length && this.left(to) < stop) to += 1;
    return { from, to };
  }

  /** The place whose column covers `x` pixels from the left edge of the first, unscrolled; the last one after all. */
  at(x: number): number {
    let low = 0;
    let high = this.places.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.left(middle) <= x) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The least pixels scrolled, near `scrolled`, at which the column at `place` is in view. */
  reveal(place: number, scrolled: number, width: number): number {
    if (place < this.pins || place >= this.places.length) return scrolled;
    const left = this.left(place) - this.pinnedWidth;
    const right = this.left(place + 1) - width;
    if (left < scrolled || right > left) return left;
    return Math.max(scrolled, right);
  }

  resize(column: number, width: number): void {
    const kept = Math.round(Math.max(LEAST_WIDTH, Math.min(MOST_WIDTH, width)));
    if (Number.isNaN(kept)) return;
    this.widths.set(column, kept);
    this.arrange();
  }

  /** Gives a column a format of its own, or takes it away. */
  setFormat(column: number, format: Format | undefined): void {
    const formats = new Map(this.own);
    if (format === undefined) formats.delete(column);
    else formats.set(column, format);
    this.own = formats;
    this.version += 1;
  }

  hide(column: number, hidden = true): void {
    if (hidden) this.hidden.add(column);
    else this.hidden.delete(column);
    this.arrange();
  }

  /** Shows these columns too; absent: all. */
  showAll(columns: readonly number[] = this.order): void {
    for (const column of columns) this.hidden.delete(column);
    this.arrange();
  }

  /** Shows exactly these columns, in this order. */
  showOnly(columns: readonly number[]): void {
    const wanted = [...new Set(columns)].filter((column) => column >= 0 && column < this.columns.length);
    const kept = new Set(wanted);
    this.hidden.clear();
    for (const column of this.order) if (!kept.has(column)) this.hidden.add(column);
    this.order = [...wanted, ...this.order.filter((column) => !kept.has(column))];
    this.arrange();
  }

  pin(column: number, pinned = true): void {
    if (pinned) this.pinned.add(column);
    else this.pinned.delete(column);
    this.arrange();
  }

  /** Moves the column at `place` to before the one at `before`; a column that crosses the pinned edge is (un)pinned. */
  move(place: number, before: number): void {
    const column = this.places[place];
    if (column === undefined || before === place || before === place + 1) return;
    const target = this.places[before];
    const rest = this.order.filter((other) => other !== column);
    if (target === undefined) {
      const last = this.places[this.places.length - 1];
      rest.splice(last === undefined ? rest.length : rest.indexOf(last) + 1, 0, column);
    } else {
      rest.splice(rest.indexOf(target), 0, column);
    }
    this.order = rest;
    if (before < this.pins || (before === this.pins && place < this.pins)) this.pinned.add(column);
    else this.pinned.delete(column);
    this.arrange();
  }

  /** Everything as the schema has it. */
  reset(): void {
    this.order = this.columns.map((_, number) => number);
    this.hidden.clear();
    this.pinned.clear();
    this.widths.clear();
    this.own = new Map();
    this.arrange();
  }

  /** True if all columns are shown in the order of the schema, none pinned. */
  get isUsual(): boolean {
    return this.hidden.size === 0 && this.pins === 0 && this.order.every((column, place) => column === place);
  }

  /** What differs from the usual, by name. */
  save(): SavedColumns {
    const name = (column: number): string => this.columns[column]?.name ?? "";
    const saved: { order?: string[]; hidden?: string[]; pinned?: string[]; widths?: Record<string, number>; formats?: Record<string, Format> } = {};
    if (!this.order.every((column, place) => column === place)) saved.order = this.order.map(name);
    if (this.hidden.size > 0) saved.hidden = [...this.hidden].map(name);
    if (this.pinned.size > 0) saved.pinned = [...this.pinned].map(name);
    if (this.widths.size > 0) {
      saved.widths = Object.fromEntries([...this.widths].map(([column, width]) => [name(column), width]));
    }
    if (this.own.size > 0) saved.formats = Object.fromEntries([...this.own].map(([column, format]) => [name(column), format]));
    return saved;
  }

  private restore(saved: SavedColumns): void {
    const numbers = new Map<string, number>();
    this.columns.forEach((column, number) => {
      if (!numbers.has(column.name)) numbers.set(column.name, number);
    });
    const known = (names: readonly string[] | undefined): number[] =>
      (names ?? []).map((name) => numbers.get(name)).filter((number) => number !== undefined);
    if (saved.order !== undefined) {
      const first = new Set(known(saved.order));
      const fresh = this.order.filter((column) => !first.has(column));
      this.order = [...first, ...fresh];
    }
    for (const column of known(saved.hidden)) this.hidden.add(column);
    for (const column of known(saved.pinned)) this.pinned.add(column);
    for (const [name, width] of Object.entries(saved.widths ?? {})) {
      const column = numbers.get(name);
      if (column !== undefined && width >= LEAST_WIDTH && width <= MOST_WIDTH) this.widths.set(column, width);
    }
    const formats = Object.entries(saved.formats ?? {}).map(([name, format]) => [numbers.get(name), format] as const);
    this.own = new Map(formats.filter((one): one is [number, Format] => one[0] !== undefined));
    this.arrange();
  }

  /** Lays the columns out anew, after usual widths have changed. */
  arrange(): void {
    const shown = this.order.filter((column) => !this.hidden.has(column));
    const first = shown.filter((column) => this.pinned.has(column));
    this.places = [...first, ...shown.filter((column) => !this.pinned.has(column))];
    this.pins = first.length;
    this.edges = new Float64Array(this.places.length + 1);
    this.places.forEach((column, place) => {
      this.edges[place + 1] = (this.edges[place] ?? 0) + this.width(column);
    });
    this.version += 1;
  }
}

const PREFIX = "barrage.columns.";
const INDEX = "barrage.columns";
/** Tables whose columns are kept; the one that was looked at longest ago goes first. */
const KEPT_TABLES = 100;
/** Characters of one table's kept columns. */
const MOST_CHARACTERS = 200_000;

/** Keeps the columns of each table; without storage, or with a full one, nothing is kept and nothing fails. */
export class ColumnMemory {
  private readonly store: KeyValueStore | undefined;

  constructor(store: KeyValueStore | undefined) {
    this.store = store;
  }

  load(table: string): SavedColumns {
    try {
      const text = this.store?.getItem(PREFIX + table);
      return text === null || text === undefined ? {} : savedColumns(JSON.parse(text));
    } catch {
      return {};
    }
  }

  save(table: string, saved: SavedColumns): void {
    try {
      if (this.store === undefined) return;
      const tables = this.index().filter((name) => name !== table);
      const text = JSON.stringify(saved);
      if (text === "{}" || text.length > MOST_CHARACTERS) {
        this.store.removeItem(PREFIX + table);
      } else {
        this.store.setItem(PREFIX + table, text);
        tables.push(table);
      }
      for (const old of tables.splice(0, tables.length - KEPT_TABLES)) this.store.removeItem(PREFIX + old);
      this.store.setItem(INDEX, JSON.stringify(tables));
    } catch {
      // The storage is full or forbidden: the columns are as usual at the next visit.
    }
  }

  private index(): string[] {
    const text = this.store?.getItem(INDEX);
    const names: unknown = text === null || text === undefined ? [] : JSON.parse(text);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
  }
}

function savedColumns(value: unknown): SavedColumns {
  if (typeof value !== "object" || value === null) return {};
  const fields = value as Record<string, unknown>;
  const names = (field: unknown): string[] | undefined =>
    Array.isArray(field) ? field.filter((name) => typeof name === "string") : undefined;
  const widths: Record<string, number> = Object.create(null) as Record<string, number>;
  if (typeof fields["widths"] === "object" && fields["widths"] !== null) {
    for (const [name, width] of Object.entries(fields["widths"])) if (typeof width === "number") widths[name] = width;
  }
  const formats: Record<string, Format> = Object.create(null) as Record<string, Format>;
  if (typeof fields["formats"] === "object" && fields["formats"] !== null) {
    for (const [name, kept] of Object.entries(fields["formats"])) {
      const format = keptFormat(kept);
      if (format !== undefined) formats[name] = format;
    }
  }
  const saved: { order?: string[]; hidden?: string[]; pinned?: string[]; widths: Record<string, number>; format?: Format; formats: Record<string, Format> } = { widths, formats };
  const format = keptFormat(fields["format"]);
  if (format !== undefined) saved.format = format;
  const order = names(fields["order"]);
  const hidden = names(fields["hidden"]);
  const pinned = names(fields["pinned"]);
  if (order !== undefined) saved.order = order;
  if (hidden !== undefined) saved.hidden = hidden;
  if (pinned !== undefined) saved.pinned = pinned;
  return saved;
}
