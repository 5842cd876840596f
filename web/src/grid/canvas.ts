// The canvas of the grid, in device pixels.

export class Sheet {
  /** What pointers act on; the canvas fills it. */
  readonly element: HTMLElement;
  readonly context: CanvasRenderingContext2D;
  /** CSS pixels at the last {@link measure}. */
  size = { width: 0, height: 0 };
  private readonly canvas: HTMLCanvasElement;

  /** @param fallback says the same to screen readers, and has the focus */
  constructor(fallback: HTMLElement) {
    this.canvas = document.createElement("canvas");
    this.canvas.append(fallback);
    this.element = document.createElement("div");
    this.element.className = "surface";
    this.element.append(this.canvas);
    const context = this.canvas.getContext("2d", { alpha: false });
    if (context === null) throw new Error("This browser has no canvas.");
    this.context = context;
  }

  /** Takes over the size of the element; device pixels of a CSS pixel. */
  measure(): number {
    const ratio = devicePixelRatio || 1;
    this.size = { width: this.element.clientWidth, height: this.element.clientHeight };
    const width = Math.round(this.size.width * ratio);
    const height = Math.round(this.size.height * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    return ratio;
  }
}
