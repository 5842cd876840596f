// What the kernel says of a widget: what it shows, and how. Pure.

import { MOST_SERIES, parseRange } from "../plot/spec.ts";
import type { PlotSpec } from "../plot/spec.ts";

export type WidgetTheme = "auto" | "light" | "dark";

/** A table by its name, or what a Flight ticket in base64 stands for, under a title. */
export interface WidgetTarget {
  readonly title: string;
  readonly ticket: string | undefined;
}

const HEIGHT = 400; // pixels
const LEAST_HEIGHT = 120;
const MOST_HEIGHT = 10_000;

/** undefined: it is neither the name of a table nor a ticket. */
export function targetOf(value: unknown): WidgetTarget | undefined {
  const { table, ticket, title } = fieldsOf(value);
  const name = typeof title === "string" && title !== "" ? title : undefined;
  if (typeof ticket === "string") return { title: name ?? "Table", ticket };
  return typeof table === "string" ? { title: table, ticket: undefined } : undefined;
}

/** undefined: a grid. */
export function plotOf(value: unknown): PlotSpec | undefined {
  if (value === null || value === undefined || value === "") return undefined;
  const { x, ys, range } = fieldsOf(value);
  const names = Array.isArray(ys) ? ys.filter((name): name is string => typeof name === "string") : [];
  return {
    ...(typeof x === "string" ? { x } : {}),
    ys: [...new Set(names)].slice(0, MOST_SERIES),
    range: parseRange(typeof range === "string" ? range : ""),
  };
}

export function themeOf(value: unknown): WidgetTheme {
  return value === "light" || value === "dark" ? value : "auto";
}

/** Pixels. */
export function heightOf(value: unknown): number {
  if (typeof value !== "number" || !Number.isFinite(value)) return HEIGHT;
  return Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, value));
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  let found = value;
  if (typeof value === "string") {
    try {
      found = JSON.parse(value);
    } catch {
      return {};
    }
  }
  return typeof found === "object" && found !== null ? (found as Readonly<Record<string, unknown>>) : {};
}
