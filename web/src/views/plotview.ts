// The view of a plot of one table: what is chosen, and the chart, which is loaded with the first plot.

import { plainText } from "../cells/text.ts";
import { visible } from "../cells/visible.ts";
import { focusedIn } from "../grid/focus.ts";
import { Sight } from "../grid/sight.ts";
import type { Link } from "../link/link.ts";
import { QUIET_MS } from "../link/view.ts";
import type { OpenView } from "../link/view.ts";
import type { Chart } from "../plot/chart.ts";
import { nearest, pointsOf, valueAt } from "../plot/points.ts";
import type { Points } from "../plot/points.ts";
import { AXIS_WIDTH, MOST_SERIES, completed, isAxis, isSeries, plotRequest, unitsOfSecond } from "../plot/spec.ts";
import type { NamedType, Place, PlotRange, PlotSpec } from "../plot/spec.ts";
import type { Query } from "../wire/messages.ts";
import type { Address } from "./address.ts";
import { onColours } from "./colours.ts";
import { button, make, setText } from "./dom.ts";
import { isEmpty } from "./query.ts";
import { count, lag, withoutStep } from "./words.ts";

export interface PlotPage {
  readonly link: Link;
  /** Of the view: "main" where it is the page's. */
  readonly landmark: "main" | "section";
  /** A Flight ticket in base64, of what is plotted instead of the table of that name. */
  readonly ticket?: string;
  /** Loads the chart, with its styles. */
  loadChart(): Promise<{ readonly Chart: typeof Chart }>;
  moved(address: Address): void;
  /** Goes to another view. */
  open(address: Address): void;
}

/** Milliseconds of rest after which a finer picture is asked for. */
const REST_MS = 120;
const LINE_MS = 250;
const INTERVAL_MS = 50;
const MINUTES = [1, 5, 15, 60, 240, 1440];
const ROWS = [1_000, 10_000, 100_000, 1_000_000];
const NAMES = 60;

export class PlotView {
  readonly element: HTMLElement;
  private readonly page: PlotPage;
  private readonly table: string;
  private readonly query: Query;
  private spec: PlotSpec;
  private readonly past: PlotRange[] = [];
  private readonly x = make("select", { attributes: { "aria-label": "Along" } });
  private readonly range = make("select", { attributes: { "aria-label": "Range" } });
  private readonly choices = make("div", { class: "plot-columns" });
  private readonly chosen = make("summary", { text: "Columns" });
  private readonly host = make("div", { class: "plot-chart", attributes: { role: "img", tabindex: "0" } });
  private readonly cover = make("div", { class: "cover", attributes: { role: "status" } });
  private readonly readout = make("tbody");
  private readonly where = make("th", { text: "", attributes: { scope: "col" } });
  private readonly note = make("span");
  private readonly behind = make("span", { class: "lag" });
  private readonly stop = new AbortController();
  private readonly sizes: ResizeObserver;
  private readonly sight: Sight;
  private chart: Chart | undefined;
  private problem: string | undefined;
  private shown: OpenView | undefined;
  private shownSpec: PlotSpec | undefined;
  private next: OpenView | undefined;
  private probed: OpenView | undefined;
  private nextSpec: PlotSpec | undefined;
  private points: Points | undefined;
  /** Where the picture begins and ends, as places; undefined: where the points do. */
  private frame: readonly [low: number, high: number] | undefined;
  private pointed: number | undefined;
  private columns: readonly NamedType[] = [];
  private restTimer = 0;
  private lineTimer = 0;
  private quietTimer = 0;
  private paintTimer = 0;
  private pixels = 0;

  constructor(place: HTMLElement, page: PlotPage, table: string, spec: PlotSpec, query: Query) {
    this.page = page;
    this.table = table;
    this.spec = spec;
    this.query = { ...query, sort: [] }; // a plot has the order of its x
    const name = visible(table.slice(0, NAMES));
    const about = page.landmark === "main" ? {} : { "aria-label": `Plot of ${name}` };
    const tools = make("div", { class: "tools", attributes: { role: "group", "aria-label": "Tools of the plot" } },
      make("label", {}, "Along ", this.x), make("details", { class: "plot-choice" }, this.chosen, this.choices),
      make("label", {}, "Range ", this.range), button("Back", () => this.back(), { title: "The range before (double click, Backspace)" }),
      button("Table", () => page.open(this.addressOf({})), { title: "The rows of the table" }));
    const table_ = make("table", { class: "plot-values" },
      make("thead", {}, make("tr", {}, make("th", { text: "Column", attributes: { scope: "col" } }), this.where,
        make("th", { text: "Least", attributes: { scope: "col" } }), make("th", { text: "Greatest", attributes: { scope: "col" } }))), this.readout);
    this.element = make(page.landmark, { class: "table plot", attributes: about },
      make("div", { class: "toolbar" }, make("h1", { text: name, title: name }), make("span", { class: "badge", text: "plot" }), tools),
      make("div", { class: "plot-space" }, this.host, this.cover),
      make("div", { class: "plot-readout", attributes: { tabindex: "0", role: "group", "aria-label": "Values of the plot" } }, table_),
      make("div", { class: "line-below" }, this.note, make("span", { class: "space" }), this.behind));
    place.append(this.element);
    this.x.addEventListener("change", () => this.change({ ...this.spec, x: this.x.value, range: { kind: "all" } }));
    this.range.addEventListener("change", () => this.go(parsedChoice(this.range.value)));
    this.host.addEventListener("keydown", (event) => this.key(event));
    onColours(this.element, () => this.chart?.restyle(this.colours()), this.stop.signal);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.host);
    this.sight = new Sight(this.host, () => this.paintSoon(), this.stop.signal);
    this.load();
    if (page.ticket !== undefined) this.probe(page.ticket);
    this.update();
  }

  /** The link's state or its list of tables has changed. */
  update(): void {
    if (this.columns.length === 0) {
      const columns = this.page.ticket === undefined ? this.page.link.tables.get(this.table)?.columns : this.probed?.columns.map(({ name, type }) => [name, type] as const);
      if (columns !== undefined && columns.length > 0) {
        this.columns = columns;
        this.spec = completed(this.spec, columns);
        this.showChoices();
        this.ask();
        this.probed?.close();
      }
    }
    this.laterLine();
    this.showCover();
  }

  close(): void {
    this.probed?.close();
    for (const timer of [this.restTimer, this.lineTimer, this.quietTimer]) clearTimeout(timer);
    cancelAnimationFrame(this.paintTimer);
    this.stop.abort();
    this.sizes.disconnect();
    this.shown?.close();
    this.next?.close();
    this.chart?.close();
    this.element.remove();
  }

  /** Opens a row, for the names of the columns: what a ticket stands for is in no list. */
  private probe(ticket: string): void {
    const probed = this.page.link.open(this.table, { columns: [0], first: 0, count: 1, reverse: false }, () => {
      probed.painted();
      this.update();
    }, undefined, ticket);
    this.probed = probed;
  }

  private load(): void {
    this.page.loadChart().then(
      ({ Chart: Loaded }) => {
        if (this.stop.signal.aborted) return;
        this.chart = new Loaded(this.host, this.colours(), {
          zoomed: (low, high) => this.zoom(low, high),
          back: () => this.back(),
          pointed: (at) => {
            this.pointed = at;
            this.showReadout();
          },
        });
        this.paintSoon();
      },
      () => {
        this.problem = "The plot could not be loaded from the server. Load the page again.";
        this.showCover();
      },
    );
  }

  // What is chosen.

  private showChoices(): void {
    const { x } = this.spec;
    const axes = this.columns.filter(([, type]) => isAxis(type)).map(([name]) => name);
    this.x.replaceChildren(...["", ...axes].map((name) => make("option", { text: name === "" ? "number of the row" : visible(name.slice(0, NAMES)), attributes: { value: name } })));
    this.x.value = x ?? "";
    const type = this.columns.find(([name]) => name === x)?.[1] ?? "";
    const second = unitsOfSecond(type);
    const whole = type === "" || !/^(?:float|double|halffloat|decimal)/.test(type);
    const choices: [string, string][] = [["", "all"], ...ROWS.map((rows): [string, string] => [`rows ${rows}`, `last ${count(rows)} rows`])];
    if (second !== undefined && whole) choices.push(...MINUTES.map((minutes): [string, string] => [`last ${minutes * 60 * second}`, `last ${minutes < 60 ? `${minutes} min` : `${minutes / 60} h`}`]));
    this.range.replaceChildren(...choices.map(([value, text]) => make("option", { text, attributes: { value } })));
    const { ys } = this.spec;
    this.choices.replaceChildren(...this.columns.filter(([, kind]) => isSeries(kind)).map(([name]) => {
      const box = make("input", { attributes: { type: "checkbox" } });
      box.checked = ys.includes(name);
      box.disabled = !box.checked && ys.length >= MOST_SERIES;
      box.addEventListener("change", () => {
        const others = this.spec.ys.filter((one) => one !== name);
        this.change({ ...this.spec, ys: box.checked ? [...others, name] : others });
      });
      return make("label", {}, box, visible(name.slice(0, NAMES)));
    }));
    setText(this.chosen, `Columns (${ys.length} of at most ${MOST_SERIES})`);
    this.showRange();
  }

  private showRange(): void {
    const value = choiceOf(this.spec.range);
    const there = [...this.range.options].some((option) => option.value === value);
    if (!there) this.range.append(make("option", { text: "chosen range", attributes: { value } }));
    this.range.value = value;
  }

  private change(spec: PlotSpec): void {
    const focused = focusedIn(this.choices);
    const at = [...this.choices.querySelectorAll("input")].findIndex((box) => box === focused);
    const isOther = spec.x !== this.spec.x || spec.ys.join("\n") !== this.spec.ys.join("\n");
    this.spec = spec;
    if (isOther) this.frame = undefined;
    this.showChoices();
    if (at >= 0) this.choices.querySelectorAll("input")[at]?.focus();
    this.page.moved(this.addressOf({ plot: spec }));
    this.ask();
  }

  /** Shows another range; {@link back} leads to the one before. */
  private go(range: PlotRange): void {
    this.past.push(this.spec.range);
    if (this.past.length > 100) this.past.shift();
    this.frame = undefined;
    this.change({ ...this.spec, range });
  }

  private back(): void {
    const range = this.past.pop() ?? { kind: "all" };
    this.frame = undefined;
    this.change({ ...this.spec, range });
  }

  /** Shows the places at once, stretched, and asks for them when the user rests. */
  private zoom(low: number, high: number): void {
    const { points } = this;
    if (points === undefined || !(high > low)) return;
    const [first, last] = [valueAt(low, points), valueAt(high, points)];
    if (first >= last) return; // as fine as it gets
    if (this.restTimer === 0) this.past.push(this.spec.range);
    this.frame = [low, high];
    this.spec = { ...this.spec, range: { kind: "fixed", first, last } };
    this.paintSoon();
    clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => {
      this.restTimer = 0;
      this.showRange();
      this.page.moved(this.addressOf({ plot: this.spec }));
      this.ask();
    }, REST_MS);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const frame = this.frameNow();
    if (event.key === "Backspace" || event.key === "Escape") this.back();
    else if (event.key === "Home") this.go({ kind: "all" });
    else if (frame !== undefined) {
      const [low, high] = frame;
      const span = high - low;
      const moves: Readonly<Record<string, readonly [number, number]>> = {
        ArrowLeft: [-0.1, -0.1], ArrowRight: [0.1, 0.1], PageUp: [-0.9, -0.9], PageDown: [0.9, 0.9], "+": [0.1, -0.1], "=": [0.1, -0.1], "-": [-0.125, 0.125],
      };
      const move = moves[event.key];
      if (move === undefined) return;
      this.zoom(low + move[0] * span, high + move[1] * span);
    } else return;
    event.preventDefault();
  }

  // The views behind the picture.

  /** Opens a view of what is chosen; the one that is shown stays until that has come. */
  private ask(): void {
    const { spec, page } = this;
    this.next?.close();
    this.next = undefined;
    this.problem = undefined;
    if (this.columns.length === 0 || spec.x === undefined) return;
    if (spec.ys.length === 0) {
      this.shown?.close();
      this.shown = this.points = undefined;
      this.showCover();
      this.showReadout();
      return;
    }
    const { limits } = page.link;
    const width = 2 + 6 * spec.ys.length;
    const most = Math.min(limits.rows, Math.floor((limits.cells / width) * 0.45)); // of two views at a time
    this.pixels = this.wanted();
    const pixels = Math.max(10, Math.min(this.pixels, Math.floor(most / 2) - 8));
    const request = plotRequest({ ...spec, x: spec.x }, pixels);
    const view = page.link.open(this.table, { columns: undefined, first: 0, count: 2 * pixels + 8, reverse: false, interval: INTERVAL_MS, plot: request }, () => this.arrived(view), isEmpty(this.query) ? undefined : this.query, page.ticket);
    this.next = view;
    this.nextSpec = spec;
    this.showCover();
  }

  private arrived(view: OpenView): void {
    if (view === this.next && (view.window !== undefined || view.error !== undefined)) {
      this.shown?.close();
      this.shown = view;
      this.shownSpec = this.nextSpec;
      this.next = undefined;
    }
    if (view !== this.shown) return;
    this.paintSoon();
    this.laterLine();
    clearTimeout(this.quietTimer);
    this.quietTimer = window.setTimeout(() => this.laterLine(), QUIET_MS);
  }

  private paintSoon(): void {
    if (this.paintTimer === 0 && this.sight.isInView) {
      this.paintTimer = requestAnimationFrame(() => {
        this.paintTimer = 0;
        this.paint();
      });
    }
  }

  private paint(): void {
    const { shown, shownSpec, chart } = this;
    if (shown?.window !== undefined && shownSpec !== undefined) {
      const before = this.points;
      const isSame = before?.axis.name === shown.columns[0]?.name && before?.axis.type === shown.columns[0]?.type;
      const points = pointsOf(shown.columns, shown.window, shownSpec.ys, isSame ? before?.origin : undefined);
      if (points !== undefined) this.points = before !== undefined && isSame && before.series.length === points.series.length ? { ...points, axis: before.axis } : points;
      shown.painted();
    }
    const frame = this.frameNow();
    if (chart !== undefined && this.points !== undefined && frame !== undefined) chart.draw(this.points, ...frame);
    this.showCover();
    this.showReadout();
  }

  /** Where the picture begins and ends. */
  private frameNow(): readonly [number, number] | undefined {
    const { points, frame } = this;
    if (points === undefined) return undefined;
    if (frame !== undefined) return frame;
    const { range } = this.spec;
    const place = (at: Place): number => (typeof at === "bigint" ? Number(at - points.origin) : at);
    if (range.kind === "fixed") return [place(range.first), place(range.last)];
    const low = points.firstX[0] ?? 0;
    const high = points.lastX[points.count - 1] ?? 1;
    return range.kind === "last" ? [high - Number(range.length), high] : [low, high];
  }

  private addressOf(shown: { readonly plot?: PlotSpec }): Address {
    return { table: this.table, ...(isEmpty(this.query) ? {} : { query: this.query }), ...shown };
  }

  /** Width of the place for lines, in device pixels. */
  private wanted(): number {
    return Math.max(100, Math.round((this.host.clientWidth - AXIS_WIDTH) * devicePixelRatio));
  }

  private resized(): void {
    this.chart?.resize();
    if (this.pixels > 0 && Math.abs(this.wanted() - this.pixels) > this.pixels / 4) {
      clearTimeout(this.restTimer);
      this.restTimer = window.setTimeout(() => {
        this.restTimer = 0;
        this.ask();
      }, REST_MS);
    }
  }

  // What is said.

  private showCover(): void {
    const text = this.coverText();
    this.cover.hidden = text === undefined;
    if (text !== undefined) setText(this.cover, text);
    this.element.classList.toggle("stale", this.shown?.stale ?? false);
    const note = this.shown?.sorted === true ? "The plot sorts the rows by this column." : "";
    setText(this.note, note);
  }

  private coverText(): string | undefined {
    if (this.problem !== undefined) return this.problem;
    if (this.shown?.error !== undefined) return withoutStep(this.shown.error);
    if (this.columns.length === 0 && this.probed?.error !== undefined) return withoutStep(this.probed.error);
    if (this.columns.length > 0 && this.spec.ys.length === 0) {
      return this.columns.some(([, type]) => isSeries(type)) ? "Choose columns to plot." : "This table has no column of numbers to plot.";
    }
    if (this.points === undefined) return "Waiting for the plot\u2026";
    if (this.points.count === 0) return "There are no rows in this range yet.";
    return undefined;
  }

  private showReadout(): void {
    const { points, pointed } = this;
    if (points === undefined) {
      this.readout.replaceChildren();
      return;
    }
    const part = pointed === undefined ? points.count - 1 : nearest(points, pointed);
    const place = points.lastX[part];
    const at = place === undefined ? "" : plainText(points.axis, valueAt(place, points));
    setText(this.where, pointed === undefined ? `Last, at ${at}` : `At ${at}`);
    const spoken: string[] = [];
    const rows = points.series.map((series, number) => {
      const least = Math.min(...finite(series.least));
      const greatest = Math.max(...finite(series.greatest));
      const texts = [part < 0 ? NaN : (series.last[part] ?? NaN), least, greatest].map((value) => (Number.isFinite(value) ? plainText(series.column, series.column.form === "decimal" ? String(value) : value) : "\u2013"));
      spoken.push(`${visible(series.name.slice(0, NAMES))}: last ${texts[0]}, least ${texts[1]}, greatest ${texts[2]}`);
      return { name: visible(series.name.slice(0, NAMES)), number, texts };
    });
    while (this.readout.children.length > rows.length) this.readout.lastElementChild?.remove();
    rows.forEach(({ name, number, texts }, row) => {
      let line = this.readout.children[row];
      if (line === undefined) {
        line = make("tr", {}, make("th", { attributes: { scope: "row" } }, make("span", { class: `swatch series-${number + 1}` }), make("span")), make("td"), make("td"), make("td"));
        this.readout.append(line);
      }
      const label = line.firstElementChild?.lastElementChild;
      if (label instanceof HTMLElement) setText(label, name);
      texts.forEach((text, column) => {
        const cell = line.children[column + 1];
        if (cell instanceof HTMLElement) setText(cell, text);
      });
    });
    if (pointed === undefined) this.host.setAttribute("aria-label", `Plot. ${spoken.join("; ")}`);
  }

  private laterLine(): void {
    if (this.lineTimer !== 0) return;
    this.lineTimer = window.setTimeout(() => {
      this.lineTimer = 0;
      const { shown } = this;
      setText(this.behind, shown === undefined ? "" : shown.stale ? "old" : lag(shown.lag()));
    }, LINE_MS);
  }

  /** The colours that hold now. Custom properties are resolved by an element that has them as its colour. */
  private colours(): { text: string; line: string; series: string[] } {
    const probe = make("span");
    this.element.append(probe);
    const read = (name: string): string => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const found = { text: read("--muted"), line: read("--line"), series: Array.from({ length: MOST_SERIES }, (_, number) => read(`--plot-${number + 1}`)) };
    probe.remove();
    return found;
  }
}

function finite(values: Float64Array): number[] {
  return [...values].filter((value) => Number.isFinite(value));
}

function choiceOf(range: PlotRange): string {
  if (range.kind === "rows") return `rows ${range.rows}`;
  if (range.kind === "last") return `last ${range.length}`;
  return range.kind === "all" ? "" : "fixed";
}

function parsedChoice(value: string): PlotRange {
  const [kind, number = "0"] = value.split(" ");
  if (kind === "rows") return { kind: "rows", rows: Number(number) };
  return kind === "last" ? { kind: "last", length: BigInt(number) } : { kind: "all" };
}
