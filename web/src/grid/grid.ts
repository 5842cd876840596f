// The grid: a canvas, its scroll bars and its accessible mirror over one open view.

import type { Column, Value } from "../cells/column.ts";
import type { Format } from "../cells/text.ts";
import type { TableWindow } from "../window/window.ts";
import { ColumnLayout } from "./columns.ts";
import { demand } from "./demand.ts";
import type { Demand, DemandLimits } from "./demand.ts";
import { Gestures } from "./gestures.ts";
import type { GestureTarget } from "./gestures.ts";
import { HEADER_HEIGHT, ROW_HEIGHT, columnSpace, gutterWidth, rowsInView, visibleRows } from "./geometry.ts";
import type { Geometry } from "./geometry.ts";
import { Highlights } from "./highlights.ts";
import { pressKey } from "./keyboard.ts";
import type { KeyTarget } from "./keyboard.ts";
import { MIRROR_MS, Mirror } from "./mirror.ts";
import { paint } from "./painter.ts";
import { readPalette } from "./palette.ts";
import type { Palette } from "./palette.ts";
import { reflection } from "./reflection.ts";
import { Scroller, around, atThumb, fineStep, followsEnd, thumb, wheelRows } from "./scroll.ts";
import { Scrollbar } from "./scrollbar.ts";
import { Selection } from "./selection.ts";
import { CellTexts, Labels } from "./texts.ts";
import { UsualWidths } from "./widths.ts";

/** What the grid shows: an open view of the link is one. */
export interface GridSource {
  readonly table: string;
  readonly window: TableWindow | undefined;
  readonly columns: readonly Column[];
  readonly kind: string;
  readonly stale: boolean;
  move(view: Demand): void;
  painted(): void;
  snapshot(columns: readonly number[], first: number, count: number): Promise<Value[][]>;
}

/** What the grid tells the page. */
export interface GridListener {
  /** Position, selection, columns or rows have changed. */
  changed(): void;
  /** The layout of the columns has changed by the user. */
  columnsChanged(): void;
  openCell(): void;
  openMenu(part: "head" | "cell", x: number, y: number): void;
  copy(): void;
}

/** Lays out columns; `usual` is the width of one that has not been resized. */
export type MakeLayout = (columns: readonly Column[], usual: (column: number) => number) => ColumnLayout;

const NO_COLUMNS: readonly Column[] = [];
/** Rows from which the widths of columns are learnt. */
const MOST_LEARNT = 60;
/** Milliseconds without a movement after which the rows around those in view are asked for. */
const SETTLE_MS = 120;

/** A table that scrolls and ticks. It asks its source for what is in view, and paints at most once a frame. */
export class Grid implements GestureTarget, KeyTarget {
  readonly surface: HTMLElement;
  readonly scroller: Scroller;
  readonly selection = new Selection();
  layout = new ColumnLayout([]);
  hover: number | undefined;
  drop: number | undefined;
  /** Rows of the table before the first update has come. */
  expectedRows = 0;
  limits: DemandLimits = { rows: 10_000, columns: 500, cells: 100_000 };

  private readonly host: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private readonly mirror: Mirror;
  private readonly down: Scrollbar;
  private readonly across: Scrollbar;
  private readonly listener: GridListener;
  private readonly stop = new AbortController();
  private readonly motion = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly gestures: Gestures;
  private source: GridSource | undefined;
  private columns: readonly Column[] = NO_COLUMNS;
  private columnsFor: MakeLayout = (columns) => new ColumnLayout(columns);
  private seenWindow: TableWindow | undefined;
  private asked: Demand | undefined;
  private highlights = new Highlights();
  private palette: Palette;
  private texts: CellTexts;
  private format: Format | undefined;
  private scrolled = 0;
  private size = { width: 0, height: 0 };
  private frame = 0;
  private jumpedAt = 0;
  private mirroredAt = 0;
  private readonly timers = new Map<string, number>();
  private told = "";
  /** Whether the user has chosen the active cell. */
  private chosen = false;
  private readonly widths: UsualWidths;
  private readonly labels = new Labels((text, font) => this.textWidth(text, font));
  private learnt = false;

  /** @param kind of the table: whether its end is followed at first */
  constructor(host: HTMLElement, id: string, kind: string, listener: GridListener) {
    this.host = host;
    this.listener = listener;
    this.scroller = new Scroller(followsEnd(kind));
    this.canvas = document.createElement("canvas");
    this.surface = document.createElement("div");
    this.surface.className = "surface";
    this.mirror = new Mirror(id);
    this.canvas.append(this.mirror.element);
    this.surface.append(this.canvas);
    this.down = new Scrollbar(true, {
      drag: (start) => this.jump(() => this.scroller.to(atThumb(start, this.scroller.extent, this.down.track))),
      fine: (pixels) => this.scrollBy(pixels * fineStep(this.scroller.extent, this.down.track), 0),
      page: (direction) => this.scrollBy(direction * Math.max(1, this.scroller.extent.visible - 1), 0),
      release: () => this.invalidate(),
    });
    this.across = new Scrollbar(false, {
      drag: (start) => this.scrollAcross((start / this.acrossRange().free) * this.acrossRange().most),
      fine: (pixels) => this.scrollBy(0, pixels),
      page: (direction) => this.scrollBy(0, direction * columnSpace(this.geometry) * 0.9),
      release: () => this.invalidate(),
    });
    host.append(this.surface, this.down.element, this.across.element);
    const context = this.canvas.getContext("2d", { alpha: false });
    if (context === null) throw new Error("This browser has no canvas.");
    this.context = context;
    this.palette = readPalette(host);
    this.texts = this.makeTexts();
    this.widths = new UsualWidths({
      head: (text) => this.textWidth(text, this.palette.headFont),
      cell: (text) => this.textWidth(text, this.palette.cellFont),
    });
    this.gestures = new Gestures(this, this.stop.signal);
    this.listen();
  }

  get geometry(): Geometry {
    const rows = this.source?.window?.size ?? this.expectedRows;
    return { ...this.size, gutter: gutterWidth(rows), position: this.scroller.position, scrolled: this.scrolled, rows };
  }

  get isFocused(): boolean {
    return document.activeElement === this.mirror.element;
  }

  /** Column of the active cell: its number in the schema. */
  get activeColumn(): number | undefined {
    return this.layout.shown[this.selection.active.place];
  }

  /** What to ask for at first: the columns are not known yet, but `width` of them are. */
  firstDemand(width: number): Demand {
    this.measure();
    const visible = Math.max(10, Math.ceil(visibleRows(this.size.height)) + 1);
    const columns = width > 64 ? Array.from({ length: 32 }, (_, column) => column) : undefined;
    const first = this.scroller.following ? 0 : this.scroller.position.row;
    this.asked = { columns, first, count: 2 * visible, reverse: this.scroller.following };
    return this.asked;
  }

  /** Shows `source`; `columnsFor` lays out its columns once they are known. */
  attach(source: GridSource, columnsFor: MakeLayout): void {
    this.source = source;
    this.columnsFor = columnsFor;
    this.invalidate();
  }

  /** Starts at `row` before its table is known. */
  startAt(row: number, following: boolean): void {
    this.scroller.following = following;
    this.scroller.position = { row, fraction: 0 };
    this.expectedRows = Math.max(this.expectedRows, row + 1);
    this.selection.resize({ rows: this.expectedRows, places: 1, page: 1 });
    this.selection.moveTo({ row, place: 0 });
  }

  invalidate(): void {
    if (this.frame === 0 && !this.stop.signal.aborted) this.frame = requestAnimationFrame((now) => this.paint(now));
  }

  focus(): void {
    if (!this.isFocused) this.mirror.element.focus({ preventScroll: true });
  }

  /** Takes over changed colours and fonts. */
  restyle(): void {
    this.palette = readPalette(this.host);
    this.texts = this.makeTexts();
    this.invalidate();
  }

  setFormat(format: Format | undefined): void {
    this.format = format;
    this.texts = this.makeTexts();
    this.invalidate();
  }

  scrollBy(rows: number, pixels: number): void {
    if (rows !== 0) this.scroller.by(rows);
    if (pixels !== 0) this.scrollAcross(this.scrolled + pixels);
    this.invalidate();
  }

  /** Makes `row`, from 0, the active one, and shows it. */
  goTo(row: number): void {
    const { rows } = this.geometry;
    const target = Math.max(0, Math.min(row, rows - 1));
    this.chosen = true;
    this.mirroredAt = 0;
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
    this.scrollAcross(this.layout.reveal(this.selection.active.place, this.scrolled, columnSpace(this.geometry)));
    this.invalidate();
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
    const { x, y } = this.activePoint();
    this.openMenu(part, x, y);
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
    this.layout.resize(number, this.widths.fitted(column, this.textsOf(number, from, to)));
    this.layoutChanged();
  }

  close(): void {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.host.replaceChildren();
  }

  private makeTexts(): CellTexts {
    return new CellTexts((text) => this.textWidth(text, this.palette.cellFont), this.format);
  }

  private textWidth(text: string, font: string): number {
    this.context.font = font;
    return this.context.measureText(text).width;
  }

  /** Texts of the cells of a column that are here, in rows [from, to). */
  private textsOf(number: number, from: number, to: number): readonly string[] {
    const column = this.columns[number];
    const texts: string[] = [];
    for (let row = from; row < to && column !== undefined; row++) {
      const value = this.source?.window?.value(row, number);
      if (value !== undefined) texts.push(this.texts.whole(column, value));
    }
    return texts;
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
    this.invalidate();
  }

  /** A point of the page below the head of the active column. */
  private activePoint(): { x: number; y: number } {
    const box = this.surface.getBoundingClientRect();
    const geometry = this.geometry;
    const left = geometry.gutter + this.layout.left(this.selection.active.place);
    const x = this.selection.active.place < this.layout.pinnedCount ? left : left - this.scrolled;
    return { x: box.left + Math.max(geometry.gutter, Math.min(x, geometry.width - 40)), y: box.top + HEADER_HEIGHT };
  }

  private reveal(): void {
    const { row, place } = this.selection.active;
    const before = this.scroller.position.row;
    this.scroller.reveal(row);
    if (Math.abs(this.scroller.position.row - before) > 2 * this.scroller.extent.visible) this.jump(() => undefined);
    this.scrollAcross(this.layout.reveal(place, this.scrolled, columnSpace(this.geometry)));
    this.invalidate();
  }

  private jump(move: () => void): void {
    move();
    this.jumpedAt = performance.now();
    if (this.source !== undefined) this.ask(this.source);
    this.invalidate();
  }

  private scrollAcross(pixels: number): void {
    this.scrolled = this.clampedAcross(pixels);
    this.invalidate();
  }

  private clampedAcross(pixels: number): number {
    const most = Math.max(0, this.layout.total - columnSpace(this.geometry));
    return Math.round(Math.max(0, Math.min(most, Number.isFinite(pixels) ? pixels : 0)));
  }

  /** Most pixels scrolled, and pixels of the track that the thumb can move. */
  private acrossRange(): { most: number; free: number; length: number } {
    const space = columnSpace(this.geometry);
    const { total } = this.layout;
    const { track } = this.across;
    const length = total <= space ? track : Math.max(28, (track * space) / total);
    return { most: Math.max(0, total - space), free: Math.max(1, track - length), length };
  }

  private measure(): number {
    const ratio = devicePixelRatio || 1;
    const width = this.surface.clientWidth;
    const height = this.surface.clientHeight;
    this.size = { width, height };
    const pixelsWide = Math.round(width * ratio);
    const pixelsHigh = Math.round(height * ratio);
    if (this.canvas.width !== pixelsWide || this.canvas.height !== pixelsHigh) {
      this.canvas.width = pixelsWide;
      this.canvas.height = pixelsHigh;
    }
    return ratio;
  }

  private takeColumns(): void {
    const columns = this.source?.columns ?? NO_COLUMNS;
    if (columns !== this.columns) {
      this.columns = columns;
      this.layout = this.columnsFor(columns, (number) => {
        const column = columns[number];
        return column === undefined ? 0 : this.widths.usual(column);
      });
      this.texts = this.makeTexts();
      this.learnt = false;
    }
    const { window } = this.source ?? {};
    if (this.learnt || window === undefined || window.count === 0) return;
    this.learnt = true;
    let changed = false;
    for (const number of window.columns) {
      const column = columns[number];
      const texts = this.textsOf(number, window.first, window.first + Math.min(window.count, MOST_LEARNT));
      if (column !== undefined && this.widths.learn(column, texts)) changed = true;
    }
    if (changed) this.layout.arrange();
  }

  private paint(now: number): void {
    this.frame = 0;
    const ratio = this.measure();
    const { source } = this;
    if (source === undefined || this.size.width === 0 || this.size.height === 0) return;
    this.takeColumns();
    const { window } = source;
    if (window !== this.seenWindow) {
      this.seenWindow = window;
      this.highlights = new Highlights(!this.motion.matches);
    }
    const visible = visibleRows(this.size.height);
    this.scroller.resize({ rows: this.geometry.rows, visible });
    this.selection.resize({ rows: this.geometry.rows, places: this.layout.shown.length, page: Math.max(1, visible - 1) });
    this.scrolled = this.clampedAcross(this.scrolled);
    this.ask(source);
    if (window !== undefined) this.highlights.note(window.version, now);
    const geometry = this.geometry;
    const glows = paint(this.context, {
      geometry, layout: this.layout, columns: this.columns, held: window, selection: this.selection, highlights: this.highlights,
      texts: this.texts, labels: this.labels, palette: this.palette, now, stale: source.stale, focused: this.isFocused, hover: this.hover,
      drop: this.drop, ratio,
    });
    if (window !== undefined) source.painted();
    this.down.show(thumb(this.scroller.position, this.scroller.extent, this.down.track));
    const across = this.acrossRange();
    this.across.element.hidden = across.most === 0;
    this.across.show(across.most === 0 ? undefined : { start: (this.scrolled / across.most) * across.free, length: across.length });
    const fade = glows ? this.highlights.next(now) : undefined;
    if (fade !== undefined) this.later("fade", fade);
    this.reflect(geometry, now);
    this.tell();
  }

  private ask(source: GridSource): void {
    const since = performance.now() - this.jumpedAt;
    const jumping = since < SETTLE_MS;
    if (jumping) this.later("settle", SETTLE_MS - since);
    if (this.columns.length === 0) return;
    const across = { scrolled: this.scrolled, width: columnSpace(this.geometry) };
    const wanted = demand(this.scroller, this.layout, across, this.limits, jumping, this.asked);
    if (wanted === this.asked) return;
    this.asked = wanted;
    source.move(wanted);
  }

  /** Repaints in `ms`; a later call under the same name replaces this one. */
  private later(name: string, ms: number): void {
    clearTimeout(this.timers.get(name));
    this.timers.set(name, window.setTimeout(() => this.invalidate(), ms));
  }

  private reflect(geometry: Geometry, now: number): void {
    if (this.mirroredAt !== 0 && now - this.mirroredAt < MIRROR_MS) {
      this.later("mirror", MIRROR_MS - (now - this.mirroredAt));
      return;
    }
    this.mirroredAt = now;
    clearTimeout(this.timers.get("mirror"));
    this.mirror.update(reflection({
      table: this.source?.table ?? "",
      geometry,
      layout: this.layout,
      columns: this.columns,
      selection: this.selection,
      texts: this.texts,
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
