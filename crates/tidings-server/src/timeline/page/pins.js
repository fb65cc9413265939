// Numbers in the picture: where the rows of "what changed before this" happened.

import { toX } from "./paint.js";

/** @typedef {import("./lanes.js").Row} Row */
/** @typedef {import("./paint.js").Scale} Scale */
/** @typedef {import("./surface.js").Surface} Surface */
/** @typedef {import("./theme.js").Colours} Colours */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */

/** @typedef {{number: number, cluster: string, object: ObjectRef, at: number}} Pin */

const RADIUS = 6.5;

export class Pins {
  constructor() {
    /** @type {Pin[]} */
    this.all = [];
    /** The one that is highlighted. @type {number|null} */
    this.over = null;
  }

  /** @param {Pin[]} all */
  set(all) {
    this.all = all;
    this.over = null;
  }

  /** The pins in a row, which may have what is folded below it. @param {Row} row
   * @returns {Pin[]} */
  of({ lanes }) {
    if (this.all.length === 0) return [];
    return this.all.filter(({ cluster, object }) => lanes.some((lane) =>
      lane.name === object.name && lane.kind === object.kind && lane.cluster === cluster
        && (lane.namespace === object.namespace || !object.namespace)
        && (!lane.apart || !object.uid || lane.uid === object.uid)));
  }

  /** @param {Surface} s @param {Scale} scale @param {Row} row @param {number} y
   * @param {Colours} c */
  paint(s, scale, row, y, c) {
    let right = -Infinity;
    // Above their marks, side by side, the likeliest first.
    const pins = this.of(row).filter(({ at }) => at >= scale.from && at <= scale.to)
      .sort((a, b) => a.at - b.at || a.number - b.number);
    for (const { number, at } of pins) {
      const exact = toX(at, scale);
      const x = Math.max(exact, right + 2 * RADIUS);
      right = x;
      const is = number === this.over;
      if (is) s.rect(scale.left, y - 11, scale.width, 22, c.pick, 0.3);
      if (is) s.circle(x, y - 6, RADIUS + 3, c.pick);
      s.circle(x, y - 6, RADIUS, c.ink, c.page);
      s.text(String(number), x, y - 5.5, c.page, { size: 9, align: "center", weight: 700 });
    }
  }
}
