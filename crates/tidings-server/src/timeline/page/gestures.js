// Wheel, drag, pinch and hover over a picture of time, as changes of its range.

import { toTime } from "./paint.js";

/** @typedef {import("./paint.js").Scale} Scale */

/** @typedef {{once: () => void, twice: () => void}} Press */

/**
 * @typedef {object} Handlers
 * @property {() => Scale} scale The scale now; its left is 0.
 * @property {() => number} left Where the scale's left is in the window.
 * @property {(from: number, to: number) => void} range
 * @property {(factor: number, around: number) => void} zoom
 * @property {(from: number, to: number, done: boolean) => void} brush Drawn while not done.
 * @property {(x: number, y: number) => Press} press What a click and a double-click there do.
 * @property {(x: number|null, y: number, at: PointerEvent) => void} hover
 */

/** Pixels after which a press becomes a drag. */
const SLACK = 4;
/** Milliseconds in which a second press makes a double-click of the first one: what a click does,
 * which may move what is under the pointer, waits for so long. */
const ALONE = 250;
/** Milliseconds between two presses of the slowest double-click. */
const SLOWEST = 600;

/**
 * @param {HTMLElement} node
 * @param {Handlers} on
 * @param {{ignore?: string, mouse?: boolean}} [options] A selector of what has clicks of its own,
 *   though a drag may begin there; and whether a mouse's drag is ours.
 */
export function watchGestures(node, on, { ignore, mouse = true } = {}) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  /** What a drag began with. @type {{scale: Scale, xs: number[], brush: boolean}|null} */
  let start = null;
  let moved = false;
  /** The last press that was no second one.
   * @type {{at: number, x: number, y: number, act: Press}|null} */
  let pressed = null;
  let opening = 0;

  /** What a press at the same place just before does; null if there was none.
   * @param {MouseEvent} event */
  const before = ({ timeStamp, clientX, clientY }) => (pressed !== null
    && timeStamp - pressed.at < SLOWEST && Math.abs(clientX - pressed.x) < SLACK
    && Math.abs(clientY - pressed.y) < SLACK ? pressed.act : null);

  /** @param {Press} act */
  const openSoon = (act) => {
    clearTimeout(opening);
    opening = window.setTimeout(() => {
      opening = 0;
      act.once();
    }, ALONE);
  };

  /** A double-click acts on what was under the first press; at the second one it may have moved.
   * @param {PointerEvent} event */
  const press = (event) => {
    const act = before(event);
    if (act === null) {
      const { timeStamp: at, clientX, clientY } = event;
      pressed = { at, x: clientX, y: clientY, act: on.press(x(event), clientY) };
      openSoon(pressed.act);
    } else if (opening) openSoon(act); // a click, if no double-click follows
  };

  /** @param {Event} event */
  const ignored = (event) => ignore !== undefined && event.target instanceof Element
    && event.target.closest(ignore) !== null;
  /** @param {{clientX: number}} event */
  const x = (event) => event.clientX - on.left();

  const begin = (/** @type {boolean} */ brush) => {
    start = { scale: on.scale(), xs: [...down.values()].map((p) => p.x), brush };
  };

  node.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const zooms = event.ctrlKey || event.metaKey;
    if (!zooms && !event.shiftKey && !sideways) return; // scrolls the lanes
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const scale = on.scale();
    if (zooms) {
      const by = Math.max(-200, Math.min(event.deltaY * unit, 200));
      on.zoom(Math.exp(by * 0.0025), toTime(x(event), scale));
      return;
    }
    const by = (sideways ? event.deltaX : event.deltaY) * unit;
    const ms = (by / scale.width) * (scale.to - scale.from);
    on.range(scale.from + ms, scale.to + ms);
  }, { passive: false });

  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, { x: x(event), y: event.clientY });
    if (down.size === 1) moved = false;
    const act = before(event);
    if (act && opening) openSoon(act);
    if (mouse || event.pointerType !== "mouse") begin(event.shiftKey && down.size === 1);
  });

  node.addEventListener("pointermove", (event) => {
    // What was released elsewhere is not down any more.
    if (event.pointerType === "mouse" && event.buttons === 0) down.delete(event.pointerId);
    const point = down.get(event.pointerId);
    if (!point) {
      if (event.pointerType === "mouse") on.hover(x(event), event.clientY, event);
      return;
    }
    if (!start) {
      moved ||= Math.abs(x(event) - point.x) >= SLACK;
      return;
    }
    const first = start.xs[[...down.keys()].indexOf(event.pointerId)];
    if (!moved && Math.abs(x(event) - first) < SLACK && down.size === 1) return;
    if (!moved) node.setPointerCapture(event.pointerId);
    moved = true;
    point.x = x(event);
    on.hover(null, 0, event);
    drag(start, [...down.values()].map((p) => p.x));
  });

  /** @param {NonNullable<typeof start>} from @param {number[]} xs */
  const drag = ({ scale, xs: begun, brush }, xs) => {
    if (brush) {
      const times = [toTime(begun[0], scale), toTime(xs[0], scale)].sort((a, b) => a - b);
      on.brush(times[0], times[1], false);
    } else if (xs.length >= 2) {
      // The times under both fingers stay under them.
      const [t0, t1] = [toTime(begun[0], scale), toTime(begun[1], scale)];
      const apart = Math.abs(xs[1] - xs[0]) < 10 ? 10 * Math.sign(xs[1] - xs[0] || 1)
        : xs[1] - xs[0];
      const perPixel = (t1 - t0) / apart;
      if (perPixel <= 0) return;
      const from = t0 - xs[0] * perPixel;
      on.range(from, from + scale.width * perPixel);
    } else {
      const ms = ((begun[0] - xs[0]) / scale.width) * (scale.to - scale.from);
      on.range(scale.from + ms, scale.to + ms);
    }
  };

  /** @param {PointerEvent} event */
  const end = (event) => {
    const point = down.get(event.pointerId);
    if (!point) return;
    const was = start;
    down.delete(event.pointerId);
    if (moved && was?.brush && event.type === "pointerup") {
      const times = [was.xs[0], point.x].map((at) => toTime(at, was.scale)).sort((a, b) => a - b);
      on.brush(times[0], times[1], true);
    } else if (!moved && event.type === "pointerup" && !ignored(event)) {
      press(event);
    }
    if (down.size > 0) begin(false);
    else start = null;
  };
  node.addEventListener("pointerup", end);
  node.addEventListener("pointercancel", end);
  node.addEventListener("pointerleave", (event) => on.hover(null, 0, event));
  node.addEventListener("dblclick", (event) => {
    if (ignored(event)) return;
    clearTimeout(opening);
    opening = 0;
    const act = before(event) ?? on.press(x(event), event.clientY);
    act.twice();
  });
}
