// When the colours have changed.

/** Calls `run` after the colours of `element` have changed, by the system or by choice, until `signal` aborts. */
export function onColours(element: Element, run: () => void, signal: AbortSignal): void {
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)"]) {
    matchMedia(query).addEventListener("change", run, { signal });
  }
  const root = element.getRootNode();
  const observer = new MutationObserver(run);
  observer.observe(root instanceof ShadowRoot ? root.host : document.documentElement, { attributeFilter: ["data-theme"] });
  signal.addEventListener("abort", () => observer.disconnect());
}
