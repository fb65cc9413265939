// What to do where there is no event.

import { byId, el, fill } from "./dom.js";
import { notFollowed } from "./summary.js";
import { dateTime, HOUR, shortTime } from "./time.js";

/** @typedef {import("./types.js").Picture} Picture */

/** Advice if there are no events. @param {Picture} p @param {import("./view.js").Store} store
 * @param {import("./known.js").Known} known
 * @param {{all: () => void, isShown: (p: Picture) => boolean}} on */
export function tellEmpty(p, store, known, on) {
  const box = byId("empty");
  const empty = p.lanes.length === 0;
  box.hidden = !empty;
  if (!empty) return;
  const { clusters: before } = known;
  void known.renew().then(() => {
    if (known.clusters !== before && on.isShown(p)) tellEmpty(p, store, known, on);
  });
  const { view } = store;
  const newest = known.newest();
  const filtered = view.filters.length > 0;
  const [from, to] = store.range();
  const where = `between ${dateTime(from, view.utc)} and ${shortTime(to, view.utc, from)}`;
  fill(box,
    el("p", {}, view.skip > 0 ? "No more objects." : filtered
      ? `No event ${where} matches the filters.`
      : newest === 0 ? `No events yet.${notFollowed(p).text ? ""
        : " They appear here as they happen."}`
        : `No events ${where}.`),
    el("div", { class: "actions" },
      filtered && el("button", { type: "button",
        onclick: () => store.setFilters([]) }, "Clear the filters"),
      newest > 0 && (newest < from || newest > to) && el("button", { type: "button",
        onclick: () => store.setRange(newest - HOUR, newest + HOUR / 30, true) },
      `Go to the newest, ${dateTime(newest, view.utc)}`),
      newest > 0 && el("button", { type: "button", onclick: on.all }, "Show all there is")));
}
