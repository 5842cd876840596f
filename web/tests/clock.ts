// A clock of the tests.

import type { Clock } from "../src/link/link.ts";

/** Time passes when a test says so. */
export class FakeClock implements Clock {
  time = 1000;
  private timers: { at: number; run: () => void }[] = [];

  now(): number {
    return this.time;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.time + ms, run };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  pass(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const next = this.timers.filter(({ at }) => at <= end).sort((left, right) => left.at - right.at)[0];
      if (next === undefined) break;
      this.time = Math.max(this.time, next.at);
      this.timers = this.timers.filter((other) => other !== next);
      next.run();
    }
    this.time = end;
  }

  get waiting(): number {
    return this.timers.length;
  }
}
