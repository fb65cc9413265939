// Rates above the lanes: how often events happened, as stacked bars by uPlot on the scale of the
// lanes. A drag over them is a range to zoom to.

import { append, byId, el, fill } from "./dom.js";
import { colours, seriesColour } from "./theme.js";
import { without } from "./terms.js";
import { dateTime, duration, number } from "./time.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./paint.js").Scale} Scale */

/** @typedef {import("./types.js").Plot} Plot */

const uPlot = /** @type {{uPlot: import("./types.js").PlotClass}} */ (
  /** @type {unknown} */ (globalThis)).uPlot;

const HEIGHT = 96;
/** The height in narrow windows, where lanes need the space. */
const LOW = 60;
/** The height of the chart, relative to its highest bar. */
const HEAD = 1.15;

/** Largest first, so that the small are on top and drawn last; warnings below all. Values are sums
 * from below. @param {Picture["rates"]} rates */
export function stacked(rates) {
  const named = rates.series.map((series, index) => ({ ...series, index }));
  named.sort((a, b) => Number(b.name === "Warning") - Number(a.name === "Warning"));
  const length = rates.series[0]?.values.length ?? 0;
  const sums = new Array(length).fill(0);
  return named.map(({ name, values, index }) => {
    let total = 0;
    const top = values.map((value, i) => {
      total += value;
      sums[i] += value;
      return sums[i];
    });
    return { name, index, values, top, total };
  });
}

/** A number of what rates count. @param {Picture} picture @param {number} n */
export const amount = ({ rates, counted: unit }, n) =>
  `${rates.estimated ? "≈ " : ""}${unit === "occurrences" ? "×" : ""}${number(n)}`;

export class Rates {
  /**
   * @param {(from: number, to: number) => void} zoom
   * @param {import("./view.js").Store} store
   */
  constructor(zoom, store) {
    this.zoom = zoom;
    this.store = store;
    this.box = byId("rates");
    this.legend = byId("legend");
    /** @type {Plot|null} */
    this.plot = null;
    /** @type {Picture|null} */
    this.picture = null;
    /** @type {ReturnType<typeof stacked>} */
    this.series = [];
    this.names = "";
    this.gutter = 0;
    /** What the legend was measured for, and how many of its names had no room.
     * @type {{key: string, cut: number}} */
    this.room = { key: "", cut: 0 };
  }

  /** @param {Picture} picture @param {"type"|"reason"} by @param {Scale} scale
   * @param {number} gutter Pixels left of the scale. */
  setPicture(picture, by, scale, gutter) {
    this.picture = picture;
    this.series = stacked(picture.rates);
    this.showLegend(by);
    const names = [gutter, ...this.series.map((series) => series.name)].join("\n");
    if (!this.plot || names !== this.names) {
      this.names = names;
      this.gutter = gutter;
      this.build(scale);
    }
    this.plot?.setData(this.data(), false);
    this.draw(scale);
  }

  /** Times, and each series from the highest sum to the lowest, which is drawn over it. */
  data() {
    const { start, step } = this.picture?.rates ?? { start: 0, step: 1 };
    const length = this.series[0]?.top.length ?? 0;
    const times = Array.from({ length }, (_, i) => start + i * step);
    return [times, ...this.series.map((series) => series.top).reverse()];
  }

  /** Makes the plot anew, for other series, colours or margins. @param {Scale} scale */
  build(scale) {
    this.plot?.destroy();
    const c = colours();
    const bars = uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 });
    const axis = { stroke: c.faint, font: `11px ${c.font}`, grid: { stroke: c.line, width: 1 },
      ticks: { show: false } };
    const narrow = this.gutter === 0;
    this.plot = new uPlot({
      width: this.gutter + scale.width,
      height: this.height(),
      ms: 1,
      padding: [6, 0, 5, 0],
      legend: { show: false },
      scales: {
        x: { time: false, auto: false, range: (_u, min, max) => [min, max] },
        y: { range: (u) => [0, Math.max(1, this.highest(u) * HEAD)] },
      },
      axes: [
        { show: false },
        { ...axis, show: !narrow, size: this.gutter, space: 24, gap: 4,
          values: (_u, values) => values.map((v) => (Number.isInteger(v) ? compact(v) : "")) },
      ],
      cursor: {
        y: false, points: { show: false },
        drag: { x: true, y: false, setScale: false },
      },
      series: [{}, ...[...this.series].reverse().map((series) => ({
        label: series.name, fill: seriesColour(series.name, series.index, c), width: 0,
        points: { show: false }, paths: bars,
      }))],
      hooks: { setSelect: [(u) => this.selected(u)] },
    }, this.data(), this.box);
  }

  /** The highest bar in view, the first one included, which begins before the scale. uPlot looks
   * only at what begins in it. @param {Plot} u */
  highest({ scales: { x } }) {
    const { start, step } = this.picture?.rates ?? { start: 0, step: 1 };
    const top = this.series[this.series.length - 1]?.top ?? [];
    const [from, to] = [x?.min ?? -Infinity, x?.max ?? Infinity];
    return Math.max(0, ...top.filter((_, i) =>
      start + (i + 1) * step > from && start + i * step < to));
  }

  /** The bar at a time, from its beginning to its end; null where there is none.
   * @param {number} at @returns {[number, number]|null} */
  bar(at) {
    const { start, step } = this.picture?.rates ?? { start: 0, step: 1 };
    const index = Math.floor((at - start) / step);
    const top = this.series[this.series.length - 1]?.top ?? [];
    return top[index] > 0 ? [start + index * step, start + (index + 1) * step] : null;
  }

  height() {
    return this.gutter === 0 ? LOW : HEIGHT;
  }

  /** @param {Plot} u */
  selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, "x");
    const to = u.posToVal(left + width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom(from, to);
  }

  /** @param {Scale} scale */
  draw(scale) {
    if (!this.plot) return;
    const width = Math.round(this.gutter + scale.width);
    if (this.plot.width !== width) this.plot.setSize({ width, height: this.height() });
    this.plot.setScale("x", { min: scale.from, max: scale.to });
  }

  /** Applies another theme. @param {Scale} scale */
  recolour(scale) {
    if (!this.picture) return;
    this.build(scale);
    this.plot?.setData(this.data(), false);
    this.draw(scale);
  }

  /** @param {"type"|"reason"} by */
  showLegend(by) {
    const c = colours();
    const { picture } = this;
    const { filters } = this.store.view;
    const left = without(filters, [by]);
    // The way back from "only this".
    const back = left.length < filters.length && el("button", { class: "key back",
      title: `Show every ${by} again`, onclick: () => this.store.setFilters(left) },
    `◂ All ${by}s`);
    fill(this.legend, back, ...this.series.map(({ name, index, total }) => {
      const swatch = el("i", { class: name === "Warning" ? "swatch diamond" : "swatch" });
      swatch.style.background = seriesColour(name, index, c);
      const often = picture && amount(picture, total);
      const text = [swatch, el("span", {}, name || "(none)"), el("em", {}, often)];
      return name === "other" || name === ""
        ? el("span", { class: "key" }, ...text)
        : el("span", { class: "series" },
          el("button", { class: "key",
            title: `Only ${name}; ${picture?.counted} in this range: ${often}`,
            onclick: () => this.store.addFilter(by, name) }, ...text),
          el("button", { class: "plain out", title: `Without ${name}`,
            "aria-label": `Without ${name}`,
            onclick: () => this.store.addFilter(by, name, true) }, "⊖"));
    }));
    this.showMore(by);
  }

  /** A button that unfolds the legend, if not all names have room. @param {"type"|"reason"} by */
  showMore(by) {
    const { legend } = this;
    const isOpen = legend.classList.contains("open");
    const key = `${this.gutter} ${legend.textContent}`;
    if (key !== this.room.key) {
      legend.classList.remove("open");
      const cut = [...legend.children].filter((one) => one instanceof HTMLElement
        && one.offsetTop + one.offsetHeight > legend.clientHeight + 2);
      this.room = { key, cut: cut.length };
    }
    legend.classList.toggle("open", isOpen && this.room.cut > 0);
    if (this.room.cut === 0) return;
    const turn = () => {
      legend.classList.toggle("open");
      this.showLegend(by);
      /** @type {HTMLElement|null} */ (legend.querySelector(".more"))?.focus();
    };
    append(legend, el("button", { class: "key more", "aria-expanded": String(isOpen),
      onclick: turn }, isOpen ? "▴ fewer" : `▾ ${this.room.cut} more`));
  }

  /** Describes the bar at a time. @param {number} at @param {boolean} utc */
  describe(at, utc) {
    const { picture } = this;
    if (!picture) return null;
    const { rates, counted: unit } = picture;
    const index = Math.floor((at - rates.start) / rates.step);
    const start = rates.start + index * rates.step;
    const lines = this.series.filter((series) => series.values[index] > 0)
      .map((series) => `${series.name || "(none)"}: ${amount(picture, series.values[index])}`);
    if (lines.length > 0 && rates.estimated) {
      lines.push(unit === "occurrences"
        ? "estimated: evenly between the first and the last time of each event"
        : `estimated: not all ${unit} were read`);
    }
    return { title: `${dateTime(start, utc)} + ${duration(rates.step)}`, lines };
  }
}

/** "12k". @param {number} n */
const compact = (n) => (n >= 1e6 ? `${n / 1e6}M` : n >= 1e4 ? `${n / 1e3}k` : String(n));
