// Scrolling to the right, in pixels.

import type { Thumb } from "./scroll.ts";

const LEAST_THUMB = 28;

/** How far the columns are scrolled. */
export class AcrossScroll {
  /** Pixels; whole ones, so that text stays sharp. */
  pixels = 0;
  private most = 0;
  private share = 1;

  /** Takes over the pixels of all columns, and those that there are for them. */
  resize(total: number, space: number): void {
    this.most = Math.max(0, total - space);
    this.share = total <= space ? 1 : space / total;
    this.to(this.pixels);
  }

  to(pixels: number): void {
    this.pixels = Number.isFinite(pixels) ? Math.round(Math.max(0, Math.min(this.most, pixels))) : 0;
  }

  /** The thumb on a track of `track` pixels; undefined: all columns are in view. */
  thumb(track: number): Thumb | undefined {
    if (this.most === 0) return undefined;
    const length = this.length(track);
    return { start: (this.pixels / this.most) * Math.max(0, track - length), length };
  }

  /** Scrolls to where the thumb starts at `start`. */
  toThumb(start: number, track: number): void {
    this.to((start / Math.max(1, track - this.length(track))) * this.most);
  }

  private length(track: number): number {
    return Math.min(track, Math.max(LEAST_THUMB, track * this.share));
  }
}
