// How lanes, marks, gaps and the axis look, on whatever surface. Geometry is shared with the test
// of what is under the pointer.

import { ticks } from "./time.js";

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Lane} Lane */
/** @typedef {import("./surface.js").Surface} Surface */
/** @typedef {import("./theme.js").Colours} Colours */
/** @typedef {import("./marking.js").Marking} Marking */

/**
 * Time to pixels.
 * @typedef {{from: number, to: number, left: number, width: number}} Scale
 * @typedef {{height: number, middle: number}} RowShape
 */

/** Rows of wide windows have their label at the left, rows of narrow ones above the marks. */
export const WIDE = { height: 22, middle: 11 };
export const NARROW = { height: 38, middle: 27 };

/** Pixels of a letter of the words of marks, about. */
const LETTER = 6.2;
/** A mark of fewer pixels is drawn as a point. */
const POINT = 7;

/** @param {number} ms @param {Scale} scale */
export const toX = (ms, scale) =>
  scale.left + ((ms - scale.from) / (scale.to - scale.from)) * scale.width;

/** @param {number} x @param {Scale} scale */
export const toTime = (x, scale) =>
  scale.from + ((x - scale.left) / scale.width) * (scale.to - scale.from);

/** Vertical lines of the axis. @param {Surface} s @param {Scale} scale @param {number} top
 * @param {number} bottom @param {Colours} c @param {boolean} utc */
export function paintGrid(s, scale, top, bottom, c, utc) {
  for (const tick of ticks(scale.from, scale.to, scale.width, utc)) {
    const x = Math.round(toX(tick.at, scale)) + 0.5;
    s.line(x, top, x, bottom, tick.strong ? c.strong : c.line);
  }
}

/** @param {Surface} s @param {Scale} scale @param {number} y @param {Colours} c
 * @param {boolean} utc */
export function paintAxis(s, scale, y, c, utc) {
  for (const tick of ticks(scale.from, scale.to, scale.width, utc)) {
    const x = toX(tick.at, scale);
    if (x < scale.left + 16 || x > scale.left + scale.width - 16) continue;
    s.text(tick.text, x, y, tick.strong ? c.ink : c.faint,
      { align: "center", weight: tick.strong ? 600 : 400 });
  }
}

/** @param {Surface} s @param {Scale} scale @param {{from: number, to: number}[]} gaps
 * @param {number} top @param {number} bottom @param {Colours} c */
export function paintGaps(s, scale, gaps, top, bottom, c) {
  for (const gap of gaps) {
    const [x0, x1] = clipped(gap.from, gap.to, scale);
    if (x1 < x0) continue;
    const width = Math.max(2, x1 - x0);
    s.rect(x0, top, width, bottom - top, c.gap, 0.1);
    s.hatch(x0, top, width, bottom - top, c.gap);
  }
}

/** @param {Surface} s @param {Scale} scale @param {number} now @param {number} top
 * @param {number} bottom @param {Colours} c */
export function paintNow(s, scale, now, top, bottom, c) {
  if (now < scale.from || now > scale.to) return;
  const x = Math.round(toX(now, scale)) + 0.5;
  s.line(x, top, x, bottom, c.now, 1.5);
}

/** The period of an object's events, with an end if it was deleted. @param {Surface} s
 * @param {Scale} scale @param {Pick<Lane, "events"|"first"|"last"|"gone">} lane
 * @param {number} y @param {Colours} c */
export function paintLife(s, scale, lane, y, c) {
  if (lane.events === 0) return;
  const [x0, x1] = clipped(lane.first, lane.last, scale);
  if (x1 < x0) return;
  s.line(x0, y, Math.max(x1, x0 + 1), y, c.strong, 1);
  if (!lane.gone) return;
  const x = toX(lane.last, scale) + 10;
  if (x < scale.left || x > scale.left + scale.width) return;
  s.line(x - 3, y - 3, x + 3, y + 3, c.faint, 1.5);
  s.line(x - 3, y + 3, x + 3, y - 3, c.faint, 1.5);
}

/** One mark. @param {Surface} s @param {Scale} scale @param {Mark} mark @param {number} y
 * @param {boolean} picked @param {Colours} c @param {Marking} is */
export function paintMark(s, scale, mark, y, picked, c, is) {
  const [, from, to, warning] = mark;
  const [x0, x1] = clipped(from, to, scale);
  if (x1 < x0) return;
  const colour = is.colour(mark, c);
  const form = is.form(mark);
  const size = radius(mark);
  const wide = x1 - x0 >= POINT;
  if (picked) s.rect(x0 - size - 4, y - 10, x1 - x0 + 2 * size + 8, 20, c.pick, 0.35, 4);
  if (wide) {
    const half = warning ? 4 : 3;
    s.rect(x0, y - half, x1 - x0, half * 2, colour, warning ? 0.45 : 0.4, 3);
  }
  if (from < scale.from) { // it began before
    s.line(x0 + 6, y - 4, x0 + 1, y, colour, 1.5);
    s.line(x0 + 1, y, x0 + 6, y + 4, colour, 1.5);
  }
  const ends = wide ? [from, to] : [(from + to) / 2];
  for (const end of ends) {
    if (wide && (end < scale.from || end > scale.to)) continue;
    const x = wide ? toX(end, scale) : Math.max(scale.left, Math.min(toX(end, scale),
      scale.left + scale.width));
    if (form === "warning") s.diamond(x, y, size + 1.5, colour, c.edge);
    else if (form === "change") s.triangle(x, y, size + 1, colour, c.page);
    else s.circle(x, y, size, colour, c.page);
  }
}

/** What marks are, written where there is room: in the middle of a bar, or right of a point; of a
 * bar with little room, the number alone.
 * @param {Surface} s @param {Scale} scale @param {Mark[]} marks @param {number} y
 * @param {Colours} c @param {Marking} is @param {number|null} end Of an object that is gone. */
export function paintWords(s, scale, marks, y, c, is, end) {
  const spans = marks.map((mark) => clipped(mark[1], mark[2], scale)).filter(([a, b]) => b >= a);
  /** @type {[number, number][]} What has words already. */
  const taken = end === null ? [] : [[toX(end, scale) + 5, toX(end, scale) + 16]];
  /** @param {number} from @param {number} to */
  const isFree = (from, to) => !taken.some(([a, b]) => to > a && from < b);
  for (const mark of [...marks].sort((a, b) => b[3] - a[3] || b[4] - a[4])) {
    const [x0, x1] = clipped(mark[1], mark[2], scale);
    if (x1 < x0) continue;
    const words = is.words(mark);
    if (x1 - x0 < POINT) {
      const [from, to] = [x1 + 10, x1 + 16 + words.length * LETTER];
      const ends = to > scale.left + scale.width || words === "";
      if (ends || !isFree(from, to) || spans.some(([a, b]) => b > x1 + 1 && a < to + 8)) continue;
      taken.push([from, to]);
      s.rect(from - 2, y - 6, to - from - 2, 12, c.page, 0.85);
      s.text(words, from, y + 0.5, c.faint, { size: 10 });
      continue;
    }
    const often = words.slice(words.lastIndexOf(" ") + 1);
    for (const text of [words, mark[4] > 1 || mark[5] > 1 ? often : ""]) {
      const half = (text.length * LETTER) / 2 + 4;
      const x = (x0 + x1) / 2;
      if (text === "" || x1 - x0 < 2 * half + 22 || !isFree(x - half, x + half)) continue;
      taken.push([x - half, x + half]);
      s.text(text, x, y + 0.5, c.ink, { size: 10, align: "center", weight: 600 });
      break;
    }
  }
}

/** The radius of a point, a little larger for more occurrences. @param {Mark} mark */
const radius = (mark) => 3.5 + Math.min(2.5, Math.log10(Math.max(1, mark[4], mark[5])));

/** The part of a span in view, in pixels; reversed if there is no such part.
 * @param {number} from @param {number} to @param {Scale} scale @returns {[number, number]} */
function clipped(from, to, scale) {
  if (to < scale.from || from > scale.to) return [1, 0];
  return [toX(Math.max(from, scale.from), scale), toX(Math.min(to, scale.to), scale)];
}

/** The mark of a lane at an x, warnings first; at most `reach` pixels away.
 * @param {Mark[]} marks @param {number} x @param {Scale} scale @param {number} [reach] */
export function markAt(marks, x, scale, reach = 6) {
  /** @type {Mark|null} */
  let best = null;
  let least = Infinity;
  for (const mark of marks) {
    const x0 = toX(mark[1], scale);
    const x1 = toX(mark[2], scale);
    const off = Math.max(x0 - x, x - x1, 0);
    if (off > reach) continue;
    // Of near marks, ends count as nearer than middles, and warnings as nearer still.
    const end = Math.min(Math.abs(x - x0), Math.abs(x - x1), 40);
    const distance = off * 10 + end - (mark[3] ? 8 : 0);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}
