// A strip for what is folded: how much happened in each few pixels, in the colours of the marks.

import { toX } from "./paint.js";

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./paint.js").Scale} Scale */
/** @typedef {import("./surface.js").Surface} Surface */

/** Pixels of a column, and between two. */
const STEP = 4;
/** The height of a row's strip. */
const HIGH = 17;

/** Occurrences are spread evenly between the first and the last time of a mark; the height of a
 * column is their logarithm.
 * @param {Surface} s @param {Scale} scale @param {Mark[]} marks @param {number} bottom
 * @param {(mark: Mark) => string} colourOf Warnings are at the bottom of a column. */
export function paintDensity(s, scale, marks, bottom, colourOf) {
  const length = Math.ceil(scale.width / STEP) + 1;
  /** Differences from column to column, by colour. @type {Map<string, Float64Array>} */
  const layers = new Map();
  const sorted = [...marks].sort((a, b) => b[3] - a[3]);
  for (const mark of sorted) {
    const [, from, to, , occurrences] = mark;
    if (to < scale.from || from > scale.to) continue;
    const [x0, x1] = [toX(from, scale), toX(to, scale)].map((x) => (x - scale.left) / STEP);
    const [begin, end] = [Math.floor(x0), Math.floor(x1)];
    const each = Math.max(1, occurrences) / (end - begin + 1);
    const colour = colourOf(mark);
    const layer = layers.get(colour) ?? new Float64Array(length + 1);
    layers.set(colour, layer);
    layer[Math.max(begin, 0)] += each;
    layer[Math.min(end + 1, length)] -= each;
  }
  const sums = [...layers].map(([colour, changes]) => ({ colour, changes, sum: 0 }));
  for (let i = 0; i < length; i += 1) {
    let all = 0;
    for (const layer of sums) {
      layer.sum += layer.changes[i];
      all += layer.sum;
    }
    if (all < 0.01) continue;
    const high = Math.min(HIGH, 4 + 2.2 * Math.log2(1 + all));
    let y = bottom;
    for (const { colour, sum } of sums) {
      const part = (sum / all) * high;
      if (part < 0.2) continue;
      y -= part;
      s.rect(scale.left + i * STEP, y, STEP - 1, part, colour);
    }
  }
}
