// Whether something is in view. What is not is not painted, and its updates are not acknowledged: the server then makes no more.

/** Pixels around what is in view that count as in view: what is scrolled towards is up to date when it arrives. */
const AROUND = "200px";

export class Sight {
  private seen = true;

  /** @param came is called when the element comes into view again */
  constructor(element: Element, came: () => void, signal: AbortSignal) {
    const margins = { rootMargin: AROUND, scrollMargin: AROUND }; // of the window, and of what scrolls in it
    const observer = new IntersectionObserver((entries) => {
      const { isIntersecting = true } = entries.at(-1) ?? {};
      if (isIntersecting === this.seen) return;
      this.seen = isIntersecting;
      if (isIntersecting) came();
    }, margins);
    observer.observe(element);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  /** True until the browser has said otherwise: the first rows do not wait for that. */
  get isInView(): boolean {
    return this.seen;
  }
}
