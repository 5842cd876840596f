// Paints the grid on a canvas.

import { isNumber } from "../cells/column.ts";
import { grouped } from "../cells/number.ts";
import type { Column, Value } from "../cells/column.ts";
import type { Change } from "../window/window.ts";
import type { ColumnLayout } from "./columns.ts";
import { HEADER_HEIGHT, MENU_WIDTH, ROW_HEIGHT, columnLeft, columnSpace, placesInView, rowTop, rowsInView } from "./geometry.ts";
import type { Geometry } from "./geometry.ts";
import type { Highlights } from "./highlights.ts";
import type { Palette } from "./palette.ts";
import type { Rectangle, Selection } from "./selection.ts";
import type { CellTexts, Labels } from "./texts.ts";
import { PADDING } from "./widths.ts";
import { shownName, typeLine } from "./names.ts";

/** The rows that are here. */
export interface HeldRows {
  readonly version: number;
  value(row: number, column: number): Value | undefined;
  changedAt(row: number, column: number): Change | undefined;
}

/** How a column is sorted; what is painted after its name. */
export type SortMark = "\u25b2" | "\u25bc";
/** Pixels of the mark and the space before it. */
const MARK_WIDTH = 16;

/** What one frame shows. */
export interface Picture {
  readonly geometry: Geometry;
  readonly layout: ColumnLayout;
  readonly columns: readonly Column[];
  readonly held: HeldRows | undefined;
  readonly selection: Selection;
  readonly highlights: Highlights;
  /** By name of column. */
  readonly sorts: ReadonlyMap<string, SortMark>;
  readonly texts: CellTexts;
  readonly labels: Labels;
  readonly palette: Palette;
  /** Milliseconds, for the highlights. */
  readonly now: number;
  /** The connection is lost: what is shown is old. */
  readonly stale: boolean;
  readonly focused: boolean;
  /** Place of the header under the pointer. */
  readonly hover: number | undefined;
  /** A column is dragged to before this place. */
  readonly drop: number | undefined;
  /** Device pixels of a CSS pixel. */
  readonly ratio: number;
}

const BASELINE = 16.5;

type Context = CanvasRenderingContext2D;

/** Paints one frame; true if a change glows in it, and has to be painted again when it has faded. */
export function paint(context: Context, picture: Picture): boolean {
  const { geometry, layout, palette, ratio } = picture;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette.back;
  context.fillRect(0, 0, geometry.width, geometry.height);
  context.direction = "ltr";
  context.textBaseline = "alphabetic";
  const rows = rowsInView(geometry);
  const places = placesInView(geometry, layout);
  let glows = false;
  for (const place of places) if (paintColumn(context, picture, place, rows)) glows = true;
  paintRowLines(context, picture, rows);
  paintSelection(context, picture);
  paintGutter(context, picture, rows);
  paintHeader(context, picture, places);
  paintEdges(context, picture);
  return glows;
}

/** A length rounded to device pixels. */
function snap(value: number, ratio: number): number {
  return Math.round(value * ratio) / ratio;
}

/** Confines painting to a column, below or in the header; pinned columns cover scrolled ones. */
function clipColumn(context: Context, picture: Picture, place: number, top: number, bottom: number): boolean {
  const { geometry, layout } = picture;
  const pinned = geometry.gutter + layout.pinnedWidth;
  const left = columnLeft(geometry, layout, place);
  const right = Math.min(geometry.width, left + layout.left(place + 1) - layout.left(place));
  const from = place < layout.pinnedCount ? left : Math.max(left, pinned);
  if (right <= from) return false;
  context.save();
  context.beginPath();
  context.rect(from, top, right - from, bottom - top);
  context.clip();
  return true;
}

function paintColumn(context: Context, picture: Picture, place: number, rows: { from: number; to: number }): boolean {
  const { geometry, layout, palette, held, texts, highlights, now } = picture;
  const number = layout.shown[place];
  const column = number === undefined ? undefined : picture.columns[number];
  if (number === undefined || column === undefined) return false;
  if (!clipColumn(context, picture, place, HEADER_HEIGHT, geometry.height)) return false;
  const left = columnLeft(geometry, layout, place);
  const width = layout.left(place + 1) - layout.left(place);
  const numeric = isNumber(column);
  const mayGlow = !picture.stale && highlights.any;
  let glows = false;
  const textX = numeric ? left + width - PADDING : left + PADDING;
  context.font = palette.cellFont;
  context.textAlign = numeric ? "right" : "left";
  for (let row = rows.from; row < rows.to; row++) {
    const value = held?.value(row, number);
    const top = rowTop(geometry, row);
    if (value === undefined) {
      paintPlaceholder(context, palette, left, top, width, row + number, numeric);
      continue;
    }
    const change = mayGlow ? held?.changedAt(row, number) : undefined;
    if (change !== undefined) {
      const strength = highlights.strength(change.at, now);
      if (strength > 0) {
        glows = true;
        paintChange(context, palette, change.direction, strength, left, top, width, numeric);
      }
    }
    const painted = texts.painted(number, column, value, width - 2 * PADDING);
    context.fillStyle = value === null || picture.stale ? palette.muted : palette.text;
    if (value === null) context.font = palette.nullFont;
    const baseline = snap(top + BASELINE, picture.ratio);
    if (painted.simple) {
      context.fillText(painted.text, textX, baseline);
    } else {
      // Marks of some scripts pile up beyond the line: they stay in their cell.
      context.save();
      context.beginPath();
      context.rect(left, top, width, ROW_HEIGHT);
      context.clip();
      context.fillText(painted.text, textX, baseline);
      context.restore();
    }
    if (value === null) context.font = palette.cellFont;
  }
  context.restore();
  return glows;
}

function paintPlaceholder(
  context: Context, palette: Palette, left: number, top: number, width: number, seed: number, numeric: boolean,
): void {
  const length = Math.max(4, (width - 2 * PADDING) * (0.35 + ((seed * 37) % 40) / 100));
  context.fillStyle = palette.placeholder;
  context.fillRect(numeric ? left + width - PADDING - length : left + PADDING, top + 9, length, 6);
}

/** The background of a changed cell, and a mark beside its text: a triangle up or down, or a dot. */
function paintChange(
  context: Context, palette: Palette, direction: -1 | 0 | 1, strength: number,
  left: number, top: number, width: number, numeric: boolean,
): void {
  context.globalAlpha = strength;
  context.fillStyle = direction > 0 ? palette.upBack : direction < 0 ? palette.downBack : palette.sameBack;
  context.fillRect(left, top, width, ROW_HEIGHT);
  context.fillStyle = direction > 0 ? palette.up : direction < 0 ? palette.down : palette.same;
  const x = numeric ? left + 2 : left + width - 8;
  const y = top + ROW_HEIGHT / 2;
  context.beginPath();
  if (direction > 0) {
    context.moveTo(x, y + 2.5);
    context.lineTo(x + 3, y - 2.5);
    context.lineTo(x + 6, y + 2.5);
  } else if (direction < 0) {
    context.moveTo(x, y - 2.5);
    context.lineTo(x + 3, y + 2.5);
    context.lineTo(x + 6, y - 2.5);
  } else {
    context.arc(x + 3, y, 2, 0, 2 * Math.PI);
  }
  context.fill();
  context.globalAlpha = 1;
}

function paintRowLines(context: Context, picture: Picture, rows: { from: number; to: number }): void {
  const { geometry, palette, layout, ratio } = picture;
  const right = Math.min(geometry.width, columnLeft(geometry, layout, layout.shown.length));
  context.fillStyle = palette.line;
  for (let row = rows.from; row < rows.to; row++) {
    context.fillRect(0, snap(rowTop(geometry, row) + ROW_HEIGHT, ratio) - 1 / ratio, right, 1 / ratio);
  }
}

/** A rectangle of cells in pixels, cut off a little outside the canvas. */
function box(picture: Picture, area: Rectangle): { x: number; y: number; width: number; height: number } | undefined {
  const { geometry, layout, ratio } = picture;
  const pinned = geometry.gutter + layout.pinnedWidth;
  const edge = (place: number, x: number): number => (place < layout.pinnedCount ? x : Math.max(pinned - 2, x));
  const left = edge(area.left, columnLeft(geometry, layout, area.left));
  const lastLeft = columnLeft(geometry, layout, area.right);
  const right = edge(area.right, lastLeft + layout.left(area.right + 1) - layout.left(area.right));
  const top = Math.max(HEADER_HEIGHT - 2, rowTop(geometry, area.top));
  const bottom = Math.min(geometry.height + 2, rowTop(geometry, area.bottom) + ROW_HEIGHT);
  if (bottom <= HEADER_HEIGHT || top >= geometry.height || right <= left || left >= geometry.width) return undefined;
  const x = snap(left, ratio);
  const y = snap(top, ratio);
  return { x, y, width: snap(Math.min(right, geometry.width + 2), ratio) - x, height: snap(bottom, ratio) - y };
}

function paintSelection(context: Context, picture: Picture): void {
  const { geometry, palette, selection, layout } = picture;
  if (geometry.rows === 0 || layout.shown.length === 0) return;
  context.save();
  context.beginPath();
  context.rect(geometry.gutter, HEADER_HEIGHT, columnSpace(geometry), geometry.height - HEADER_HEIGHT);
  context.clip();
  if (!selection.isSingle) {
    for (const area of selection.areas) {
      const at = box(picture, area);
      if (at === undefined) continue;
      context.fillStyle = palette.selected;
      context.fillRect(at.x, at.y, at.width, at.height);
      context.strokeStyle = palette.accent;
      context.lineWidth = 1;
      context.strokeRect(at.x + 0.5, at.y + 0.5, at.width - 1, at.height - 1);
    }
  }
  const { row, place } = selection.active;
  const at = box(picture, { top: row, bottom: row, left: place, right: place });
  if (at !== undefined) {
    context.strokeStyle = picture.focused ? palette.accent : palette.muted;
    context.lineWidth = picture.focused ? 2 : 1;
    const inset = context.lineWidth / 2;
    context.strokeRect(at.x + inset, at.y + inset, at.width - 2 * inset, at.height - 2 * inset);
  }
  context.restore();
}

function paintGutter(context: Context, picture: Picture, rows: { from: number; to: number }): void {
  const { geometry, palette, ratio, selection } = picture;
  context.fillStyle = palette.gutter;
  context.fillRect(0, HEADER_HEIGHT, geometry.gutter, geometry.height - HEADER_HEIGHT);
  context.font = palette.smallFont;
  context.textAlign = "right";
  for (let row = rows.from; row < rows.to; row++) {
    const top = rowTop(geometry, row);
    context.fillStyle = row === selection.active.row && picture.focused ? palette.text : palette.muted;
    context.fillText(grouped(String(row + 1)), geometry.gutter - 8, snap(top + BASELINE, ratio));
  }
  context.fillStyle = palette.line;
  for (let row = rows.from; row < rows.to; row++) {
    context.fillRect(0, snap(rowTop(geometry, row) + ROW_HEIGHT, ratio) - 1 / ratio, geometry.gutter, 1 / ratio);
  }
}

function paintHeader(context: Context, picture: Picture, places: readonly number[]): void {
  const { geometry, palette } = picture;
  context.fillStyle = palette.head;
  context.fillRect(0, 0, geometry.width, HEADER_HEIGHT);
  for (const place of places) paintHead(context, picture, place);
}

function paintHead(context: Context, picture: Picture, place: number): void {
  const { geometry, layout, palette, selection, ratio } = picture;
  const number = layout.shown[place];
  const column = number === undefined ? undefined : picture.columns[number];
  if (column === undefined || !clipColumn(context, picture, place, 0, HEADER_HEIGHT)) return;
  const left = columnLeft(geometry, layout, place);
  const width = layout.left(place + 1) - layout.left(place);
  const numeric = isNumber(column);
  if (picture.hover === place) {
    context.fillStyle = palette.hover;
    context.fillRect(left, 0, width, HEADER_HEIGHT);
  }
  const menu = picture.hover === place ? MENU_WIDTH : 0;
  const space = width - 2 * PADDING - menu;
  const x = numeric ? left + width - PADDING - menu : left + PADDING;
  const mark = picture.sorts.get(column.name);
  const name = picture.labels.cut(shownName(column.name), mark === undefined ? space : space - MARK_WIDTH, palette.headFont);
  const type = picture.labels.cut(typeLine(column), space, palette.smallFont);
  context.textAlign = numeric ? "right" : "left";
  context.font = palette.headFont;
  context.fillStyle = palette.headText;
  context.fillText(mark === undefined ? name : `${name} ${mark}`, x, 18);
  context.font = palette.smallFont;
  context.fillStyle = palette.muted;
  context.fillText(type, x, 33);
  if (selection.active.place === place && picture.focused) {
    context.fillStyle = palette.accent;
    context.fillRect(left, HEADER_HEIGHT - 3, width, 3);
  }
  if (menu > 0) {
    const right = left + width - PADDING;
    context.fillStyle = palette.headText;
    context.beginPath();
    context.moveTo(right - 9, 18);
    context.lineTo(right, 18);
    context.lineTo(right - 4.5, 23.5);
    context.fill();
  }
  context.fillStyle = palette.edge;
  context.fillRect(snap(left + width, ratio) - 1 / ratio, 10, 1 / ratio, HEADER_HEIGHT - 20);
  context.restore();
}

/** Lines below the header, beside the row numbers and the pinned columns; and where a dragged column goes. */
function paintEdges(context: Context, picture: Picture): void {
  const { geometry, layout, palette, ratio } = picture;
  context.fillStyle = palette.edge;
  const line = 1 / ratio;
  context.fillRect(0, HEADER_HEIGHT - line, geometry.width, line);
  context.fillRect(snap(geometry.gutter, ratio) - line, 0, line, geometry.height);
  if (layout.pinnedCount > 0) {
    context.fillRect(snap(geometry.gutter + layout.pinnedWidth, ratio) - 2, 0, 2, geometry.height);
  }
  if (picture.drop !== undefined) {
    context.fillStyle = palette.accent;
    const edge = picture.drop === layout.pinnedCount && layout.pinnedCount > 0
      ? geometry.gutter + layout.pinnedWidth
      : columnLeft(geometry, layout, picture.drop);
    context.fillRect(edge - 1.5, 0, 3, geometry.height);
  }
}
