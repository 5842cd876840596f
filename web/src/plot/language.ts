// The browser's language, for libraries that format with it.

/** Gives the browser a language where its own is none that `Intl` knows, as "en-US@posix": uPlot does not load with such a one. */
export function mendLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en", configurable: true });
  }
}
