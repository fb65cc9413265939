// The picture as an SVG file: drawn by the same code as on the screen, all lanes of the view.

import { paintAxis, paintGaps, paintGrid, paintNow, toX, WIDE } from "./paint.js";
import { countsOf } from "./labels.js";
import { paintRow } from "./lanes.js";
import { marking } from "./marking.js";
import { stacked } from "./rates.js";
import { svgSurface } from "./surface.js";
import { colours, seriesColour } from "./theme.js";
import { dateTime, number, zoneName } from "./time.js";
import { shortKind } from "./kinds.js";
import { visible } from "./dom.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").View} View */

const WIDTH = 1400;
const LABELS = 320;
const RATES = 90;
const HEAD = 36;

/** @param {Picture} picture @param {import("./lanes.js").Row[]} rows @param {View} view
 * @param {[number, number]} range @param {number} now */
export function pictureAsSvg(picture, rows, view, [from, to], now) {
  const c = colours();
  const top = HEAD + RATES + 24;
  const height = top + rows.length * WIDE.height + 24;
  const { surface: s, text, clip } = svgSurface(WIDTH, height, c.font);
  const scale = { from, to, left: LABELS, width: WIDTH - LABELS - 12 };
  s.rect(0, 0, WIDTH, height, c.page);
  s.text(`${dateTime(from, view.utc)} – ${dateTime(to, view.utc)} · ${zoneName(view.utc)}`
    + ` · ${picture.complete ? "" : "≈ "}${number(picture.total ?? picture.read)} events`,
  12, 18, c.ink, { size: 13, weight: 600 });
  rows.forEach(({ lane }, index) => {
    const y = top + index * WIDE.height + WIDE.middle;
    const x = 12 + Math.min(lane.depth, 6) * 14;
    const label = `${shortKind(lane.kind)}/${lane.name}`;
    s.text(visible(label), x, y, lane.gone ? c.faint : c.ink, { most: LABELS - x - 80 });
    const { warnings, often } = countsOf(lane);
    s.text(often, LABELS - 10, y, c.faint, { align: "end" });
    s.text(warnings, LABELS - 18 - 7 * Math.max(often.length, 4), y, c.warning, { align: "end" });
  });
  clip(LABELS);
  paintGrid(s, scale, HEAD, height - 16, c, view.utc);
  paintGaps(s, scale, picture.gaps, HEAD, height - 16, c);
  paintAxis(s, scale, top - 12, c, view.utc);
  const series = stacked(picture.rates);
  const { start, step } = picture.rates;
  const most = Math.max(1, ...(series[series.length - 1]?.top ?? []));
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
    paintRow(s, scale, row, top + index * WIDE.height + WIDE.middle, picture, view.shown, c, is);
  });
  paintNow(s, scale, now, HEAD, height - 16, c);
  return text();
}
