// What the grid reads from, and what it tells.

import type { Column } from "../cells/column.ts";
import type { TableWindow } from "../window/window.ts";
import type { ColumnLayout } from "./columns.ts";
import type { Demand } from "./demand.ts";

/** What the grid shows: an open view of the link is one. */
export interface GridSource {
  readonly table: string;
  readonly window: TableWindow | undefined;
  readonly columns: readonly Column[];
  readonly kind: string;
  readonly stale: boolean;
  move(view: Demand): void;
  painted(): void;
}

/** What the grid tells the page. */
export interface GridListener {
  /** Position, selection, columns or rows have changed. */
  changed(): void;
  /** The layout of the columns has changed by the user. */
  columnsChanged(): void;
  openCell(): void;
  openMenu(part: "head" | "cell", x: number, y: number): void;
  copy(): void;
}

/** Lays out columns; `usual` is the width of one that has not been resized. */
export type MakeLayout = (columns: readonly Column[], usual: (column: number) => number) => ColumnLayout;
