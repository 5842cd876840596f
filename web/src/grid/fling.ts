// Scrolling by touch that goes on after the finger has left.

/** Milliseconds in which the speed falls to a third. */
const DECAY_MS = 325;
/** Movements older than this do not count for the speed. */
const MEMORY_MS = 100;
/** Pixels a millisecond below which it ends. */
const LEAST_SPEED = 0.02;

/** Speed of a finger from its newest movements, in pixels a millisecond. */
export class FingerSpeed {
  private moves: readonly { readonly at: number; readonly x: number; readonly y: number }[] = [];

  move(x: number, y: number, at: number): void {
    this.moves = [...this.moves.filter((move) => at - move.at < MEMORY_MS), { at, x, y }];
  }

  /** The speed when the finger leaves at `at` ms: zero if it has rested. */
  leave(at: number): { readonly x: number; readonly y: number } {
    const first = this.moves[0];
    const last = this.moves.at(-1);
    if (first === undefined || last === undefined || last.at <= first.at || at - last.at >= MEMORY_MS) return { x: 0, y: 0 };
    const time = last.at - first.at;
    return { x: (last.x - first.x) / time, y: (last.y - first.y) / time };
  }
}

/** A movement that becomes slower. */
export class Fling {
  private readonly speed: { readonly x: number; readonly y: number };
  private readonly start: number;
  private before: number;

  constructor(speed: { readonly x: number; readonly y: number }, start: number) {
    this.speed = speed;
    this.start = start;
    this.before = start;
  }

  /** Pixels since the last call; undefined: it has ended. */
  step(now: number): { readonly x: number; readonly y: number } | undefined {
    const share = Math.exp((this.start - now) / DECAY_MS);
    if (Math.hypot(this.speed.x, this.speed.y) * share < LEAST_SPEED) return undefined;
    // The integral of the speed, so that the way does not depend on the frames.
    const way = (time: number): number => DECAY_MS * (1 - Math.exp((this.start - time) / DECAY_MS));
    const part = way(now) - way(this.before);
    this.before = now;
    return { x: this.speed.x * part, y: this.speed.y * part };
  }
}
