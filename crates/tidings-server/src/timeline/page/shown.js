// What a lane or a mark stands for, as the panel shows it.

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").Lane} Lane */
/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Shown} Shown */

/** Whether a lane is of the beginning that the names of several pods share, and of no object: like
 * an object without a kind, it has none. @param {Lane} lane */
export const isStem = ({ kind, events }) => kind === "" && events === 0;

/** Whether a lane is of an object. @param {Lane} lane @param {string} cluster
 * @param {import("./types.js").ObjectRef} object */
export const isOf = (lane, cluster, { kind, namespace, name }) => lane.cluster === cluster
  && lane.kind === kind && lane.namespace === namespace && lane.name === name && !isStem(lane);

/** The key of a lane, in this view and the next. @param {Lane} lane */
export const laneKey = (lane) => [lane.cluster, isStem(lane) ? "*" : lane.kind, lane.namespace,
  lane.name, lane.uid ?? ""].join("\n");

/** Whether a row is a lane or one of its rows by reason. @param {string} key
 * @param {string} lane */
export const isIn = (key, lane) => key === lane || key.startsWith(`${lane}\n`);

/** @param {Lane} lane @returns {Extract<Shown, {is: "object"}>} */
export const shownLane = ({ cluster, kind, namespace, name }) =>
  ({ is: "object", cluster, kind, namespace, name });

/** What a mark stands for: one event, or several of its lane. Events are numbered anew in every
 * picture. @param {Mark} mark @param {Picture} picture @returns {Shown} */
export function shownMark(mark, picture) {
  const lane = picture.lanes[mark[0]];
  const event = picture.events[mark[7]];
  return event ? { is: "event", cluster: lane.cluster, ...event }
    : { ...shownLane(lane), span: spanOf(mark, picture) };
}

/** What a clock that is ahead dated later than now is drawn at now: a mark there has no end.
 * @param {Mark} mark @param {Picture} picture @returns {[number, number]} */
const spanOf = (mark, { now, to }) =>
  [mark[1], to > now && mark[2] >= to - 1 ? Infinity : mark[2]];

/** Whether a mark stands for what is shown. @param {Mark} mark @param {Picture} picture
 * @param {Shown|null} shown */
export function isShown(mark, picture, shown) {
  const lane = picture.lanes[mark[0]];
  if (!shown || shown.cluster !== lane.cluster) return false;
  if (shown.is === "event") {
    const event = picture.events[mark[7]];
    return event?.name === shown.name && event.namespace === shown.namespace;
  }
  return shown.span !== undefined && shown.name === lane.name && shown.kind === lane.kind
    && shown.namespace === lane.namespace && spanOf(mark, picture).join() === shown.span.join();
}
