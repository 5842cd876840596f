// One sentence at the lower edge, with at most one button. Screen readers speak it.

import { button, make, setText } from "./dom.ts";

/** Milliseconds that a sentence without a button stays. */
const STAY_MS = 4_000;

export class Notice {
  readonly element: HTMLElement;
  private readonly text: HTMLElement;
  private action: HTMLElement | undefined;
  private timer = 0;

  constructor() {
    this.text = make("span", { attributes: { role: "status" } });
    this.element = make("div", { class: "notice" }, this.text, button("\u00d7", () => this.clear(), { class: "plain", attributes: { "aria-label": "Close" } }));
    this.element.dataset["empty"] = "";
  }

  say(text: string, label?: string, run?: () => void): void {
    clearTimeout(this.timer);
    this.action?.remove();
    this.action = undefined;
    setText(this.text, text);
    delete this.element.dataset["empty"];
    if (label !== undefined && run !== undefined) {
      this.action = button(label, () => {
        this.clear();
        run();
      }, { class: "main" });
      this.text.after(this.action);
    } else {
      this.timer = window.setTimeout(() => this.clear(), STAY_MS);
    }
  }

  clear(): void {
    clearTimeout(this.timer);
    setText(this.text, "");
    this.action?.remove();
    this.action = undefined;
    this.element.dataset["empty"] = "";
  }
}
