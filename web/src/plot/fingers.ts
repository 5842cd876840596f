// Fingers on a plot: one pans, two zoom. Pure.

export type Range = readonly [low: number, high: number];

/** Pixels that two fingers count as apart at least: nearer ones would zoom without end. */
const LEAST_APART = 16;

/** What is under a finger stays under it. */
export class Fingers {
  /** Pixels from the left edge of the lines, by pointer: where a finger was when one came or left last, and is now. */
  private readonly held = new Map<number, { from: number; now: number }>();
  private begun: Range = [0, 1];
  private latest: Range = [0, 1];

  /** A finger comes at `x` pixels; `shown`: the places at the edges of the picture. */
  down(pointer: number, x: number, shown: Range): void {
    if (this.held.size === 0) this.latest = shown;
    this.settle();
    this.held.set(pointer, { from: x, now: x });
  }

  /** A finger moves to `x` pixels of a picture that is `width` pixels wide; the places at its edges then. undefined: nothing changes. */
  move(pointer: number, x: number, width: number): Range | undefined {
    const moved = this.held.get(pointer);
    if (moved === undefined || width <= 0) return undefined;
    moved.now = x;
    const [one, other] = [...this.held.values()].sort((a, b) => a.from - b.from);
    if (one === undefined) return undefined;
    const [low, high] = this.begun;
    const before = (high - low) / width; // places a pixel
    let after = before;
    if (other !== undefined) after *= Math.max(LEAST_APART, other.from - one.from) / Math.max(LEAST_APART, other.now - one.now);
    // Of two fingers what was between them stays between them.
    const [from, now] = other === undefined ? [one.from, one.now] : [(one.from + other.from) / 2, (one.now + other.now) / 2];
    const start = low + from * before - now * after;
    this.latest = [start, start + width * after];
    return this.latest;
  }

  up(pointer: number): void {
    this.settle();
    this.held.delete(pointer);
  }

  /** Begins anew with the fingers that are there. */
  private settle(): void {
    this.begun = this.latest;
    for (const finger of this.held.values()) finger.from = finger.now;
  }
}
