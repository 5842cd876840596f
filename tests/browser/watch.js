// Runs in the page before its own scripts: notes what is painted, and tells the test of what must not happen.
(() => {
  const prototype = CanvasRenderingContext2D.prototype;
  const { fillText } = prototype;
  let frame = -1;
  let texts = [];
  prototype.fillText = function (text, x, y, ...rest) {
    if (!this.canvas.isConnected) return fillText.call(this, text, x, y, ...rest); // of axe, for instance
    // The same for all calls in one frame.
    const now = document.timeline.currentTime;
    if (now !== frame) {
      frame = now;
      texts = [];
      watch.frames += 1;
    }
    texts.push({ text, x: Math.round(10 * x) / 10, y: Math.round(10 * y) / 10, font: this.font });
    return fillText.call(this, text, x, y, ...rest);
  };

  /** The accessible grid: names and texts of what is in view. */
  const mirror = () => {
    const grid = document.querySelector('[role="grid"]');
    if (grid === null) return null;
    const [head, body] = grid.children;
    const cells = (row) => [...row.children].map((cell) => cell.textContent);
    const active = document.getElementById(grid.getAttribute("aria-activedescendant") ?? "");
    return {
      rows: Number(grid.getAttribute("aria-rowcount")) - 1,
      columns: Number(grid.getAttribute("aria-colcount")),
      label: grid.getAttribute("aria-label"),
      focused: document.activeElement === grid,
      heads: [...(head?.children ?? [])].flatMap(cells),
      lines: [...(body?.children ?? [])].map((row) => [Number(row.getAttribute("aria-rowindex")) - 2, cells(row)]),
      active: active === null ? null : {
        row: Number(active.parentElement.getAttribute("aria-rowindex")) - 2,
        column: Number(active.getAttribute("aria-colindex")) - 1,
        text: active.textContent,
      },
    };
  };

  const watch = {
    frames: 0,
    /** What the last frame shows, and what surrounds it. */
    look: () => {
      const canvas = document.querySelector("canvas");
      const text = (selector) => document.querySelector(selector)?.textContent ?? null;
      const cover = document.querySelector(".cover");
      return {
        frames: watch.frames,
        texts: canvas === null ? [] : texts,
        height: canvas?.parentElement.clientHeight ?? 0,
        mirror: canvas === null ? null : mirror(),
        cover: cover === null || cover.hidden ? null : cover.textContent,
        stale: document.querySelector(".stale") !== null,
        connection: text(".connection"),
        line: text(".line-below"),
      };
    },
  };
  window.watch = watch;

  addEventListener("securitypolicyviolation", (event) => reportProblem(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
  addEventListener("unhandledrejection", (event) => reportProblem(`unhandled rejection: ${event.reason}`));
  addEventListener("error", (event) => reportProblem(`error: ${event.message}`));
})();
