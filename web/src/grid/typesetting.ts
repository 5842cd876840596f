// Colours, fonts and texts of the grid: what depends on the style sheet and the formats of numbers.

import type { Column } from "../cells/column.ts";
import type { Format } from "../cells/format.ts";
import type { TableWindow } from "../window/window.ts";
import { readPalette } from "./palette.ts";
import type { Palette } from "./palette.ts";
import { CellTexts, Labels } from "./texts.ts";
import { UsualWidths } from "./widths.ts";

export class Typesetting {
  palette: Palette;
  texts: CellTexts;
  readonly labels = new Labels((text, font) => this.width(text, font));
  readonly widths: UsualWidths;
  private readonly host: HTMLElement;
  private readonly context: CanvasRenderingContext2D;
  private format: Format | undefined;
  private formats: ReadonlyMap<number, Format> = new Map();

  constructor(host: HTMLElement, context: CanvasRenderingContext2D) {
    this.host = host;
    this.context = context;
    this.palette = readPalette(host);
    this.texts = this.makeTexts();
    this.widths = new UsualWidths({
      head: (text) => this.width(text, this.palette.headFont),
      cell: (text) => this.width(text, this.palette.cellFont),
    });
  }

  /** Has the browser find the fonts, while the first rows are on their way. */
  prepare(): void {
    for (const font of [this.palette.headFont, this.palette.cellFont]) this.width("0", font);
  }

  /** Takes over changed colours and fonts. */
  restyle(): void {
    this.palette = readPalette(this.host);
    this.forget();
  }

  /** Of the columns that have none of their own. */
  setFormat(format: Format | undefined): void {
    this.format = format;
    this.widths.forget();
    this.forget();
  }

  /** Of columns, by their numbers. False: they are these already. */
  setFormats(formats: ReadonlyMap<number, Format>, columns: readonly Column[]): boolean {
    if (formats === this.formats) return false;
    columns.forEach((column, number) => {
      if (formats.get(number) !== this.formats.get(number)) this.widths.forget(column);
    });
    this.formats = formats;
    this.forget();
    return true;
  }

  /** Forgets texts that were made for other columns, formats or fonts. */
  forget(): void {
    this.texts = this.makeTexts();
  }

  /** Texts of the cells of a column that are in the window, in rows [from, to). */
  textsOf(window: TableWindow | undefined, column: Column, number: number, from: number, to: number): readonly string[] {
    const texts: string[] = [];
    for (let row = from; row < to; row++) {
      const value = window?.value(row, number);
      if (value !== undefined) texts.push(this.texts.whole(number, column, value));
    }
    return texts;
  }

  private makeTexts(): CellTexts {
    return new CellTexts((text) => this.width(text, this.palette.cellFont), (column) => this.formats.get(column) ?? this.format);
  }

  private width(text: string, font: string): number {
    this.context.font = font;
    return this.context.measureText(text).width;
  }
}
