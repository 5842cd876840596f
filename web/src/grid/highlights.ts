// How strongly a change glows.

/** Milliseconds that a change is highlighted. */
export const GLOW_MS = 600;
/** Steps in which it fades: a repaint each, not sixty a second. */
const STEPS = 6;

/** Updates (after, upTo] were first painted at `at` ms. */
interface Paint {
  readonly after: number;
  readonly upTo: number;
  readonly at: number;
}

/** When the updates of a window were first painted: a change glows from then on, not from when it arrived. */
export class Highlights {
  private paints: readonly Paint[] = [];
  private seen: number | undefined;
  private readonly fading: boolean;

  /** @param fading false: at full strength until the end, for users who prefer reduced motion */
  constructor(fading = true) {
    this.fading = fading;
  }

  /** Notes that the updates up to number `version` are painted at `now` ms. The first ones do not glow. */
  note(version: number, now: number): void {
    this.paints = this.paints.filter((paint) => now - paint.at < GLOW_MS);
    if (this.seen !== undefined && version > this.seen) {
      this.paints = [...this.paints, { after: this.seen, upTo: version, at: now }];
    }
    this.seen = version;
  }

  /** Whether anything glows at all. */
  get any(): boolean {
    return this.paints.length > 0;
  }

  /** Strength in (0, 1] of a change by update number `update`; 0: none any more. */
  strength(update: number, now: number): number {
    const paint = this.paints.find((one) => update > one.after && update <= one.upTo);
    if (paint === undefined) return 0;
    const left = 1 - (now - paint.at) / GLOW_MS;
    if (left <= 0) return 0;
    return this.fading ? Math.min(1, Math.ceil(left * STEPS) / STEPS) : 1;
  }

  /** Milliseconds after which what glows at `now` has to be painted again; undefined: nothing glows. */
  next(now: number): number | undefined {
    const oldest = this.paints[0];
    if (oldest === undefined) return undefined;
    return this.fading ? GLOW_MS / STEPS : Math.max(1, GLOW_MS - (now - oldest.at));
  }
}
