// Runs in every frame before its own scripts: notes what is painted on each canvas in its last frame.
(() => {
  const prototype = CanvasRenderingContext2D.prototype;
  const { fillText } = prototype;
  const painted = new WeakMap();
  prototype.fillText = function (text, x, y, ...rest) {
    const now = document.timeline.currentTime;
    let last = painted.get(this.canvas);
    if (last?.frame !== now) {
      last = { frame: now, texts: [] };
      painted.set(this.canvas, last);
    }
    last.texts.push(String(text));
    return fillText.call(this, text, x, y, ...rest);
  };
  window.paintedTexts = (canvas) => painted.get(canvas)?.texts ?? [];
})();
