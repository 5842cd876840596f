// The chart: uPlot with lines of its own, through the points of parts. A bundle of its own, loaded with the first plot.

import uPlot from "uplot";

import { Fingers } from "./fingers.ts";
import type { Points, Series } from "./points.ts";
import { heights, walk } from "./points.ts";
import { AXIS_WIDTH } from "./spec.ts";
import { numberLabel, ticks } from "./ticks.ts";

export interface ChartColours {
  readonly text: string;
  readonly line: string;
  readonly series: readonly string[];
}

export interface ChartEvents {
  /** The user has chosen a range, as places. */
  zoomed(low: number, high: number): void;
  /** Double click. */
  back(): void;
  /** The pointer is at a place; undefined: nowhere. */
  pointed(place: number | undefined): void;
}

/** Dashes of series, in CSS pixels, so that colour is not all that tells them apart. */
export const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2], [10, 3, 2, 3], [1, 4], [14, 4], [6, 2, 2, 2, 2, 2], [3, 6]];

const TICK_SPACE = 96;
/** CSS pixels per point from which points are marked. */
const MARKED = 8;
/** CSS pixels per point from which lines are dashed. */
const DASHED = 3;
const WHEEL_SPEED = 0.002;
const NO_POINTS = { show: false };

export class Chart {
  private readonly host: HTMLElement;
  private readonly events: ChartEvents;
  private colours: ChartColours;
  private plot: uPlot | undefined;
  private points: Points | undefined;
  private low = 0;
  private high = 1;
  private dragX: number | undefined;
  private readonly fingers = new Fingers();

  constructor(host: HTMLElement, colours: ChartColours, events: ChartEvents) {
    this.host = host;
    this.colours = colours;
    this.events = events;
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    host.addEventListener("pointerdown", (event) => this.grab(event), { capture: true });
    host.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"] as const) host.addEventListener(name, (event) => this.leave(event));
  }

  /** Draws points between two places; the same points may be drawn elsewhere. */
  draw(points: Points, low: number, high: number): void {
    const before = this.points;
    this.points = points;
    this.low = low;
    this.high = high > low ? high : low + 1;
    const isOther = before === undefined || before.series.length !== points.series.length || before.axis !== points.axis;
    if (this.plot === undefined || isOther) this.build();
    this.dash(points);
    this.plot?.setData(dataOf(points), false);
    this.plot?.setScale("x", { min: this.low, max: this.high });
  }

  restyle(colours: ChartColours): void {
    this.colours = colours;
    if (this.plot !== undefined && this.points !== undefined) this.draw(this.rebuilt(), this.low, this.high);
  }

  /** The host has another size. */
  resize(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width > 0 && height > 0) this.plot?.setSize({ width, height });
  }

  close(): void {
    this.plot?.destroy();
    this.plot = undefined;
  }

  private rebuilt(): Points {
    this.close();
    const { points } = this;
    if (points === undefined) throw new Error("There is nothing to draw.");
    return points;
  }

  private build(): void {
    this.plot?.destroy();
    const { points, colours } = this;
    if (points === undefined) return;
    const axis = { stroke: colours.text, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 } };
    const options: uPlot.Options = {
      width: Math.max(1, this.host.clientWidth),
      height: Math.max(1, this.host.clientHeight),
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, bind: { dblclick: () => () => { this.events.back(); return null; } } },
      scales: { x: { time: false }, y: { range: () => this.yRange() } },
      series: [{}, ...points.series.map((series, number) => this.series(series, number))],
      axes: [
        { ...axis, splits: (_, __, min, max) => this.marks(min, max).places, values: (_, __) => this.marks(this.low, this.high).texts },
        { ...axis, size: AXIS_WIDTH, values: (_, splits) => splits.map((split) => numberLabel(split, (splits[1] ?? split) - (splits[0] ?? split))) },
      ],
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.events.pointed(plot.cursor.left === undefined || plot.cursor.left < 0 ? undefined : plot.posToVal(plot.cursor.left, "x"))],
      },
    };
    this.plot = new uPlot(options, dataOf(points), this.host);
  }

  private series(_series: Series, number: number): uPlot.Series {
    return {
      stroke: this.colours.series[number] ?? this.colours.text,
      width: 1.25,
      points: NO_POINTS,
      paths: (plot) => this.path(plot, number),
    };
  }

  /** Lines are dashed while there are few points: dashes would hide heights of others. */
  private dash(points: Points): void {
    const isSparse = points.count * DASHED < this.host.clientWidth - AXIS_WIDTH;
    this.plot?.series.slice(1).forEach((series, number) => {
      series.dash = isSparse ? [...(DASHES[number % DASHES.length] ?? [])] : [];
    });
  }

  private marks(low: number, high: number): { readonly places: number[]; readonly texts: string[] } {
    if (this.points === undefined) return { places: [], texts: [] };
    const most = Math.max(2, Math.floor((this.host.clientWidth - AXIS_WIDTH) / TICK_SPACE));
    return ticks(this.points.axis, this.points.origin, low, high, most);
  }

  private yRange(): [number, number] {
    const found = this.points === undefined ? undefined : heights(this.points, this.low, this.high);
    if (found === undefined) return [0, 1];
    const [least, greatest] = found;
    const space = (greatest - least) * 0.05 || Math.abs(least) * 0.05 || 1;
    return [least - space, greatest + space];
  }

  /** The line of a series, in the canvas's pixels; a number between two gaps is a dot. */
  private path(plot: uPlot, number: number): uPlot.Series.Paths | null {
    const { points } = this;
    const series = points?.series[number];
    if (points === undefined || series === undefined) return null;
    const { left, top, width, height } = plot.bbox;
    const [bottom, ceiling] = [plot.scales["y"]?.min ?? 0, plot.scales["y"]?.max ?? 1];
    const across = width / (this.high - this.low);
    const up = height / (ceiling - bottom);
    const stroke = new Path2D();
    const isMarked = points.count * MARKED * devicePixelRatio < width;
    let [fromX, fromY] = [NaN, NaN];
    let isAlone = false;
    const dot = (x: number, y: number): void => {
      const size = 1.5 * devicePixelRatio;
      stroke.rect(x - size, y - size, 2 * size, 2 * size);
    };
    walk(points, series, (at, value) => {
      // Far beyond the picture lines end at its edge, as canvases are not exact there.
      const x = clamp(left + (at - this.low) * across, left - width, left + 2 * width);
      const y = clamp(top + height - (value - bottom) * up, top - 4 * height, top + 5 * height);
      if (value !== value) {
        if (isAlone) dot(fromX, fromY);
        isAlone = false;
        fromX = fromY = NaN;
      } else if (fromX !== fromX) {
        stroke.moveTo(x, y);
        isAlone = true;
        [fromX, fromY] = [x, y];
      } else if (x !== fromX || y !== fromY) {
        stroke.lineTo(x, y);
        isAlone = false;
        [fromX, fromY] = [x, y];
      }
      if (isMarked && value === value && x >= left && x <= left + width) {
        dot(x, y);
        stroke.moveTo(x, y);
      }
    });
    if (isAlone) dot(fromX, fromY);
    return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 1 } as unknown as uPlot.Series.Paths;
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.zoomed(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  /** The wheel zooms about the pointer; with Shift, or sideways, it pans. */
  private wheel(event: WheelEvent): void {
    if (this.plot === undefined) return;
    event.preventDefault();
    const span = this.high - this.low;
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) {
      const way = (sideways / Math.max(1, this.plot.over.clientWidth)) * span;
      this.events.zoomed(this.low + way, this.high + way);
      return;
    }
    const place = this.plot.posToVal(this.across(event), "x");
    const times = Math.exp(clamp(event.deltaY, -400, 400) * WHEEL_SPEED);
    this.events.zoomed(place - (place - this.low) * times, place + (this.high - place) * times);
  }

  /** A finger pans, two zoom. With Shift, or the middle button, the pointer pans in place of choosing a range. */
  private grab(event: PointerEvent): void {
    if (event.pointerType === "touch") {
      if (this.plot !== undefined) this.fingers.down(event.pointerId, this.across(event), [this.low, this.high]);
      return;
    }
    if (!(event.shiftKey || event.button === 1)) return;
    event.preventDefault();
    event.stopPropagation();
    this.dragX = event.clientX;
    this.host.setPointerCapture(event.pointerId);
  }

  private leave(event: PointerEvent): void {
    this.fingers.up(event.pointerId);
    this.dragX = undefined;
  }

  /** Pixels from the left edge of the lines. */
  private across(event: MouseEvent): number {
    return event.clientX - (this.plot?.over.getBoundingClientRect().left ?? 0);
  }

  private drag(event: PointerEvent): void {
    const range = this.fingers.move(event.pointerId, this.across(event), this.plot?.over.clientWidth ?? 0);
    if (range !== undefined) this.events.zoomed(...range);
    if (this.dragX === undefined || this.plot === undefined) return;
    const way = ((this.dragX - event.clientX) / Math.max(1, this.plot.over.clientWidth)) * (this.high - this.low);
    this.dragX = event.clientX;
    this.events.zoomed(this.low + way, this.high + way);
  }
}

/** What uPlot keeps: it reads places only, as lines and heights are computed here. */
function dataOf(points: Points): uPlot.AlignedData {
  return [points.firstX, ...points.series.map((series) => series.last)];
}

function clamp(value: number, low: number, high: number): number {
  return value < low ? low : value > high ? high : value;
}
