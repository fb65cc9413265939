// Describes what a picture contains and omits.

import { counted, dateTime, number } from "./time.js";

/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").Picture} Picture */

/** Maximum clusters in a notice, and of letters of their problem. */
const MOST_TOLD = 3;
const MOST_LETTERS = 300;
/** Maximum clusters whose counts are shown. */
const MOST_KEPT = 20;
/** @type {[string, number][]} */
const UNITS = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

/** The clusters that are not followed now, so that their new events do not appear.
 * @param {Picture|null} picture */
export function notFollowed(picture) {
  const all = picture?.following ?? [];
  const lost = all.filter((one) => !one.live);
  if (lost.length === 0) return { label: "", text: "" };
  const told = lost.slice(0, MOST_TOLD).map(({ cluster, state, why }) => {
    const reason = why ? `: ${why.slice(0, MOST_LETTERS)}` : state ? ` (${state})` : "";
    return `${cluster || "The cluster"} is not followed now${reason}`;
  });
  const left = lost.length - told.length;
  return {
    label: lost.length === all.length ? "Not followed"
      : `${number(lost.length)} of ${number(all.length)} not followed`,
    text: [...told, left > 0 && `${counted(left, "other cluster")} not, either`]
      .filter(Boolean).join(". "),
  };
}

/** @type {Record<import("./types.js").View["sort"], string>} */
const ORDERS = { trouble: "most trouble first", first: "by first seen", latest: "last seen first",
  name: "by name" };

/** What is not drawn comes first, since what is at the end may have no room.
 * @param {Picture} picture @param {number} skip @param {number|null} known Events that there are at
 *   any time, if more than are in the range. @param {import("./types.js").View["sort"]} sort */
export function summary({ lanes, more, read, total, complete, gaps }, skip, known, sort) {
  const all = more.next + more.lanes;
  const objects = skip > 0 || more.lanes > 0
    ? `Objects ${number(skip + 1)}–${number(more.next)} of ${number(all)}, ${ORDERS[sort]}`
    : counted(all, "object");
  return [
    more.events > 0 && `${counted(more.events, "event")} not drawn: zoom in`,
    lanes.length > 0 && objects,
    complete || total === null || total <= read ? counted(read, "event")
      : `${number(read)} of ≈ ${number(total)} events`,
    known !== null && `${number(known)} in all`,
    gaps.length > 0 && `${counted(gaps.length, "gap")} of coverage`,
  ].filter(Boolean).join(" · ");
}

/** What is kept of the clusters in view, in a few words, and a line for each.
 * @param {Picture} picture @param {boolean} utc */
export function keptOf({ following }, utc) {
  /** @type {Kept} */
  const sum = { events: 0, versions: 0, bytes: 0, since: null };
  /** @type {string[]} */
  const lines = [];
  for (const { cluster, kept } of following ?? []) {
    if (!kept) continue;
    lines.push(`${cluster}: ${keptWords(kept, utc)}`);
    sum.events = sum.events === null || kept.events === null ? null : sum.events + kept.events;
    sum.versions += kept.versions;
    sum.bytes += kept.bytes;
    sum.since = lines.length === 1 ? kept.since : null;
  }
  const owners = lines.length > 1 ? ` of ${number(lines.length)} clusters` : "";
  return {
    text: lines.length > 0 ? `Kept${owners}: ${keptWords(sum, utc)}` : "",
    lines: lines.slice(0, MOST_KEPT),
  };
}

/** A sealed archive counts the versions it has; others, those they observed.
 * @param {Kept} kept @param {boolean} utc */
function keptWords({ events, versions, bytes, since }, utc) {
  return [
    events !== null && counted(events, "event"),
    counted(versions, "version") + (events === null ? "" : " observed so far"),
    size(bytes),
    since !== null && `followed since ${dateTime(since, utc)}`,
  ].filter(Boolean).join(", ");
}

/** "59 MB". @param {number} bytes */
function size(bytes) {
  for (const [unit, length] of UNITS) {
    if (bytes >= 10 * length) return `${number(Math.floor(bytes / length))} ${unit}`;
  }
  return `${number(bytes)} B`;
}
