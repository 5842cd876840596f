// Timers by name: a later one under a name replaces the earlier.

export class Timers {
  private readonly timers = new Map<string, number>();

  later(name: string, ms: number, run: () => void): void {
    this.cancel(name);
    this.timers.set(name, window.setTimeout(run, ms));
  }

  cancel(name: string): void {
    clearTimeout(this.timers.get(name));
    this.timers.delete(name);
  }

  cancelAll(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
  }
}
