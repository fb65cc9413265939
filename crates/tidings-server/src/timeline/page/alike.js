// Events that say the same of several objects, as one row of the list.

/** @typedef {import("./types.js").Item} Item */

/** A word with a digit: a number, a hash, an address, a generated name. */
const VARIES = /[^\s"'`(),;=[\]]*\d[^\s"'`(),;=[\]]*/g;

/** What alike events have in common. @param {Item} item */
export function pattern({ type, reason, object, message }) {
  const text = object.name ? message.replaceAll(object.name, "#") : message;
  return [type, reason, object.kind, text.replace(VARIES, "#")].join("\n");
}

/** @typedef {{key: string, sum: Item, others: Item[]}} Alike `sum` is the first event, with the
 *   times and the count of all of them. */

/** Puts alike events together, in the order of the first of each.
 * @param {Item[]} items @returns {Alike[]} */
export function alike(items) {
  /** @type {Map<string, Alike>} */
  const found = new Map();
  for (const item of items) {
    const key = pattern(item);
    const of = found.get(key);
    if (!of) found.set(key, { key, sum: { ...item }, others: [] });
    else {
      of.others.push(item);
      of.sum.first = Math.min(of.sum.first, item.first);
      of.sum.last = Math.max(of.sum.last, item.last);
      of.sum.count += item.count;
    }
  }
  return [...found.values()];
}
