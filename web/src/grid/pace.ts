// How often something is done.

/** Lets something happen at most once in `ms`. */
export class Pace {
  private readonly ms: number;
  private last = -Infinity;

  constructor(ms: number) {
    this.ms = ms;
  }

  /** Whether it may happen at `now`, in ms; then it has happened. */
  takes(now: number): boolean {
    if (now - this.last < this.ms) return false;
    this.last = now;
    return true;
  }
}
