// A scroll bar: its track and thumb.

import { Pace } from "./pace.ts";
import type { Thumb } from "./scroll.ts";

/** Least milliseconds between two movements of the thumb that are followed before the next frame. */
const EARLY_MS = 8;

export interface ScrollbarActions {
  /** The thumb is dragged to `start` pixels of the track. */
  drag(start: number): void;
  /** The thumb is dragged by `pixels` with Shift. */
  fine(pixels: number): void;
  /** The track is pressed before or after the thumb. */
  page(direction: -1 | 1): void;
  /** The thumb is let go. */
  release(): void;
}

/** Beside the grid, which scrolls by keys itself; so it takes no focus and is hidden from screen readers. */
export class Scrollbar {
  readonly element: HTMLElement;
  private readonly thumb: HTMLElement;
  private readonly vertical: boolean;
  private shown: Thumb | undefined;

  constructor(vertical: boolean, actions: ScrollbarActions) {
    this.vertical = vertical;
    this.element = document.createElement("div");
    this.element.className = `scrollbar ${vertical ? "vertical" : "horizontal"}`;
    this.element.setAttribute("aria-hidden", "true");
    this.thumb = document.createElement("div");
    this.thumb.className = "thumb";
    this.element.append(this.thumb);
    this.listen(actions);
  }

  /** Pixels of the track. */
  get track(): number {
    return this.vertical ? this.element.clientHeight : this.element.clientWidth;
  }

  show(thumb: Thumb | undefined): void {
    if (thumb?.start === this.shown?.start && thumb?.length === this.shown?.length) return;
    this.shown = thumb;
    this.thumb.hidden = thumb === undefined;
    if (thumb === undefined) return;
    this.thumb.style.transform = this.vertical ? `translateY(${thumb.start}px)` : `translateX(${thumb.start}px)`;
    this.thumb.style[this.vertical ? "height" : "width"] = `${thumb.length}px`;
  }

  private listen(actions: ScrollbarActions): void {
    let from: { pointer: number; thumb: number; last: number } | undefined;
    const at = (event: PointerEvent): number => (this.vertical ? event.clientY : event.clientX);
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.shown === undefined) return;
      event.preventDefault();
      const box = this.element.getBoundingClientRect();
      const point = at(event) - (this.vertical ? box.top : box.left);
      if (point < this.shown.start) actions.page(-1);
      else if (point > this.shown.start + this.shown.length) actions.page(1);
      else {
        from = { pointer: at(event), thumb: this.shown.start, last: at(event) };
        this.element.setPointerCapture(event.pointerId);
        this.element.classList.add("dragged");
      }
    });
    const move = (event: PointerEvent): void => {
      if (from === undefined) return;
      const point = at(event);
      if (event.shiftKey) {
        actions.fine(point - from.last);
        // Without Shift it goes on from here.
        from = { pointer: point, thumb: this.shown?.start ?? 0, last: point };
      } else {
        actions.drag(from.thumb + point - from.pointer);
        from.last = point;
      }
    };
    this.element.addEventListener("pointermove", move);
    // Movements are told with the next frame, and before it by this event: what it asks for can be there in time.
    const early = new Pace(EARLY_MS);
    this.element.addEventListener("pointerrawupdate", (event) => {
      if (from !== undefined && event instanceof PointerEvent && !event.shiftKey && early.takes(event.timeStamp)) move(event);
    });
    const release = (): void => {
      if (from === undefined) return;
      from = undefined;
      this.element.classList.remove("dragged");
      actions.release();
    };
    this.element.addEventListener("pointerup", release);
    this.element.addEventListener("pointercancel", release);
    this.element.addEventListener("lostpointercapture", release);
  }
}
