// What a picture holds and what it leaves out, in words.

import { counted, number } from "./time.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").Mark} Mark */

/** Clusters, and letters of why they are not followed, that are told. */
const MOST_TOLD = 3;
const MOST_LETTERS = 300;

/** Which clusters are not followed now, so that what happens there does not appear: nothing, if all
 * are. @param {Picture|null} picture */
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

/** What is not drawn comes first, since what is at the end may have no room.
 * @param {Picture} picture @param {number} skip @param {number|null} known Events that there are,
 *   if more than are in the range. */
export function summary({ lanes, more, read, gaps }, skip, known) {
  const all = more.next + more.lanes;
  const objects = skip > 0 || more.lanes > 0
    ? `Objects ${number(skip + 1)}–${number(more.next)} of ${number(all)}, most warnings first`
    : counted(all, "object");
  return [
    more.events > 0 && `${counted(more.events, "event")} not drawn: zoom in`,
    lanes.length > 0 && objects,
    known === null ? counted(read, "event") : `${number(read)} of ${number(known)} events`,
    gaps.length > 0 && `${counted(gaps.length, "gap")} of coverage`,
  ].filter(Boolean).join(" · ");
}

/** What went wrong first, of what is drawn. @param {Picture} picture @param {number} from */
export function earliestWarning({ marks }, from) {
  /** @type {Mark|null} */
  let earliest = null;
  for (const mark of marks) {
    if (mark[3] && mark[1] >= from && (!earliest || mark[1] < earliest[1])) earliest = mark;
  }
  return earliest;
}
