// The chart, which is loaded with the first plot.

import { mendLanguage } from "../plot/language.ts";
import { make } from "../views/dom.ts";

/** The module of the chart, once its styles are on their way. */
export function loadChart(): Promise<typeof import("../plot/chart.ts")> {
  const style = new URL("static/plot.css", document.baseURI).href;
  if (document.querySelector(`link[href="${style}"]`) === null) {
    document.head.append(make("link", { attributes: { rel: "stylesheet", href: style } }));
  }
  mendLanguage();
  return import("../plot/chart.ts");
}
