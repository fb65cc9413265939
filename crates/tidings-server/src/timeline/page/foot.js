// Below the lanes: the first warnings of the range, and what the picture holds and leaves out.

import { byId, el, fill } from "./dom.js";
import { shortObject } from "./kinds.js";
import { notify } from "./notices.js";
import { keptOf, notFollowed, summary } from "./summary.js";
import { dateTime, dayTime, number, shortTime } from "./time.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").FirstWarning} FirstWarning */
/** @typedef {import("./known.js").Known} Known */
/** @typedef {import("./view.js").Store} Store */

/** Lanes of one answer. */
const LANES = 300;

export class Foot {
  /** @param {Store} store @param {Known} known
   * @param {{all: () => void, first: (first: FirstWarning) => void}} on */
  constructor(store, known, on) {
    this.store = store;
    this.known = known;
    this.on = on;
  }

  /** Nothing is left out of a picture without a word. @param {Picture} p */
  show(p) {
    const { store, known } = this;
    // Nothing is asked while the range stands still, so that it would become wrong.
    const lost = store.view.last === null ? "" : notFollowed(p).text;
    notify("following", lost ? { bad: true, text: lost } : null);
    notify("unasked", unchecked(p.unasked) || null);
    notify("incomplete", p.complete ? null : { text: incomplete(p) });
    const { skip, filters } = store.view;
    const all = known.events();
    const beyond = p.complete && all > p.read && filters.length === 0;
    const kept = keptOf(p, store.view.utc);
    const begins = p.from <= known.extent()[0] && !known.isExact();
    const text = [summary(p, skip, beyond ? all : null, store.view.sort),
      begins && "≈ events may have begun before", kept.text].filter(Boolean).join(" · ");
    const turn = (/** @type {number} */ to) => () =>
      store.set({ skip: Math.max(0, to) }, true);
    fill(byId("lanes-foot"), el("span", { title: [text, ...kept.lines].join("\n") }, text),
      skip > 0 && el("button", { type: "button", onclick: turn(skip - LANES) },
        "Previous objects"),
      p.more.lanes > 0 && el("button", { type: "button", onclick: turn(p.more.next) },
        `Next ${number(Math.min(p.more.lanes, LANES))} objects`),
      beyond && el("button", { type: "button", onclick: this.on.all }, "Show all"));
    this.firsts(p);
  }

  /** The first warning of each of a few reasons, as buttons that open them. @param {Picture} p */
  firsts(p) {
    const { exact, warnings } = p.firsts;
    const box = byId("firsts");
    box.hidden = warnings.length === 0;
    const title = exact ? "The first warning of each reason, by when it began"
      : "Not all warnings of the range could be read: these are the first of those that were";
    fill(box, el("span", { title }, `${exact ? "" : "≈ "}First warnings`),
      ...warnings.map((first) => {
        const when = began(p, first.first, this.store.view.utc);
        return el("button", { type: "button", title: `${title}\n${first.kind} ${first.object}, `
          + `since ${dateTime(first.first, this.store.view.utc)}`,
        onclick: () => this.on.first(first) },
        el("b", {}, when), el("span", {}, ` ${first.reason || "(no reason)"}`),
        el("span", {}, ` of ${shortObject({ kind: first.kind, name: first.object })}`));
      }));
  }
}

/** What is said of clusters that could not be asked what this user may see.
 * @param {Picture["unasked"]} unasked */
function unchecked({ clusters, others }) {
  const names = clusters.join(", ");
  const more = others === 1 ? "1 more cluster" : `${number(others)} more clusters`;
  const of = [names, others > 0 && more].filter(Boolean).join(" and ");
  return of && { bad: true,
    text: `It could not be checked what you may see of ${of}: perhaps not all is shown.` };
}

/** @param {Picture} p */
function incomplete({ read, total }) {
  const narrow = "Narrow the range or filter to see the rest.";
  if (total === null) {
    return `${number(read)} events read; not all of the range was searched. ${narrow}`;
  }
  return total > read
    ? `${number(read)} of about ${number(total)} events read, evenly from all of the range. ${
      narrow}`
    : `${number(read)} events read, perhaps not all of the range.`;
}

/** When something began: with its day if the range has several, or if it began before.
 * @param {Picture} p @param {number} at @param {boolean} utc */
function began({ from, to }, at, utc) {
  if (at < from) return `already since ${dayTime(at, utc, from)}`;
  const isOneDay = dateTime(from, utc).slice(0, 10) === dateTime(to - 1, utc).slice(0, 10);
  return isOneDay ? shortTime(at, utc, at) : dayTime(at, utc, from);
}
