// The grid: a canvas, its scroll bars and its accessible mirror over one open view.

import type { Column } from "../cells/column.ts";
import type { Format } from "../cells/format.ts";
import type { TableWindow } from "../window/window.ts";
import { AcrossScroll } from "./across.ts";
import { Sheet } from "./canvas.ts";
import { ColumnLayout } from "./columns.ts";
import { demand } from "./demand.ts";
import type { Demand, DemandLimits } from "./demand.ts";
import { focusedIn } from "./focus.ts";
import { Gestures } from "./gestures.ts";
import type { GestureTarget } from "./gestures.ts";
import { HEADER_HEIGHT, ROW_HEIGHT, columnLeft, columnSpace, gutterWidth, rowsInView, visibleRows } from "./geometry.ts";
import type { Geometry } from "./geometry.ts";
import { Highlights } from "./highlights.ts";
import { pressKey } from "./keyboard.ts";
import type { KeyTarget } from "./keyboard.ts";
import { MIRROR_MS, Mirror } from "./mirror.ts";
import { paint } from "./painter.ts";
import type { SortMark } from "./painter.ts";
import { reflection } from "./reflection.ts";
import { Scroller, around, atThumb, fineStep, followsEnd, thumb, wheelRows } from "./scroll.ts";
import { Scrollbar } from "./scrollbar.ts";
import { Selection } from "./selection.ts";
import { Sight } from "./sight.ts";
import type { GridListener, GridSource, MakeLayout } from "./source.ts";
import { Timers } from "./timers.ts";
import { Typesetting } from "./typesetting.ts";

const NO_COLUMNS: readonly Column[] = [];
/** Rows from which the widths of columns are learnt. */
const MOST_LEARNT = 60;
/** Milliseconds without a movement after which the rows around those in view are asked for. */
const SETTLE_MS = 120;
/** Milliseconds that the first rows are waited for before the grid is painted without them. */
export const FIRST_MS = 100;

/** A table that scrolls and ticks. It asks its source for what is in view, and paints at most once a frame, and only what can be seen. */
export class Grid implements GestureTarget, KeyTarget {
  readonly scroller: Scroller;
  readonly selection = new Selection();
  layout = new ColumnLayout([]);
  hover: number | undefined;
  drop: number | undefined;
  /** Rows of the table before the first update has come. */
  expectedRows = 0;
  /** How columns are sorted, by name. */
  sorts: ReadonlyMap<string, SortMark> = new Map();
  limits: DemandLimits = { rows: 10_000, columns: 500, cells: 100_000 };

  private readonly host: HTMLElement;
  private readonly sheet: Sheet;
  private readonly type: Typesetting;
  private readonly mirror: Mirror;
  private readonly down: Scrollbar;
  private readonly acrossBar: Scrollbar;
  private readonly across = new AcrossScroll();
  private readonly listener: GridListener;
  private readonly stop = new AbortController();
  private readonly motion = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly gestures: Gestures;
  private readonly sight: Sight;
  private source: GridSource | undefined;
  private columns: readonly Column[] = NO_COLUMNS;
  private columnsFor: MakeLayout = (columns) => new ColumnLayout(columns);
  private seenWindow: TableWindow | undefined;
  private asked: Demand | undefined;
  private highlights = new Highlights();
  private frame = 0;
  private jumpedAt = 0;
  private attachedAt = 0;
  private mirroredAt = 0;
  private readonly timers = new Timers();
  private told = "";
  /** Whether the user has chosen the active cell. */
  private chosen = false;
  private learnt = false;

  /** @param kind of the table: whether its end is followed at first */
  constructor(host: HTMLElement, id: string, kind: string, listener: GridListener) {
    this.host = host;
    this.listener = listener;
    this.scroller = new Scroller(followsEnd(kind));
    this.mirror = new Mirror(id);
    this.sheet = new Sheet(this.mirror.element);
    this.type = new Typesetting(host, this.sheet.context);
    this.down = new Scrollbar(true, {
      drag: (start) => this.jump(() => this.scroller.to(atThumb(start, this.scroller.extent, this.down.track))),
      fine: (pixels) => this.scrollBy(pixels * fineStep(this.scroller.extent, this.down.track), 0),
      page: (direction) => this.scrollBy(direction * Math.max(1, this.scroller.extent.visible - 1), 0),
      release: () => this.invalidate(),
    });
    this.acrossBar = new Scrollbar(false, {
      drag: (start) => {
        this.across.toThumb(start, this.acrossBar.track);
        this.invalidate();
      },
      fine: (pixels) => this.scrollBy(0, pixels),
      page: (direction) => this.scrollBy(0, direction * columnSpace(this.geometry) * 0.9),
      release: () => this.invalidate(),
    });
    host.append(this.surface, this.down.element, this.acrossBar.element);
    this.gestures = new Gestures(this, this.stop.signal);
    this.sight = new Sight(host, () => this.invalidate(), this.stop.signal);
    this.listen();
  }

  /** What pointers act on. */
  get surface(): HTMLElement {
    return this.sheet.element;
  }

  get geometry(): Geometry {
    const rows = this.source?.window?.size ?? this.expectedRows;
    return { ...this.sheet.size, gutter: gutterWidth(rows), position: this.scroller.position, scrolled: this.across.pixels, rows };
  }

  get isFocused(): boolean {
    return focusedIn(this.mirror.element) === this.mirror.element;
  }

  /** Column of the active cell: its number in the schema. */
  get activeColumn(): number | undefined {
    return this.layout.shown[this.selection.active.place];
  }

  /** What to ask for at first: the columns are not known yet, but `width` of them are. */
  firstDemand(width: number): Demand {
    this.sheet.measure();
    const visible = Math.max(10, Math.ceil(visibleRows(this.sheet.size.height)) + 1);
    const columns = width > 64 ? Array.from({ length: 32 }, (_, column) => column) : undefined;
    const first = this.scroller.following ? 0 : this.scroller.position.row;
    this.asked = { columns, first, count: 2 * visible, reverse: this.scroller.following };
    return this.asked;
  }

  /** Shows `source`; `columnsFor` lays out its columns once they are known. */
  attach(source: GridSource, columnsFor: MakeLayout): void {
    this.source = source;
    this.columnsFor = columnsFor;
    this.attachedAt = performance.now();
    this.type.prepare();
    this.invalidate();
  }

  /** Starts at `row` before its table is known. */
  startAt(row: number, following: boolean): void {
    this.scroller.following = following;
    this.scroller.position = { row, fraction: 0 };
    this.sheet.measure();
    this.expectedRows = Math.max(this.expectedRows, row + 1 + Math.ceil(visibleRows(this.sheet.size.height))); // the row stays at the top
    this.selection.resize({ rows: this.expectedRows, places: 1, page: 1 });
    this.selection.moveTo({ row, place: 0 });
  }

  /** Has the next frame painted, if the grid is in view. */
  invalidate(): void {
    if (this.sight.isInView) this.paintSoon();
  }

  private paintSoon(): void {
    if (this.frame === 0 && !this.stop.signal.aborted) this.frame = requestAnimationFrame((now) => this.paint(now));
  }

  focus(): void {
    if (!this.isFocused) this.mirror.element.focus({ preventScroll: true });
  }

  /** Takes over changed colours and fonts. */
  restyle(): void {
    this.type.restyle();
    this.invalidate();
  }

  /** How numbers are shown in columns without a format of their own; undefined: exactly. */
  setFormat(format: Format | undefined): void {
    this.type.setFormat(format);
    this.learnt = false;
    this.invalidate();
  }

  scrollBy(rows: number, pixels: number): void {
    if (rows !== 0) this.scroller.by(rows);
    if (pixels !== 0) this.across.to(this.across.pixels + pixels);
    this.invalidate();
  }

  /** Makes `row`, from 0, the active one, and shows it. Before the first rows have come it is where the table starts. */
  goTo(row: number): void {
    this.chosen = true;
    this.mirroredAt = 0;
    if (this.source?.window === undefined) {
      this.startAt(row, false);
      this.invalidate();
      return;
    }
    this.fit(); // rows may have come since the last frame
    const target = Math.max(0, Math.min(row, this.geometry.rows - 1));
    this.selection.moveTo({ row: target, place: this.selection.active.place });
    this.jump(() => {
      this.scroller.to(around(target, this.scroller.extent));
      this.scroller.following = false;
    });
  }

  /** Makes a column, by its number in the schema, the active one, and shows it. */
  goToColumn(column: number): void {
    if (this.layout.isHidden(column)) {
      this.layout.hide(column, false);
      this.layoutChanged();
    }
    this.selection.moveTo({ row: this.selection.active.row, place: this.layout.place(column) });
    this.revealColumn();
    this.invalidate();
  }

  /** How numbers of a column, by its number in the schema, are shown; undefined: as in all others. */
  formatColumn(column: number, format: Format | undefined): void {
    this.layout.setFormat(column, format);
    this.layoutChanged();
  }

  follow(on: boolean): void {
    this.scroller.follow(on);
    this.invalidate();
  }

  selected(): void {
    this.chosen = true;
    this.mirroredAt = 0;
    this.reveal();
  }

  layoutChanged(): void {
    if (this.type.setFormats(this.layout.formats, this.columns)) this.learnt = false;
    this.listener.columnsChanged();
    this.invalidate();
  }

  openCell(): void {
    this.listener.openCell();
  }

  copy(): void {
    this.listener.copy();
  }

  /** Until the user has chosen a cell, keys begin at one in view. */
  enter(): void {
    if (this.chosen) return;
    this.chosen = true;
    const { from, to } = rowsInView(this.geometry);
    const row = this.scroller.following ? to - 1 : from;
    this.selection.moveTo({ row, place: this.selection.active.place });
  }

  openMenuHere(part: "head" | "cell"): void {
    this.enter();
    const box = this.surface.getBoundingClientRect();
    const { geometry } = this;
    const left = columnLeft(geometry, this.layout, this.selection.active.place);
    this.openMenu(part, box.left + Math.max(geometry.gutter, Math.min(left, geometry.width - 40)), box.top + HEADER_HEIGHT);
  }

  openMenu(part: "head" | "cell", x: number, y: number): void {
    this.invalidate();
    this.listener.openMenu(part, x, y);
  }

  /** As wide as the widest text in view. */
  fitColumn(place: number): void {
    const number = this.layout.shown[place];
    const column = number === undefined ? undefined : this.columns[number];
    if (number === undefined || column === undefined) return;
    const { from, to } = rowsInView(this.geometry);
    const texts = this.type.textsOf(this.source?.window, column, number, from, to);
    this.layout.resize(number, this.type.widths.fitted(column, texts));
    this.layoutChanged();
  }

  close(): void {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    this.timers.cancelAll();
    this.host.replaceChildren();
  }

  private listen(): void {
    const { signal } = this.stop;
    const resized = new ResizeObserver(() => this.invalidate());
    resized.observe(this.surface);
    signal.addEventListener("abort", () => resized.disconnect());
    this.surface.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
    this.surface.addEventListener("keydown", (event) => this.key(event), { signal });
    this.surface.addEventListener("focusin", () => this.refocus(), { signal });
    this.surface.addEventListener("focusout", () => this.refocus(), { signal });
  }

  private refocus(): void {
    this.mirroredAt = 0;
    this.host.classList.toggle("focused", this.isFocused);
    this.invalidate();
  }

  private wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) return; // the browser's zoom
    event.preventDefault();
    this.gestures.stop();
    const rows = wheelRows(event.deltaY, event.deltaMode, ROW_HEIGHT, this.scroller.extent.visible);
    const sideways = event.deltaMode === 0 ? event.deltaX : event.deltaX * ROW_HEIGHT;
    if (event.shiftKey && event.deltaX === 0) this.scrollBy(0, rows * ROW_HEIGHT);
    else this.scrollBy(rows, sideways);
  }

  private key(event: KeyboardEvent): void {
    if (!pressKey(this, event)) return;
    this.gestures.stop();
    event.preventDefault();
    this.mirroredAt = 0;
    this.paintSoon(); // also out of view: screen readers get what the keys lead to
  }

  private reveal(): void {
    const { row } = this.selection.active;
    const before = this.scroller.position.row;
    this.scroller.reveal(row);
    if (Math.abs(this.scroller.position.row - before) > 2 * this.scroller.extent.visible) this.jump(() => undefined);
    this.revealColumn();
    this.invalidate();
  }

  private jump(move: () => void): void {
    move();
    this.jumpedAt = performance.now();
    if (this.source !== undefined) this.ask(this.source);
    this.invalidate();
  }

  private revealColumn(): void {
    const space = columnSpace(this.geometry);
    this.across.resize(this.layout.total, space);
    this.across.to(this.layout.reveal(this.selection.active.place, this.across.pixels, space));
  }

  private takeColumns(): void {
    const columns = this.source?.columns ?? NO_COLUMNS;
    if (columns !== this.columns) {
      const before = this.columns;
      this.columns = columns;
      // After a lost connection they are mostly the same: what the user has done to them meanwhile stays.
      if (!isSame(columns, before)) {
        this.layout = this.columnsFor(columns, (number) => {
          const column = this.columns[number];
          return column === undefined ? 0 : this.type.widths.usual(column);
        });
      }
      this.type.setFormats(this.layout.formats, columns);
      this.type.forget();
      this.learnt = false;
    }
    const { window } = this.source ?? {};
    if (this.learnt || window === undefined || window.count === 0) return;
    this.learnt = true;
    for (const number of window.columns) {
      const column = columns[number];
      if (column === undefined) continue;
      const texts = this.type.textsOf(window, column, number, window.first, window.first + Math.min(window.count, MOST_LEARNT));
      this.type.widths.learn(column, texts);
    }
    this.layout.arrange();
  }

  /** Widens columns whose cells were cut in the last frame, unless the user has resized them. */
  private widen(): void {
    let changed = false;
    for (const [number, pixels] of this.type.texts.takeWanted()) {
      const column = this.columns[number];
      if (column !== undefined && this.type.widths.widen(column, pixels)) changed = true;
    }
    if (!changed) return;
    this.layout.arrange();
    this.invalidate();
  }

  private paint(now: number): void {
    this.frame = 0;
    const ratio = this.sheet.measure();
    const { source } = this;
    const { width, height } = this.sheet.size;
    if (source === undefined || width === 0 || height === 0) return;
    const { window } = source;
    const since = now - this.attachedAt;
    if (window === undefined && since < FIRST_MS) return this.later("first", FIRST_MS - since);
    this.takeColumns();
    if (window !== this.seenWindow) {
      if (this.seenWindow === undefined) this.mirroredAt = now; // the first rows do not wait for it
      this.seenWindow = window;
      this.highlights = new Highlights(!this.motion.matches);
    }
    this.fit();
    this.across.resize(this.layout.total, columnSpace(this.geometry));
    this.ask(source);
    if (window !== undefined) this.highlights.note(window.version, now);
    const geometry = this.geometry;
    const glows = paint(this.sheet.context, {
      geometry, layout: this.layout, columns: this.columns, held: window, selection: this.selection, highlights: this.highlights, sorts: this.sorts,
      texts: this.type.texts, labels: this.type.labels, palette: this.type.palette, now, stale: source.stale, focused: this.isFocused, hover: this.hover,
      drop: this.drop, ratio,
    });
    this.widen();
    if (window !== undefined) source.painted();
    this.down.show(thumb(this.scroller.position, this.scroller.extent, this.down.track));
    const thumbAcross = this.across.thumb(this.acrossBar.track);
    this.acrossBar.element.hidden = thumbAcross === undefined;
    this.acrossBar.show(thumbAcross);
    const fade = glows ? this.highlights.next(now) : undefined;
    if (fade !== undefined) this.later("fade", fade);
    this.reflect(geometry, now);
    this.tell();
  }

  /** Takes over the table's rows and the space. */
  private fit(): void {
    const { rows, height } = this.geometry;
    const visible = visibleRows(height);
    this.scroller.resize({ rows, visible });
    const selectable = rows === 0 ? this.selection.active.row + 1 : rows; // a table without rows keeps the place
    this.selection.resize({ rows: selectable, places: this.layout.shown.length, page: Math.max(1, visible - 1) });
  }

  private ask(source: GridSource): void {
    const since = performance.now() - this.jumpedAt;
    const jumping = since < SETTLE_MS;
    if (jumping) this.later("settle", SETTLE_MS - since);
    if (this.columns.length === 0) return;
    const across = { scrolled: this.across.pixels, width: columnSpace(this.geometry) };
    const wanted = demand(this.scroller, this.layout, across, this.limits, jumping, this.asked);
    if (wanted === this.asked) return;
    this.asked = wanted;
    source.move(wanted);
  }

  /** Repaints in `ms`; a later call under the same name replaces this one. */
  private later(name: string, ms: number): void {
    this.timers.later(name, ms, () => this.invalidate());
  }

  private reflect(geometry: Geometry, now: number): void {
    const since = now - this.mirroredAt;
    if (this.mirroredAt !== 0 && since < MIRROR_MS) return this.later("mirror", MIRROR_MS - since);
    this.mirroredAt = now;
    this.timers.cancel("mirror");
    this.mirror.update(reflection({
      table: this.source?.table ?? "",
      geometry,
      layout: this.layout,
      columns: this.columns,
      selection: this.selection,
      sorts: this.sorts,
      texts: this.type.texts,
      value: (row, column) => this.source?.window?.value(row, column),
    }));
  }

  /** Tells the page what has changed since the last frame, if anything has. */
  private tell(): void {
    const { position, following } = this.scroller;
    const { active } = this.selection;
    const state = [position.row, following, active.row, active.place, this.geometry.rows, this.layout.version,
      this.selection.version, this.seenWindow === undefined].join();
    if (state === this.told) return;
    this.told = state;
    this.listener.changed();
  }
}

/** Whether columns have the same names and types, and are keys alike. */
function isSame(columns: readonly Column[], others: readonly Column[]): boolean {
  return columns.length === others.length && columns.every((column, number) => column.name === others[number]?.name && column.type === others[number].type && column.key === others[number].key);
}
