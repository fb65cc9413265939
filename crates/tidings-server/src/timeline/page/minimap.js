// Where the range in view is in all there is: a strip above the rates, while much is out of view.

import { byId } from "./dom.js";
import { fit } from "./surface.js";
import { colours } from "./theme.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./known.js").Known} Known */
/** @typedef {import("./view.js").Store} Store */

const HEIGHT = 10;
/** It is shown if less than this part of all is in view. */
const PART = 0.7;

export class Minimap {
  /** @param {Store} store @param {Known} known */
  constructor(store, known) {
    this.store = store;
    this.known = known;
    this.canvas = /** @type {HTMLCanvasElement} */ (byId("minimap"));
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    /** The rates of the longest picture so far. @type {Picture["rates"]|null} */
    this.rates = null;
    this.length = 0;
    this.width = 0;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 1) this.move(event);
    });
  }

  /** All there is. @returns {[number, number]|null} */
  all() {
    const [from, to] = this.known.extent();
    const [, end] = this.store.range();
    return from < to ? [from, Math.max(to, Math.min(end, this.store.now()))] : null;
  }

  /** Moves the range so that its middle is under the pointer. @param {PointerEvent} event */
  move(event) {
    const all = this.all();
    if (!all) return;
    const { left, width } = this.canvas.getBoundingClientRect();
    const part = Math.min(Math.max((event.clientX - left) / width, 0), 1);
    const [from, to] = this.store.range();
    const middle = all[0] + part * (all[1] - all[0]);
    this.store.setRange(middle - (to - from) / 2, middle + (to - from) / 2);
  }

  /** @param {Picture} picture */
  setPicture({ from, to, rates }) {
    if (to - from < this.length) return;
    this.length = to - from;
    this.rates = rates;
  }

  /** @param {number} width */
  draw(width) {
    const all = this.all();
    const [from, to] = this.store.range();
    this.canvas.hidden = !all || to - from > (all[1] - all[0]) * PART;
    if (this.canvas.hidden || !all) return;
    const { context } = this;
    fit(this.canvas, context, width, HEIGHT);
    const c = colours();
    const x = (/** @type {number} */ at) => ((at - all[0]) / (all[1] - all[0])) * width;
    context.fillStyle = c.row;
    context.fillRect(0, 0, width, HEIGHT);
    if (this.rates) {
      const { start, step, series } = this.rates;
      const sums = (series[0]?.values ?? []).map((_, i) =>
        series.reduce((sum, { values }) => sum + values[i], 0));
      const most = Math.log2(1 + Math.max(1, ...sums));
      context.fillStyle = c.faint;
      sums.forEach((sum, i) => {
        const high = (Math.log2(1 + sum) / most) * (HEIGHT - 2);
        const left = x(start + i * step);
        context.fillRect(left, HEIGHT - high, Math.max(1, x(start + (i + 1) * step) - left), high);
      });
    }
    const left = Math.min(Math.max(x(from), 0), width - 3);
    const wide = Math.max(4, x(to) - left);
    context.globalAlpha = 0.35;
    context.fillStyle = c.pick;
    context.fillRect(left, 0, wide, HEIGHT);
    context.globalAlpha = 1;
    context.strokeStyle = c.ink;
    context.strokeRect(left + 0.5, 0.5, wide - 1, HEIGHT - 1);
  }
}
