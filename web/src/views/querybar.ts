// The line below the bar: which rows are shown, in which order, and a field for a condition.

import { shownName } from "../grid/names.ts";
import type { Query } from "../wire/messages.ts";
import { button, make, setText } from "./dom.ts";
import { NOTHING, isEmpty, parts, rewritten, where } from "./query.ts";

/** Characters of a part that are shown. */
const MOST_SHOWN = 60;

export class QueryBar {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly form: HTMLFormElement;
  private readonly problem = make("p", { class: "problem", attributes: { role: "alert", id: "condition-problem" } });
  private readonly query: Query;
  /** The number of the condition that is in the field; undefined: it is a new one. */
  private edited: number | undefined;

  /** `change` is called with another query, which opens the view anew; with undefined: it would have too many parts. */
  constructor(query: Query, change: (query: Query | undefined) => void) {
    this.query = query;
    this.problem.hidden = true;
    this.input = make("input", {
      class: "condition",
      attributes: {
        type: "text", placeholder: "price > 100 && sym == `ACME`", "aria-label": "Only rows where", autocomplete: "off", spellcheck: "false",
      },
    });
    this.form = make("form", { class: "where", title: "A condition in the server's formula language" }, make("label", { text: "Only rows where " }, this.input), button("Apply", () => this.form.requestSubmit()));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const next = this.edited === undefined ? where(query, this.input.value) : rewritten(query, this.edited, this.input.value);
      if (next !== query) change(next);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.edited === undefined) return;
      this.edited = undefined;
      this.input.value = "";
    });
    const chips = parts(query, shownName, shownName).map(({ text, without, condition }) => {
      const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\u2026` : text;
      return make("li", {}, condition === undefined ? make("span", { text: shown, title: text }) : button(shown, () => this.edit(condition), { title: `Change: ${text}` }), button("\u00d7", () => change(without), { attributes: { "aria-label": `Without: ${shown}` } }));
    });
    const list = make("ul", { class: "parts", attributes: { "aria-label": "Rows shown" } }, ...chips);
    const clear = isEmpty(query) ? undefined : button("All rows", () => change(NOTHING));
    this.element = make("div", { class: "query" }, this.form, this.problem, list, clear);
    this.element.hidden = isEmpty(query);
  }

  /** Shows or hides the field. */
  toggle(isEmptyToo: boolean): void {
    this.element.hidden = !this.element.hidden && isEmptyToo;
    if (!this.element.hidden) this.input.focus();
  }

  /** Puts a condition into the field, to be changed. */
  private edit(condition: number): void {
    this.fill(condition);
    this.input.focus();
    this.input.select();
  }

  private fill(condition: number): void {
    this.edited = condition;
    this.input.value = this.query.where[condition] ?? "";
  }

  /**
   * Shows why the view has ended, with its last condition in the field; undefined: it has not. Returns whether it does: a view
   * without conditions says it elsewhere.
   *
   * @param focus whether the field gets the keys: nothing else is to be seen
   */
  fail(error: string | undefined, focus: boolean): boolean {
    const text = this.query.where.length === 0 ? undefined : error;
    const isNew = text !== undefined && this.problem.hidden;
    this.problem.hidden = text === undefined;
    setText(this.problem, text ?? "");
    if (text === undefined) {
      this.input.removeAttribute("aria-invalid");
      this.input.removeAttribute("aria-describedby");
      return false;
    }
    if (!isNew) return true;
    this.element.hidden = false;
    this.input.setAttribute("aria-invalid", "true");
    this.input.setAttribute("aria-describedby", this.problem.id);
    if (this.input.value === "") this.fill(this.query.where.length - 1);
    if (focus) this.input.focus();
    this.input.select();
    return true;
  }

  get isShown(): boolean {
    return !this.element.hidden;
  }
}
