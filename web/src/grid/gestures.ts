// Mouse and touch on the grid.

import { FingerSpeed, Fling } from "./fling.ts";
import { HEADER_HEIGHT, ROW_HEIGHT, dropPlace, hit, nearestCell } from "./geometry.ts";
import type { Geometry, Hit } from "./geometry.ts";
import type { ColumnLayout } from "./columns.ts";
import type { Selection } from "./selection.ts";

/** What gestures act on: the grid. */
export interface GestureTarget {
  readonly surface: HTMLElement;
  readonly geometry: Geometry;
  readonly layout: ColumnLayout;
  readonly selection: Selection;
  /** Place of the header under the pointer. */
  hover: number | undefined;
  /** Place before which a dragged column goes. */
  drop: number | undefined;
  scrollBy(rows: number, pixels: number): void;
  selected(): void;
  layoutChanged(): void;
  fitColumn(place: number): void;
  focus(): void;
  invalidate(): void;
  openCell(): void;
  openMenu(part: "head" | "cell", x: number, y: number): void;
}

/** Pixels that a pointer moves before it drags. */
const SLOP = 5;
/** Rows or screens a second that a drag beyond the edge scrolls by, for each pixel of distance. */
const AUTO_SCROLL = 0.4;

type Drag =
  | { readonly kind: "cells" | "rows" | "columns" }
  | { readonly kind: "resize"; readonly column: number; readonly width: number; readonly from: number }
  | { readonly kind: "head"; readonly place: number; readonly from: number; moved: boolean; readonly extend: boolean }
  | { readonly kind: "pan"; x: number; y: number; moved: boolean; readonly speed: FingerSpeed; readonly from: Hit };

/** Listens to the pointer on the grid's surface until `signal` aborts. */
export class Gestures {
  private drag: Drag | undefined;
  private point = { x: 0, y: 0 };
  private frame = 0;
  private readonly target: GestureTarget;

  constructor(target: GestureTarget, signal: AbortSignal) {
    this.target = target;
    const on = <K extends keyof HTMLElementEventMap>(name: K, run: (event: HTMLElementEventMap[K]) => void): void => {
      target.surface.addEventListener(name, run, { signal });
    };
    on("pointerdown", (event) => this.down(event));
    // A press would otherwise take the focus from the grid.
    on("mousedown", (event) => event.preventDefault());
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", () => this.end());
    on("lostpointercapture", () => this.end());
    on("pointerleave", () => this.leave());
    on("dblclick", (event) => this.doubleClick(event));
    on("contextmenu", (event) => this.contextMenu(event));
    signal.addEventListener("abort", () => this.stop());
  }

  /** Stops what goes on by itself, such as scrolling after a touch. */
  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  private locate(event: MouseEvent): { x: number; y: number; at: Hit } {
    const box = this.target.surface.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    return { x, y, at: hit(this.target.geometry, this.target.layout, x, y) };
  }

  private down(event: PointerEvent): void {
    this.stop();
    const { x, y, at } = this.locate(event);
    this.point = { x, y };
    this.target.focus();
    if (event.pointerType === "touch") {
      const speed = new FingerSpeed();
      speed.move(x, y, event.timeStamp);
      this.drag = { kind: "pan", x, y, moved: false, speed, from: at };
      this.target.surface.setPointerCapture(event.pointerId);
      return;
    }
    if (event.button !== 0) return;
    event.preventDefault();
    this.drag = this.press(at, x, event);
    if (this.drag !== undefined) this.target.surface.setPointerCapture(event.pointerId);
  }

  private press(at: Hit, x: number, event: PointerEvent): Drag | undefined {
    const { selection, layout } = this.target;
    switch (at.part) {
      case "cell":
        if (event.shiftKey) selection.moveTo(at, true);
        else if (event.ctrlKey || event.metaKey) selection.add(at);
        else selection.moveTo(at);
        this.target.selected();
        return { kind: "cells" };
      case "gutter":
        selection.rows(at.row, event.shiftKey);
        this.target.selected();
        return { kind: "rows" };
      case "corner":
        selection.all();
        this.target.selected();
        return undefined;
      case "edge": {
        const column = layout.shown[at.place];
        return column === undefined ? undefined : { kind: "resize", column, width: layout.width(column), from: x };
      }
      case "menu":
        selection.moveTo({ row: selection.active.row, place: at.place });
        this.target.openMenu("head", event.clientX, event.clientY);
        return undefined;
      case "header":
        return { kind: "head", place: at.place, from: x, moved: false, extend: event.shiftKey };
      case "outside":
        return undefined;
    }
  }

  private move(event: PointerEvent): void {
    const { x, y, at } = this.locate(event);
    this.point = { x, y };
    const { drag, target } = this;
    if (drag === undefined) {
      this.point = { x, y };
      const hover = at.part === "header" || at.part === "menu" || at.part === "edge" ? at.place : undefined;
      target.surface.style.cursor = at.part === "edge" ? "col-resize" : "";
      if (hover !== target.hover && event.pointerType !== "touch") {
        target.hover = hover;
        target.invalidate();
      }
      return;
    }
    switch (drag.kind) {
      case "resize":
        target.layout.resize(drag.column, drag.width + x - drag.from);
        target.layoutChanged();
        break;
      case "head":
        if (!drag.moved && Math.abs(x - drag.from) < SLOP) break;
        drag.moved = true;
        target.surface.style.cursor = "grabbing";
        target.drop = dropPlace(target.geometry, target.layout, x);
        this.autoScroll();
        target.invalidate();
        break;
      case "pan":
        this.pan(drag, x, y, event.timeStamp);
        break;
      default:
        this.reach(drag.kind);
        this.autoScroll();
    }
  }

  /** Extends the selection to the cell nearest to the pointer. */
  private reach(kind: "cells" | "rows" | "columns"): void {
    const { target } = this;
    const cell = nearestCell(target.geometry, target.layout, this.point.x, this.point.y);
    const place = kind === "rows" ? target.selection.active.place : cell.place;
    const { active } = target.selection;
    if (active.row === cell.row && active.place === place) return;
    target.selection.moveTo({ row: cell.row, place }, true);
    target.invalidate();
  }

  private pan(drag: Drag & { kind: "pan" }, x: number, y: number, time: number): void {
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < SLOP) return;
    drag.moved = true;
    drag.speed.move(x, y, time);
    this.target.scrollBy((drag.y - y) / ROW_HEIGHT, drag.x - x);
    drag.x = x;
    drag.y = y;
  }

  private up(event: PointerEvent): void {
    const { drag, target } = this;
    if (drag?.kind === "head") {
      if (drag.moved && target.drop !== undefined) {
        target.layout.move(drag.place, target.drop);
        target.selection.clear();
        target.layoutChanged();
      } else if (!drag.moved) {
        target.selection.columns(drag.place, drag.extend);
        target.selected();
      }
    }
    if (drag?.kind === "pan") {
      if (drag.moved) this.fling(drag.speed.leave(event.timeStamp), event.timeStamp);
      else this.tap(drag.from, event);
    }
    this.end();
  }

  private tap(at: Hit, event: PointerEvent): void {
    const { target } = this;
    if (at.part === "cell") target.selection.moveTo(at);
    else if (at.part === "gutter") target.selection.rows(at.row, false);
    else if (at.part === "header" || at.part === "menu" || at.part === "edge") {
      target.selection.moveTo({ row: target.selection.active.row, place: at.place });
      target.openMenu("head", event.clientX, event.clientY);
    }
    target.selected();
  }

  private fling(speed: { readonly x: number; readonly y: number }, start: number): void {
    const fling = new Fling(speed, start);
    const step = (now: number): void => {
      const part = fling.step(now);
      if (part === undefined) return;
      this.target.scrollBy(-part.y / ROW_HEIGHT, -part.x);
      this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  /** Scrolls on while a drag is beyond an edge, faster with its distance. */
  private autoScroll(): void {
    if (this.frame !== 0) return;
    let before = performance.now();
    const step = (now: number): void => {
      this.frame = 0;
      const { drag, target, point } = this;
      if (drag === undefined || drag.kind === "resize" || drag.kind === "pan") return;
      const { width, height, gutter } = target.geometry;
      const beyond = (at: number, low: number, high: number): number => (at < low ? at - low : at > high ? at - high : 0);
      const across = drag.kind === "rows" ? 0 : beyond(point.x, gutter, width);
      const down = drag.kind === "cells" || drag.kind === "rows" ? beyond(point.y, HEADER_HEIGHT, height) : 0;
      if (across === 0 && down === 0) return;
      const time = Math.min(50, now - before) / 1000;
      before = now;
      target.scrollBy(down * AUTO_SCROLL * time * 5, across * AUTO_SCROLL * time * 40);
      if (drag.kind !== "head") this.reach(drag.kind);
      this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  private end(): void {
    const { target } = this;
    const kind = this.drag?.kind;
    if (kind === undefined) return;
    this.drag = undefined;
    if (kind !== "pan") this.stop();
    if (kind === "head" || kind === "resize") target.surface.style.cursor = "";
    if (target.drop !== undefined) {
      target.drop = undefined;
      target.invalidate();
    }
  }

  private leave(): void {
    if (this.drag !== undefined || this.target.hover === undefined) return;
    this.target.hover = undefined;
    this.target.invalidate();
  }

  private doubleClick(event: MouseEvent): void {
    const { at } = this.locate(event);
    if (at.part === "edge") this.target.fitColumn(at.place);
    else if (at.part === "cell") this.target.openCell();
  }

  private contextMenu(event: MouseEvent): void {
    if (event.button !== 2 && (event as Partial<PointerEvent>).pointerType !== "touch") {
      event.preventDefault(); // by a key, which has opened the menu already
      return;
    }
    const { at } = this.locate(event);
    const { selection } = this.target;
    if (at.part === "cell") {
      if (!selection.has(at.row, at.place)) selection.moveTo(at);
      this.target.selected();
      this.target.openMenu("cell", event.clientX, event.clientY);
    } else if (at.part === "header" || at.part === "menu" || at.part === "edge") {
      selection.moveTo({ row: selection.active.row, place: at.place });
      this.target.openMenu("head", event.clientX, event.clientY);
    } else {
      return;
    }
    event.preventDefault();
  }
}
