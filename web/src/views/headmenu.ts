// The menu of a column's header.

import type { Column } from "../cells/column.ts";
import { isNumber } from "../cells/column.ts";
import type { Grid } from "../grid/grid.ts";
import type { MenuEntry, MenuGroups } from "./menu.ts";
import { entriesFor } from "./operations.ts";
import type { Query } from "../wire/messages.ts";

/** Pixels of one step of "Wider" and "Narrower". */
const WIDTH_STEP = 40;

/**
 * Groups of entries for the active column.
 *
 * @param text the active cell, for operations on its value
 * @param announced operations of the server
 * @param query which rows are shown now
 * @param numbers opens the menu in which the format of the column's numbers is chosen
 */
export function headMenu(
  grid: Grid, about: Column, text: string | null | undefined, announced: readonly string[], query: Query, ask: (query: Query | undefined) => void, numbers: () => void,
): MenuGroups {
  const { layout, selection } = grid;
  const { place } = selection.active;
  const column = layout.shown[place];
  if (column === undefined) return [];
  const change = (run: () => void) => (): void => {
    run();
    const now = layout.place(column);
    if (now >= 0) selection.moveTo({ row: selection.active.row, place: now });
    grid.layoutChanged();
  };
  const operations = entriesFor(announced, about.name, text, query).map((entry): MenuEntry => ({ label: entry.label, run: () => ask(entry.query) }));
  const pinned = layout.isPinned(column);
  return [
    operations,
    [
      { label: pinned ? "Unpin" : "Pin to the left", run: change(() => layout.pin(column, !pinned)) },
      { label: "Hide", run: change(() => layout.hide(column)) },
      { label: "Move left", disabled: place === 0, run: change(() => layout.move(place, place - 1)) },
      { label: "Move right", disabled: place >= layout.shown.length - 1, run: change(() => layout.move(place, place + 2)) },
    ],
    [
      { label: "Fit to what is in view", run: () => grid.fitColumn(place) },
      { label: "Wider", run: change(() => layout.resize(column, layout.width(column) + WIDTH_STEP)) },
      { label: "Narrower", run: change(() => layout.resize(column, layout.width(column) - WIDTH_STEP)) },
    ],
    isNumber(about) ? [{ label: "Numbers\u2026", opens: true, run: numbers }] : [],
  ];
}
