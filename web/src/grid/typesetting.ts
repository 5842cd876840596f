// Colours, fonts and texts of the grid: what depends on the style sheet and the number format.

import type { Column } from "../cells/column.ts";
import type { Format } from "../cells/text.ts";
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

  /** Takes over changed colours and fonts. */
  restyle(): void {
    this.palette = readPalette(this.host);
    this.forget();
  }

  setFormat(format: Format | undefined): void {
    this.format = format;
    this.widths.forget();
    this.forget();
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
      if (value !== undefined) texts.push(this.texts.whole(column, value));
    }
    return texts;
  }

  private makeTexts(): CellTexts {
    return new CellTexts((text) => this.width(text, this.palette.cellFont), this.format);
  }

  private width(text: string, font: string): number {
    this.context.font = font;
    return this.context.measureText(text).width;
  }
}
