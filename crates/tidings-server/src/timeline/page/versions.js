// The versions of one event: how often it repeated over time, as bars, and as a table.

import { el } from "./dom.js";
import { fit } from "./lanes.js";
import { paintAxis, toX } from "./paint.js";
import { canvasSurface } from "./surface.js";
import { colours } from "./theme.js";
import { counted, dateTime, duration, number } from "./time.js";

/** @typedef {import("./types.js").EventDetail} EventDetail */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Version} Version */

const HEIGHT = 64;
const ROWS = 50;

/** @param {EventDetail} detail @param {boolean} utc @param {number} width */
export function versionsView(detail, utc, width) {
  const { item } = detail;
  const versions = [...detail.versions].reverse(); // the oldest first, as time goes
  const shown = versions.slice(-ROWS).reverse();
  const left = versions.length - shown.length;
  const rows = shown.map((version, index) => {
    const before = versions[versions.length - 2 - index];
    return el("tr", {},
      el("td", { class: "time" }, dateTime(version.last, utc)),
      el("td", { class: "count" }, `×${number(version.count)}`),
      el("td", { class: "count" }, before ? `+${duration(version.last - before.last)}` : ""),
      el("td", { class: "message" }, version.message ?? ""));
  });
  const begun = unplaced(detail, versions);
  const said = [
    begun > 1 && `When the first ×${number(begun)} were is not known: they are not in the chart.`,
    left > 0 && `${counted(left, "older version")} not listed.`,
    detail.versionsMore && "The event has more versions than these.",
  ].filter(Boolean).join(" ");
  if (versions.length < 2) return [el("p", { class: "faint" }, "Only this one is known.")];
  return [
    chart(versions, begun, item, utc, width),
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

/** Bars of repeats by time: between two versions their count rose by so much.
 * @param {Version[]} versions @param {number} begun The count that they begin with.
 * @param {Item} item @param {boolean} utc @param {number} width */
function chart(versions, begun, item, utc, width) {
  const warning = item.type === "Warning";
  const c = colours();
  const canvas = el("canvas", { role: "img",
    "aria-label": "Repeats by time; the table below has the numbers" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  fit(canvas, context, width, HEIGHT);
  const s = canvasSurface(context, c.font);
  const from = Math.min(item.first, versions[0].last);
  const to = Math.max(versions[versions.length - 1].last, from + 1000);
  const edge = (to - from) * 0.02;
  const scale = { from: from - edge, to: to + edge, left: 0, width };
  const buckets = new Array(Math.min(80, Math.max(10, Math.floor(width / 6)))).fill(0);
  let count = begun;
  for (const version of versions) {
    const at = (version.last - scale.from) / (scale.to - scale.from);
    const index = Math.min(buckets.length - 1, Math.max(0, Math.floor(at * buckets.length)));
    buckets[index] += Math.max(version.count - count, version.count > count ? 1 : 0);
    count = Math.max(count, version.count);
  }
  const most = Math.max(...buckets, 1);
  const bar = width / buckets.length;
  const ground = HEIGHT - 18;
  buckets.forEach((value, index) => {
    const height = (value / most) * (ground - 14);
    if (value > 0) {
      s.rect(index * bar + 0.5, ground - Math.max(height, 1.5), bar - 1, Math.max(height, 1.5),
        warning ? c.warning : c.normal);
    }
  });
  s.line(0, ground + 0.5, width, ground + 0.5, c.strong);
  s.text(`at most ${number(most)} in ${duration((scale.to - scale.from) / buckets.length)}`,
    Math.max(0, Math.min(toX(from, scale), 4)), 7, c.faint);
  paintAxis(s, scale, HEIGHT - 8, c, utc);
  return canvas;
}
