// Whether something can be seen: what is scrolled out of view need not be painted.

/** Watches an element until `signal` aborts. */
export class Sight {
  /** Whether all of it is outside the window, or scrolled out of what contains it. */
  isOut = false;

  /** @param back is called when it comes into view again */
  constructor(element: Element, back: () => void, signal: AbortSignal) {
    const observer = new IntersectionObserver((entries) => {
      const wasOut = this.isOut;
      this.isOut = entries.at(-1)?.isIntersecting === false;
      if (wasOut && !this.isOut) back();
    });
    observer.observe(element);
    signal.addEventListener("abort", () => observer.disconnect());
  }
}
