// Where a table of any size is scrolled to.
//
// A position is the number of the first row in view and the fraction of it that is above the edge. The two are kept
// apart, so that both stay exact up to 2^53 rows, and a wheel notch moves by the same pixels at any size.

export interface Position {
  /** Number of the first row in view, from 0. */
  readonly row: number;
  /** Part of that row that is above the upper edge, in [0, 1). */
  readonly fraction: number;
}

export interface Extent {
  /** Rows of the table. */
  readonly rows: number;
  /** Rows that fit between the header and the lower edge; need not be whole. */
  readonly visible: number;
}

export const TOP: Position = { row: 0, fraction: 0 };

/** The position at which the last row touches the lower edge; the top where all rows fit. */
export function end(extent: Extent): Position {
  const { rows, visible } = extent;
  if (rows <= visible) return TOP;
  const whole = Math.ceil(visible);
  return { row: rows - whole, fraction: whole - visible };
}

/** Negative, zero or positive: whether `a` is before, at or after `b`. */
export function compare(a: Position, b: Position): number {
  return a.row === b.row ? a.fraction - b.fraction : a.row < b.row ? -1 : 1;
}

/** The nearest position that shows no space after the last row. */
export function clamp(position: Position, extent: Extent): Position {
  const last = end(extent);
  if (position.row < 0) return TOP;
  return compare(position, last) > 0 ? last : position;
}

/** The position `rows` further down, which need not be whole; negative is up. */
export function moved(position: Position, rows: number, extent: Extent): Position {
  if (Number.isNaN(rows)) return clamp(position, extent);
  if (rows === Infinity) return end(extent);
  if (rows === -Infinity) return TOP;
  let whole = Math.floor(rows);
  let fraction = position.fraction + (rows - whole);
  if (fraction >= 1) {
    whole += 1;
    fraction -= 1;
  }
  return clamp({ row: position.row + whole, fraction }, extent);
}

/** The least change of `position` after which all of `row` is in view. */
export function reveal(position: Position, row: number, extent: Extent): Position {
  const whole = Math.ceil(extent.visible);
  const lowest = { row: row + 1 - whole, fraction: whole - extent.visible };
  if (compare(position, { row, fraction: 0 }) > 0 || extent.visible < 1) return clamp({ row, fraction: 0 }, extent);
  if (compare(position, lowest) < 0) return clamp(lowest, extent);
  return clamp(position, extent);
}

/** The position with `row` a third below the upper edge, for a jump to it. */
export function around(row: number, extent: Extent): Position {
  return clamp({ row: row - Math.floor(extent.visible / 3), fraction: 0 }, extent);
}

/** Rows that a wheel event moves by; `mode` is the event's deltaMode. */
export function wheelRows(delta: number, mode: number, rowHeight: number, visible: number): number {
  if (mode === 1) return delta;
  if (mode === 2) return delta * Math.max(1, visible - 1);
  return delta / rowHeight;
}

export interface Thumb {
  /** Pixels from the start of the track. */
  readonly start: number;
  /** Pixels. */
  readonly length: number;
}

const LEAST_THUMB = 28;

/** Where the thumb is on a track of `track` pixels; undefined where everything is in view. */
export function thumb(position: Position, extent: Extent, track: number): Thumb | undefined {
  const last = end(extent);
  if (compare(last, TOP) <= 0 || track <= 0) return undefined;
  const length = Math.min(track, Math.max(LEAST_THUMB, (track * extent.visible) / extent.rows));
  const share = (position.row + position.fraction) / (last.row + last.fraction);
  return { start: Math.min(1, share) * (track - length), length };
}

/** The position whose thumb starts at `start` pixels of a track of `track` pixels. */
export function atThumb(start: number, extent: Extent, track: number): Position {
  const last = end(extent);
  const shown = thumb(TOP, extent, track);
  if (shown === undefined || track <= shown.length) return TOP;
  const share = start / (track - shown.length);
  if (!(share > 0)) return TOP;
  if (share >= 1) return last;
  const at = share * (last.row + last.fraction);
  const row = Math.floor(at);
  return clamp({ row, fraction: at - row }, extent);
}

/** Rows that a pixel of the thumb's way moves by while Shift is held: a row, or a tenth of the usual if that is less. */
export function fineStep(extent: Extent, track: number): number {
  const last = end(extent);
  const shown = thumb(TOP, extent, track);
  if (shown === undefined || track <= shown.length) return 0;
  return Math.min(1, (last.row + last.fraction) / (track - shown.length) / 10);
}

/** The kinds of table whose end is followed until the user scrolls up. */
export function followsEnd(kind: string): boolean {
  return kind === "append" || kind === "blink" || kind === "ring";
}

/**
 * The scrolling of one table: its position, and whether it follows the end.
 *
 * While it follows, the position is that of the last rows at any size, and rows are asked for by their distance from
 * the end. Scrolling up ends that; scrolling down at the end begins it again where `sticky`.
 */
export class Scroller {
  position: Position = TOP;
  extent: Extent = { rows: 0, visible: 0 };
  following: boolean;
  /** Direction of the last movement: -1 up, 1 down, 0 a jump or none. */
  travel: -1 | 0 | 1 = 0;

  /** Whether reaching the end begins to follow it. */
  sticky: boolean;

  constructor(sticky: boolean) {
    this.sticky = sticky;
    this.following = sticky;
  }

  /** Takes over the table's rows and the space; true if the position has changed. A table without rows keeps the place: they may come yet. */
  resize(extent: Extent): boolean {
    const before = this.position;
    this.extent = extent;
    this.position = this.following ? end(extent) : extent.rows === 0 ? before : clamp(before, extent);
    return compare(before, this.position) !== 0;
  }

  /** Moves by `rows`, which need not be whole. */
  by(rows: number): void {
    if (rows === 0) return;
    const target = moved(this.position, rows, this.extent);
    const still = compare(target, this.position) === 0;
    this.travel = Math.abs(rows) > 2 * this.extent.visible ? 0 : rows < 0 ? -1 : 1;
    this.position = target;
    if (rows < 0) this.following = this.following && still;
    else if (this.sticky && compare(target, end(this.extent)) >= 0) this.following = true;
  }

  /** Moves to `position`, or as near as there are rows. */
  to(position: Position): void {
    const target = clamp(position, this.extent);
    const change = compare(target, this.position);
    const near = Math.abs(target.row - this.position.row) <= 2 * this.extent.visible;
    this.travel = !near || change === 0 ? 0 : change < 0 ? -1 : 1;
    this.position = target;
    if (change < 0) this.following = false;
    else if (this.sticky && change > 0 && compare(target, end(this.extent)) >= 0) this.following = true;
  }

  /** Moves as little as shows all of `row`. */
  reveal(row: number): void {
    this.to(reveal(this.position, row, this.extent));
  }

  /** Begins or ends following the end of the table. */
  follow(on: boolean): void {
    this.following = on;
    this.travel = 0;
    if (on) this.position = end(this.extent);
  }
}
