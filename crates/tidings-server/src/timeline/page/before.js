// What changed before an event, as rows of the panel: one for each object, the likeliest cause
// first. Each row has a number, which is also at its place in the picture.

import { el } from "./dom.js";
import { shortObject } from "./kinds.js";
import { counted, dateTime, number, shortTime } from "./time.js";

/** @typedef {import("./types.js").EventDetail} EventDetail */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Neighbour} Neighbour */
/** @typedef {import("./pins.js").Pin} Pin */

/** Maximum rows with a number: more would cover the picture. */
const PINS = 9;
/** Objects with the same reason that are named. */
const NAMED = 5;

/** The places in the picture of the rows that have a number. @param {EventDetail} detail
 * @returns {Pin[]} */
export const pinsOf = ({ before }) => before.filter(({ birth }) => !birth).slice(0, PINS)
  .map(({ item, at }, index) => ({ number: index + 1, cluster: item.cluster, object: item.object,
    at }));

/**
 * @param {EventDetail} detail
 * @param {{utc: boolean, day: number, open: (item: Item) => void,
 *   over: (pin: number|null) => void}} on `over` is called for a row under the pointer or with the
 *   focus.
 */
export function beforeView({ before, same, item: { object } }, on) {
  const rows = before.filter(({ birth }) => !birth);
  const births = before.filter(({ birth }) => birth);
  const others = `${counted(same.objects, `other ${object.kind.toLowerCase() || "object"}`)}`;
  return el("section", {}, el("h3", {}, "What changed before this"),
    same.objects > 0 && el("p", { class: "same" },
      `The same on ${same.more ? "at least " : ""}${others}: `,
      ...same.items.slice(0, NAMED).flatMap((item, index) => [index > 0 && ", ",
        el("button", { type: "button", class: "plain", onclick: () => on.open(item) },
          item.object.name)]),
      same.objects > same.items.length && " …"),
    rows.length === 0
      ? el("p", { class: "faint" }, "Nothing near it in time or in its family.")
      : el("ol", { class: "items pinned" }, ...rows.map((one, index) =>
        entry(one, index < PINS ? index + 1 : 0, on))),
    births.length > 0 && el("details", {},
      el("summary", {}, "Its own birth"),
      el("ol", { class: "items" }, ...births.map((one) => entry(one, 0, on)))));
}

/** @param {Neighbour} row @param {number} pin 0 for none
 * @param {Parameters<typeof beforeView>[1]} on */
function entry({ item, why, reasons }, pin, on) {
  const over = (/** @type {number|null} */ is) => () => pin > 0 && on.over(is);
  const [best] = reasons;
  const time = (/** @type {number} */ at) => shortTime(at, on.utc, on.day);
  const when = best.last - best.first >= 1000
    ? `${time(best.first)} → ${shortTime(best.last, on.utc, best.first)}` : time(best.first);
  return el("li", { class: item.type === "Warning" ? "warning" : "", onpointerenter: over(pin),
    onpointerleave: over(null), onfocusin: over(pin), onfocusout: over(null) },
  el("button", { type: "button", class: "plain", onclick: () => on.open(item) },
    pin > 0 && el("span", { class: "pin" }, pin),
    el("b", {}, shortObject(item.object)),
    ...reasons.map(({ reason, warning, count }) => el("span",
      { class: warning ? "reason" : "faint" }, `${warning ? "◆ " : ""}${reason || "(no reason)"}`,
      count > 1 && ` ×${number(count)}`))),
  el("div", { class: "why" }, why),
  el("div", { class: "faint", title: `${dateTime(best.first, on.utc)} – ${
    dateTime(best.last, on.utc)}` }, when),
  el("div", { class: "message" }, item.message));
}
