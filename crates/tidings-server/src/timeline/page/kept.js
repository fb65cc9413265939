// What becomes of the lanes with another picture: those under a pointer stay where they are, those
// that do not fit are folded, and the keyboard stays at its mark.

/** @typedef {import("./lanes.js").Row} Row */
/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Picture} Picture */

/** The lanes in the order in which they were, by their numbers in the picture, new ones behind
 * their siblings. @param {Row[]} all
 * @param {Map<string, number>} before The places of the lanes by their keys. */
export function keptOrder(all, before) {
  /** @type {Map<number, number[]>} */
  const below = new Map();
  all.forEach(({ lane: { parent } }, index) => {
    const siblings = below.get(parent);
    if (siblings) siblings.push(index);
    else below.set(parent, [index]);
  });
  /** @type {number[]} */
  const order = [];
  const place = (/** @type {number} */ lane) => before.get(all[lane].key) ?? Infinity;
  const add = (/** @type {number} */ parent) => {
    const siblings = below.get(parent) ?? [];
    siblings.sort((a, b) => (place(a) === place(b) ? a - b : place(a) - place(b)));
    for (const lane of siblings) {
      order.push(lane);
      add(lane);
    }
  };
  add(-1);
  return order;
}

/** The lanes to fold so that the others fit: families are unfolded in their order, as long as there
 * is room. @param {Row[]} all Owners come first. @param {number} room In rows. */
export function foldsThatFit(all, room) {
  /** @type {Row[][]} */
  const families = [];
  for (const row of all) {
    if (row.lane.parent < 0) families.push([row]);
    else families[families.length - 1]?.push(row);
  }
  /** @type {Set<string>} */
  const folded = new Set();
  let rows = families.length;
  for (const family of families) {
    if (rows + family.length - 1 <= room) rows += family.length - 1;
    else for (const { key, parent } of family) if (parent) folded.add(key);
  }
  return folded;
}

/** Finds the mark of a picture that stands for what one of the picture before stood for.
 * @param {Mark} mark @param {Picture} before @param {Mark[]} marks Of the current lane.
 * @param {Picture} picture */
export function sameMark(mark, before, marks, { events, reasons }) {
  const event = before.events[mark[7]];
  const reason = before.reasons[mark[6]];
  return marks.find((one) => event && events[one[7]]?.name === event.name
      && events[one[7]].namespace === event.namespace)
    ?? marks.find((one) => reasons[one[6]] === reason && one[3] === mark[3]
      && one[1] <= mark[2] && one[2] >= mark[1]) ?? null;
}
