// Which part of the table to ask the server for.

import type { ColumnLayout } from "./columns.ts";
import type { Scroller } from "./scroll.ts";

/** Rows and columns to ask for; as the View of the link. */
export interface Demand {
  readonly columns: readonly number[] | undefined;
  readonly first: number;
  readonly count: number;
  readonly reverse: boolean;
}

export interface DemandLimits {
  readonly rows: number;
  readonly columns: number;
  readonly cells: number;
}

/** Tables of up to this many columns are asked for whole. */
const WHOLE_COLUMNS = 64;

/**
 * The part to ask for: what is in view, and a screen on either side of it.
 *
 * While the rows move, it is half a screen on the side that they come from; while they are `jumping`, as under a
 * dragged thumb, it is what is in view alone. The part that is asked for already, `before`, stays as long as it has
 * half a screen to spare in the direction of travel: not every pixel is a request.
 */
export function demand(
  scroller: Scroller,
  layout: ColumnLayout,
  across: { readonly scrolled: number; readonly width: number },
  limits: DemandLimits,
  jumping = false,
  before?: Demand,
): Demand {
  const columns = demandedColumns(layout, across, limits, before);
  const width = Math.max(1, columns?.length ?? layout.columns.length);
  const most = Math.max(1, Math.min(limits.rows, Math.floor(limits.cells / width)));
  const { visible, rows } = scroller.extent;
  const screen = Math.max(1, Math.ceil(visible) + 1);
  const same = sameColumns(columns, before?.columns);
  if (scroller.following) {
    if (same && before?.reverse === true && before.count >= Math.min(most, screen)) return before;
    return { columns, first: 0, count: Math.min(most, 2 * screen), reverse: true };
  }
  const top = scroller.position.row;
  const bottom = Math.min(top + screen, Math.max(rows, top + 1));
  const half = Math.floor(screen / 2);
  const { travel } = scroller;
  if (same && before?.reverse === false) {
    const from = Math.max(0, top - (jumping || travel > 0 ? 0 : half));
    const to = Math.min(bottom + (jumping || travel < 0 ? 0 : half), Math.max(rows, bottom));
    if (before.first <= from && before.first + before.count >= to) return before;
  }
  const first = Math.max(0, top - (jumping ? 0 : travel > 0 ? half : screen));
  const last = bottom + (jumping ? 0 : travel < 0 ? half : screen);
  if (last - first <= most) return { columns, first, count: last - first, reverse: false };
  return { columns, first: top, count: Math.min(last - top, most), reverse: false };
}

function demandedColumns(
  layout: ColumnLayout,
  across: { readonly scrolled: number; readonly width: number },
  limits: DemandLimits,
  before: Demand | undefined,
): readonly number[] | undefined {
  const all = layout.columns.length;
  if (all <= Math.min(WHOLE_COLUMNS, limits.columns)) return undefined;
  const inView = [
    ...layout.shown.slice(0, layout.pinnedCount),
    ...placesIn(layout, across.scrolled, across.width),
  ].slice(0, limits.columns);
  const held = before?.columns;
  if (held !== undefined) {
    const set = new Set(held);
    if (inView.every((column) => set.has(column))) return held;
  }
  const wide = [
    ...inView,
    ...placesIn(layout, Math.max(0, across.scrolled - across.width), 3 * across.width),
  ];
  const unique = [...new Set(wide)].slice(0, limits.columns);
  return unique.sort((a, b) => a - b);
}

function placesIn(layout: ColumnLayout, scrolled: number, width: number): readonly number[] {
  const { from, to } = layout.inView(scrolled, width);
  return layout.shown.slice(from, to);
}

function sameColumns(a: readonly number[] | undefined, b: readonly number[] | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a.length === b.length && a.every((column, at) => column === b[at]);
}
