// The line below the bar: which rows are shown, in which order, and a field for a condition.

import { shownName } from "../grid/names.ts";
import type { Query } from "../wire/messages.ts";
import { button, make } from "./dom.ts";
import { NOTHING, isEmpty, parts, where } from "./query.ts";

/** Characters of a part that are shown. */
const MOST_SHOWN = 60;

export class QueryBar {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly form: HTMLFormElement;

  /** `change` is called with another query, which opens the view anew; with undefined: it would have too many parts. */
  constructor(query: Query, change: (query: Query | undefined) => void) {
    this.input = make("input", {
      class: "condition",
      attributes: {
        type: "text", placeholder: "price > 100 && sym == `ACME`", "aria-label": "Only rows where", autocomplete: "off", spellcheck: "false",
      },
    });
    this.form = make("form", { class: "where", title: "A condition in the server's formula language" }, make("label", { text: "Only rows where " }, this.input), button("Apply", () => this.form.requestSubmit()));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const next = where(query, this.input.value);
      if (next !== query) change(next);
    });
    const chips = parts(query, shownName, shownName).map(({ text, without }) => {
      const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\u2026` : text;
      return make("li", {}, make("span", { text: shown, title: text }), button("\u00d7", () => change(without), { attributes: { "aria-label": `Without: ${shown}` } }));
    });
    const list = make("ul", { class: "parts", attributes: { "aria-label": "Rows shown" } }, ...chips);
    const clear = isEmpty(query) ? undefined : button("All rows", () => change(NOTHING));
    this.element = make("div", { class: "query" }, this.form, list, clear);
    this.element.hidden = isEmpty(query);
  }

  /** Shows or hides the field. */
  toggle(isEmptyToo: boolean): void {
    this.element.hidden = !this.element.hidden && isEmptyToo;
    if (!this.element.hidden) this.input.focus();
  }

  get isShown(): boolean {
    return !this.element.hidden;
  }
}
