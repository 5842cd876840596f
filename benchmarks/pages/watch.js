// Runs in a page before its own scripts, in that of every system alike: notes when which rows are painted, how old what
// is painted is, and how even the frames are. Rows are told by the column id, changes by the column at (rows.py).
(() => {
  const FIRST_ID = 1_100_000_000, LAST_ID = 2_147_483_647, FIRST_STAMP = 1e15;
  const NUMBER = /^\d[\d,]{9,}$/;
  const LEAST_ROWS = 20; // fewer are no view of a table
  const QUIET_MS = 150; // rows that stay for so long are those that were asked for
  const LONG_PATH = 100; // points from which a path is a line of a plot
  let ids = [];
  let stamp = 0;
  let isDue = false;
  const touched = new Set(); // shadow roots
  let input = 0;
  let before = -1;
  let paces;
  let recorded;

  const note = (text) => {
    if (text.length < 10 || !NUMBER.test(text)) return;
    const number = Number(text.replaceAll(",", ""));
    if (number >= FIRST_STAMP) stamp = Math.max(stamp, number);
    else if (number >= FIRST_ID && number <= LAST_ID) ids.push(number - FIRST_ID);
  };

  /** What has been painted by one task: at the end of it, since it may paint a row in several calls. */
  const flush = () => {
    const at = performance.now();
    for (const root of touched) {
      for (const cell of root.querySelectorAll("regular-table tbody td")) note(cell.textContent.trim());
      // The last row is below the view at times, and stays as it was.
      if (ids.length > 1 && ids.at(-1) !== ids.at(-2) + 1) ids.pop();
    }
    touched.clear();
    const found = [...new Set(ids)].sort((one, other) => one - other);
    const isWhole = found.length >= LEAST_ROWS && found.at(-1) - found[0] === found.length - 1;
    const first = isWhole ? found[0] : -1;
    if (isWhole && watch.first === null) watch.first = at;
    if (first !== watch.shown.first) watch.shown = { first, at };
    if (found.length > 0) watch.rows = found.length;
    if (stamp > watch.newest) {
      watch.newest = stamp;
      watch.updates += 1;
      recorded?.push([stamp, (performance.timeOrigin + at) * 1000]);
    }
    ids = [];
    stamp = 0;
    isDue = false;
  };

  const due = () => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(flush);
  };

  const picture = () => (watch.picture ??= performance.now());

  // Canvases.
  const context = CanvasRenderingContext2D.prototype;
  const { fillText, stroke } = context;
  context.fillText = function (text, ...rest) {
    if (this.canvas.isConnected) {
      due();
      note(String(text));
    }
    return fillText.call(this, text, ...rest);
  };
  const points = new WeakMap();
  const known = new WeakSet();
  for (const name of ["moveTo", "lineTo"]) {
    const original = Path2D.prototype[name];
    Path2D.prototype[name] = function (...rest) {
      points.set(this, (points.get(this) ?? 0) + 1);
      return original.apply(this, rest);
    };
  }
  context.stroke = function (...rest) {
    if ((points.get(rest[0]) ?? 0) >= LONG_PATH) picture();
    return stroke.apply(this, rest);
  };
  /** Notes a draw of many points; `at`: which argument is their number. */
  const noting = (object, name, at) => {
    const original = object?.[name];
    if (original === undefined) return;
    object[name] = function (...rest) {
      if (rest[at] >= LONG_PATH) picture();
      return original.apply(this, rest);
    };
  };
  for (const { prototype } of [WebGLRenderingContext, WebGL2RenderingContext]) {
    noting(prototype, "drawArrays", 2);
    noting(prototype, "drawElements", 1);
    noting(prototype, "drawArraysInstanced", 3);
    const { getExtension } = prototype;
    prototype.getExtension = function (name) {
      const extension = getExtension.call(this, name);
      if (name.toLowerCase() === "angle_instanced_arrays" && !known.has(extension)) {
        known.add(extension);
        noting(extension, "drawArraysInstancedANGLE", 3);
      }
      return extension;
    };
  }

  // Elements: cells of tables, and lines of pictures. What changed is read when the task that changed it is over.
  const isLong = (path) => (path.getAttribute("d") ?? "").split(/[ML]/).length > LONG_PATH;
  const drawn = (records) => {
    for (const { target } of records) {
      if (!(target instanceof SVGElement)) continue;
      const paths = target instanceof SVGPathElement ? [target] : [...target.querySelectorAll("path")];
      if (paths.some(isLong)) picture();
    }
  };
  const observed = { childList: true, characterData: true, subtree: true };
  const observe = (root) =>
    new MutationObserver(() => {
      if (root.querySelector("regular-table") === null) return;
      touched.add(root);
      due();
    }).observe(root, observed);
  const { attachShadow } = Element.prototype;
  Element.prototype.attachShadow = function (...rest) {
    const root = attachShadow.apply(this, rest);
    observe(root);
    return root;
  };
  new MutationObserver(drawn).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["d"] });

  // What the user does.
  for (const name of ["pointermove", "mousemove"]) addEventListener(name, (event) => (input = event.timeStamp), { capture: true });

  const pace = (now) => {
    if (paces === undefined) return;
    paces.push(now);
    requestAnimationFrame(pace);
  };

  const watch = {
    /** When the first rows were painted, in ms since the navigation began. */
    first: null,
    /** When the first line of a plot was. */
    picture: null,
    /** The first of the rows that are painted now, and since when; -1: not all rows in view are there. */
    shown: { first: -1, at: 0 },
    rows: 0,
    newest: 0,
    /** Changes that were painted. */
    updates: 0,
    /** From here on, rows other than those of now are waited for. */
    aim: () => {
      before = watch.shown.first;
      input = 0;
    },
    /** What was done, of what is no event of the mouse's. */
    acted: () => (input = performance.now()),
    /** Milliseconds from what was done to other rows that stay; -1 while there are none. */
    jumped: () => {
      const { first, at } = watch.shown;
      return input > 0 && first >= 0 && first !== before && at > input && performance.now() - at > QUIET_MS ? at - input : -1;
    },
    /** Begin to take the times of frames; end: share of frames in time, in percent. */
    begin: () => {
      paces = [performance.now()];
      requestAnimationFrame(pace);
    },
    end: () => {
      const times = [...paces, performance.now()];
      paces = undefined;
      const frame = 1000 / 60;
      let missed = 0;
      for (let at = 1; at < times.length; at++) missed += Math.max(0, Math.round((times[at] - times[at - 1]) / frame) - 1);
      const frames = times.length - 2;
      return { share: (100 * frames) / (frames + missed), frames };
    },
    /** Begin to keep when each change was painted; recorded: pairs of its stamp and of then, in microseconds since 1970. */
    record: () => (recorded = []),
    recorded: () => recorded,
  };
  window.watch = watch;
})();
