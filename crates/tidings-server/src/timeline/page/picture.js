// The picture as a file, SVG or PNG: drawn by the same code as on the screen, all lanes of the
// view, with the scale and the legend of the rates and the filters.

import { paintAxis, paintGaps, paintGrid, paintNow, toX, WIDE } from "./paint.js";
import { countsOf } from "./labels.js";
import { paintRow } from "./lanes.js";
import { marking } from "./marking.js";
import { amount, stacked } from "./rates.js";
import { canvasSurface, svgSurface } from "./surface.js";
import { colours, seriesColour } from "./theme.js";
import { dateTime, number, zoneName } from "./time.js";
import { shortKind } from "./kinds.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").View} View */
/** @typedef {import("./surface.js").Surface} Surface */
/** @typedef {{picture: Picture, rows: import("./lanes.js").Row[], view: View,
 *   range: [number, number], now: number}} Shown */

const WIDTH = 1400;
const LABELS = 320;
const RATES = 90;
const HEAD = 54;
const TOP = HEAD + RATES + 24;
/** Series of the legend in a column, and columns. */
const KEYS = 6;
const COLUMNS = 2;
/** Pixels of a PNG for each of the picture, and at most in its height. */
const SHARP = 2;
const HIGHEST = 16_000;

/** @param {Shown} shown */
export function pictureAsSvg(shown) {
  const { surface, text, clip } = svgSurface(WIDTH, heightOf(shown), colours().font);
  paintPicture(surface, clip, shown);
  return new Blob([text()], { type: "image/svg+xml" });
}

/** @param {Shown} shown @returns {Promise<Blob|null>} */
export function pictureAsPng(shown) {
  const height = heightOf(shown);
  const canvas = document.createElement("canvas");
  const ratio = Math.min(SHARP, HIGHEST / height);
  [canvas.width, canvas.height] = [Math.round(WIDTH * ratio), Math.round(height * ratio)];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(ratio, ratio);
  paintPicture(canvasSurface(context, colours().font), (x) => {
    context.beginPath();
    context.rect(x, 0, WIDTH - x, height);
    context.clip();
  }, shown);
  return new Promise((done) => {
    canvas.toBlob(done, "image/png");
  });
}

/** @param {Shown} shown */
const heightOf = ({ rows }) => TOP + rows.length * WIDE.height + 24;

/** @param {Surface} s @param {(x: number) => void} clip Draws what follows only right of x.
 * @param {Shown} shown */
function paintPicture(s, clip, shown) {
  const { picture, rows, view, range: [from, to], now } = shown;
  const c = colours();
  const height = heightOf(shown);
  const scale = { from, to, left: LABELS, width: WIDTH - LABELS - 12 };
  const about = picture.complete ? "" : "≈ ";
  s.rect(0, 0, WIDTH, height, c.page);
  s.text(`${dateTime(from, view.utc)} – ${dateTime(to, view.utc)} · ${zoneName(view.utc)}`
    + ` · ${about}${number(picture.total ?? picture.read)} events`,
  12, 18, c.ink, { size: 13, weight: 600 });
  s.text(view.filters.length > 0 ? `Filter: ${view.filters.join(" ")}` : "No filter", 12, 36,
    c.faint, { most: WIDTH - 24 });
  const series = stacked(picture.rates);
  const { start, step } = picture.rates;
  const most = Math.max(1, ...(series[series.length - 1]?.top ?? []));
  const shownKeys = series.slice(0, KEYS * COLUMNS);
  shownKeys.forEach(({ name, index, total }, at) => {
    const x = 12 + Math.floor(at / KEYS) * 140;
    const y = HEAD + 7 + (at % KEYS) * 15;
    s.rect(x, y - 4, 8, 8, seriesColour(name, index, c));
    s.text(`${name || "(none)"} ${amount(picture, total)}`, x + 13, y, c.faint,
      { size: 10, most: 120 });
  });
  for (const [value, y] of [[most, HEAD + 4], [0, HEAD + RATES - 4]]) {
    s.text(number(value), LABELS - 6, y, c.faint, { size: 10, align: "end" });
  }
  rows.forEach(({ lane, reason }, index) => {
    const y = TOP + index * WIDE.height + WIDE.middle;
    const x = 12 + Math.min(lane.depth + (reason ? 1 : 0), 6) * 14;
    const label = reason
      ?? [lane.kind && shortKind(lane.kind), lane.name].filter(Boolean).join("/");
    const isFaint = lane.gone || lane.events === 0;
    s.text(label, x, y, isFaint ? c.faint : c.ink, { most: LABELS - x - (about ? 104 : 90) });
    const { warnings, often } = countsOf(lane);
    const said = about + often;
    s.text(said, LABELS - 10, y, c.faint, { align: "end" });
    s.text(warnings && about + warnings, LABELS - 18 - 7 * Math.max(said.length, 4), y, c.warning,
      { align: "end" });
  });
  clip(LABELS);
  paintGrid(s, scale, HEAD, height - 16, c, view.utc);
  s.line(LABELS, HEAD + 0.5, WIDTH - 12, HEAD + 0.5, c.line);
  paintGaps(s, scale, picture.gaps, HEAD, height - 16, c);
  paintAxis(s, scale, TOP - 12, c, view.utc);
  const bar = (step / (to - from)) * scale.width;
  for (const { name, index, values, top: sums } of series) {
    const fill = seriesColour(name, index, c);
    values.forEach((value, i) => {
      if (value === 0) return;
      const unit = RATES / most;
      s.rect(toX(start + i * step, scale), HEAD + RATES - sums[i] * unit, Math.max(0.5, bar - 1),
        value * unit, fill);
    });
  }
  const is = marking(picture, view.by);
  rows.forEach((row, index) => {
    paintRow(s, scale, row, TOP + index * WIDE.height + WIDE.middle, picture, view.shown, c, is);
  });
  paintNow(s, scale, now, HEAD, height - 16, c);
}
