// The place of a widget in the notebook: a shadow root, so that neither side's styles reach the other, and what of the keyboard
// and the wheel is the widget's.

import style from "./widget.css";
import { make } from "../views/dom.ts";
import { isOwn } from "./keys.ts";
import type { WidgetTheme } from "./traits.ts";

/** Lumino, on which JupyterLab is built, ignores keys below an element with this attribute. */
const SUPPRESS = "data-lm-suppress-shortcuts";
/** Says whether JupyterLab's theme is light; on its body. */
const JUPYTER_LIGHT = "data-jp-theme-light";
/** Milliseconds without the wheel after which a turn of it is another one. */
const WHEEL_MS = 250;

export class Shell {
  /** Where the views go. */
  readonly content: HTMLElement;
  private readonly host: HTMLElement;
  private theme: WidgetTheme = "auto";

  /** @param el the widget's element in the notebook */
  constructor(el: HTMLElement, signal: AbortSignal) {
    this.host = make("div", { class: "barrage-widget" });
    const root = this.host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    this.content = make("div", { class: "widget" });
    root.append(this.content);
    el.append(this.host);
    const themes = new MutationObserver(() => this.applyTheme());
    themes.observe(document.body, { attributeFilter: [JUPYTER_LIGHT] });
    signal.addEventListener("abort", () => {
      themes.disconnect();
      this.host.remove();
    });
    this.keepKeys(signal);
    this.keepWheel(signal);
  }

  /** Whether something in the widget has the focus. */
  get isFocused(): boolean {
    return this.host.shadowRoot?.activeElement !== null;
  }

  setTheme(theme: WidgetTheme): void {
    this.theme = theme;
    this.applyTheme();
  }

  setHeight(pixels: number): void {
    this.host.style.setProperty("--widget-height", `${pixels}px`);
  }

  /** Calls `run` whenever the widget has been laid out with another size: not before it is shown, and after it has been shown again. */
  onShown(run: () => void, signal: AbortSignal): void {
    const observer = new ResizeObserver(() => {
      if (!this.host.isConnected || this.host.clientWidth === 0) return;
      this.applyTheme(); // it may have changed while the widget was not shown
      run();
    });
    observer.observe(this.host);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  private applyTheme(): void {
    if (!this.host.isConnected) return; // colours are read of what is shown
    const light = document.body.getAttribute(JUPYTER_LIGHT);
    const around = light === null ? "system" : light === "false" ? "dark" : "light";
    const theme = this.theme === "auto" ? around : this.theme;
    if (this.host.dataset["theme"] !== theme) this.host.dataset["theme"] = theme;
  }

  /** Keys that are the widget's do not reach the notebook's shortcuts. */
  private keepKeys(signal: AbortSignal): void {
    // Before the notebook's own listeners, which may be in the capture phase of the document.
    window.addEventListener("keydown", (event) => {
      if (event.composedPath().includes(this.host)) this.host.toggleAttribute(SUPPRESS, isOwn(event));
    }, { capture: true, signal });
    for (const name of ["keydown", "keypress", "keyup"] as const) {
      this.host.addEventListener(name, (event) => {
        if (isOwn(event)) event.stopPropagation();
      }, { signal });
    }
    this.host.addEventListener("contextmenu", (event) => {
      if (event.defaultPrevented) event.stopPropagation(); // the widget has opened its own
    }, { signal });
  }

  /** A turn of the wheel that has begun elsewhere goes on there, as with every scrolled area. */
  private keepWheel(signal: AbortSignal): void {
    let outside = -Infinity;
    window.addEventListener("wheel", (event) => {
      const isBelow = event.composedPath().includes(this.host);
      if (isBelow && event.timeStamp - outside > WHEEL_MS) return;
      outside = event.timeStamp;
      if (isBelow) event.stopPropagation();
    }, { capture: true, passive: true, signal });
  }
}
