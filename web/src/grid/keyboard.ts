// Keys of the grid.

import type { Selection } from "./selection.ts";
import { stepOf } from "./selection.ts";

/** What keys act on: the grid. */
export interface KeyTarget {
  readonly selection: Selection;
  /** Makes a cell in view the active one if none is that the user has chosen. */
  enter(): void;
  /** The active cell has moved. */
  selected(): void;
  copy(): void;
  openCell(): void;
  /** Opens a menu at the active cell. */
  openMenuHere(part: "head" | "cell"): void;
}

/** Does what a key stands for; false: nothing. */
export function pressKey(target: KeyTarget, event: KeyboardEvent): boolean {
  const { selection } = target;
  const far = event.ctrlKey || event.metaKey;
  const step = stepOf(event);
  if (step !== undefined) {
    target.enter();
    selection.step(step, event.shiftKey);
    target.selected();
    return true;
  }
  const letter = far && !event.altKey && !event.shiftKey ? event.key.toLowerCase() : "";
  if (letter === "a") selection.all();
  else if (letter === "c") target.copy();
  else if (event.key === " " && event.shiftKey) selection.rows(selection.active.row, false);
  else if (event.key === " " && far) selection.columns(selection.active.place, false);
  else if (event.key === "Escape" && !selection.isSingle) selection.clear();
  else if (event.key === "Enter" || event.key === "F2") target.openCell();
  else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) target.openMenuHere(far ? "cell" : "head");
  else return false;
  return true;
}
