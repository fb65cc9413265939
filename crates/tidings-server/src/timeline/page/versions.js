// The versions of one event: how often it repeated over time, as bars, and as a table. The bars are
// of all versions; of more than come with an event, the server has counted them.

import { el } from "./dom.js";
import { fit } from "./surface.js";
import { paintAxis } from "./paint.js";
import { canvasSurface } from "./surface.js";
import { colours } from "./theme.js";
import { counted, dateTime, duration, number } from "./time.js";

/** @typedef {import("./types.js").EventDetail} EventDetail */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Repeats} Repeats */
/** @typedef {import("./types.js").Version} Version */

/**
 * Repeats in steps of equal length.
 * @typedef {{from: number, to: number, values: number[]}} Steps
 */

const HEIGHT = 64;
const ROWS = 50;

/** @param {EventDetail} detail @param {boolean} utc @param {number} width */
export function versionsView(detail, utc, width) {
  const { item, repeats } = detail;
  const versions = [...detail.versions].reverse(); // the oldest first, as time goes
  const shown = versions.slice(-ROWS).reverse();
  const left = (repeats?.versions ?? versions.length) - shown.length;
  const rows = shown.map((version, index) => {
    const before = versions[versions.length - 2 - index];
    return el("tr", {},
      el("td", { class: "time" }, dateTime(version.last, utc)),
      el("td", { class: "count" }, `×${number(version.count)}`),
      el("td", { class: "count" }, before ? `+${duration(version.last - before.last)}` : ""),
      el("td", { class: "message" }, version.message ?? ""));
  });
  const begun = repeats?.begun ?? unplaced(detail, versions);
  const said = [
    begun > 1
      && `It is not known when the first ${number(begun)} happened: they are not in the chart.`,
    left > 0 && `${counted(left, "older version")} not listed.`,
    (repeats?.more ?? detail.versionsMore) && "There are more versions, older than all of these.",
  ].filter(Boolean).join(" ");
  if (left + shown.length < 2) {
    return [el("p", { class: "faint" }, "Only the newest version is known.")];
  }
  const most = Math.min(80, Math.max(10, Math.floor(width / 4)));
  const steps = repeats ? joined(repeats, most) : counts(versions, begun, item, most);
  return [
    chart(steps, item.type === "Warning", utc, width),
    el("table", { class: "small" },
      el("thead", {}, el("tr", {}, ...["Last seen", "Count", "After", "Message, if it changed"]
        .map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows)),
    said ? el("p", { class: "faint" }, said) : null,
  ];
}

/** The count of the oldest version, if it did not begin there: as one bar it would be higher than
 * all that is known. @param {EventDetail} detail @param {Version[]} versions The oldest first. */
function unplaced({ item, versionsMore }, [oldest]) {
  return oldest && (versionsMore || oldest.last > item.first) ? oldest.count : 0;
}

/** The increase of the count between two versions.
 * @param {Version[]} versions @param {number} begun The count that they begin with.
 * @param {Item} item @param {number} steps @returns {Steps} */
function counts(versions, begun, item, steps) {
  const first = Math.min(item.first, versions[0].last);
  const last = Math.max(versions[versions.length - 1].last, first + 1000);
  const edge = (last - first) * 0.02;
  const [from, to] = [first - edge, last + edge];
  const values = new Array(steps).fill(0);
  let count = begun;
  for (const version of versions) {
    const at = (version.last - from) / (to - from);
    const index = Math.min(steps - 1, Math.max(0, Math.floor(at * steps)));
    values[index] += Math.max(version.count - count, 0);
    count = Math.max(count, version.count);
  }
  return { from, to, values };
}

/** The same number of bins in each step, so that a steady rate is level.
 * @param {Repeats} repeats @param {number} most @returns {Steps} */
function joined({ from, to, bins }, most) {
  const size = Math.ceil(bins.length / most);
  const values = new Array(Math.ceil(bins.length / size)).fill(0);
  bins.forEach((value, index) => {
    values[Math.floor(index / size)] += value;
  });
  return { from, to: from + ((to - from) / bins.length) * size * values.length, values };
}

/** Bars of repeats by time.
 * @param {Steps} steps @param {boolean} warning @param {boolean} utc @param {number} width */
function chart({ from, to, values }, warning, utc, width) {
  const c = colours();
  const canvas = el("canvas", { role: "img",
    "aria-label": "Repeats by time; the table below has the numbers" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  fit(canvas, context, width, HEIGHT);
  const s = canvasSurface(context, c.font);
  const most = Math.max(...values, 1);
  const bar = width / values.length;
  const ground = HEIGHT - 18;
  values.forEach((value, index) => {
    const height = (value / most) * (ground - 14);
    if (value > 0) {
      s.rect(index * bar + 0.5, ground - Math.max(height, 1.5), bar - 1, Math.max(height, 1.5),
        warning ? c.warning : c.normal);
    }
  });
  s.line(0, ground + 0.5, width, ground + 0.5, c.strong);
  s.text(`at most ${number(most)} in ${duration((to - from) / values.length)}`, 4, 7, c.faint);
  paintAxis(s, { from, to, left: 0, width }, HEIGHT - 8, c, utc);
  return canvas;
}
