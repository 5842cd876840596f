// Runs in the page before its own scripts: frames as fast as the page paints them, instead of sixty a second.
(() => {
  const { port1, port2 } = new MessageChannel();
  let waiting = new Map();
  let number = 0;
  port2.onmessage = () => {
    const due = waiting;
    waiting = new Map();
    for (const run of due.values()) run(performance.now());
  };
  window.requestAnimationFrame = (run) => {
    if (waiting.size === 0) port1.postMessage(null);
    waiting.set(++number, run);
    return number;
  };
  window.cancelAnimationFrame = (frame) => waiting.delete(frame);
})();
