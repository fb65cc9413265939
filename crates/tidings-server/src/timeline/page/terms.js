// Terms of a filter: `KEY:VALUE` or a text, with a minus before it what is left out. The server
// reads them; here they are only written, and shown with their parts.

/** @typedef {import("./types.js").FilterKey} FilterKey */

/** @type {FilterKey[]} */
export const FILTER_KEYS = ["reason", "type", "kind", "object", "namespace", "host", "source",
  "cluster", "text"];

/** Other words for keys. @type {Record<string, FilterKey>} */
const ALIASES = { ns: "namespace", name: "object", node: "host" };

/** The key that a word names, if it does. @param {string} word */
export function keyOf(word) {
  const lower = word.toLowerCase();
  return FILTER_KEYS.find((one) => one === (ALIASES[lower] ?? lower));
}

/** What has to be in quotes; in a text, also what would make it another term. */
const SPECIAL = /[\p{White_Space}"*]|^$/u;
const SPECIAL_IN_TEXT = /[\p{White_Space}"*:]|^-|^$/u;

/** The term of a value, none of whose characters has a meaning.
 * @param {FilterKey} key @param {string} value @param {boolean} [excluded] */
export function term(key, value, excluded = false) {
  const isText = key === "text";
  const written = (isText ? SPECIAL_IN_TEXT : SPECIAL).test(value)
    ? `"${value.replace(/[\\"]/g, "\\$&")}"` : value;
  return `${excluded ? "-" : ""}${isText ? "" : `${key}:`}${written}`;
}

/** The parts of a term: whether it excludes, its key, and its value as it is written.
 * @param {string} text @returns {{excluded: boolean, key: FilterKey, value: string}} */
export function parts(text) {
  const excluded = text.startsWith("-") && text.length > 1;
  const rest = excluded ? text.slice(1) : text;
  const colon = rest.indexOf(":");
  const key = keyOf(rest.slice(0, Math.max(colon, 0)));
  return { excluded, key: key ?? "text", value: key ? rest.slice(colon + 1) : rest };
}

/** The only value of a key, if the terms name one and nothing else of that key; "" otherwise.
 * @param {string[]} terms @param {FilterKey} key */
export function only(terms, key) {
  const [first, ...others] = terms.map(parts).filter((one) => one.key === key);
  return first && others.length === 0 && !first.excluded && !/["*]/.test(first.value)
    ? first.value : "";
}

/** The terms without those of some keys.
 * @param {string[]} terms @param {FilterKey[]} keys */
export const without = (terms, keys) => terms.filter((one) => !keys.includes(parts(one).key));

/** The terms that only an object has, with the others that say nothing about objects.
 * @param {string[]} terms
 * @param {{cluster: string, kind: string, namespace: string, name: string}} object */
export function ofObject(terms, { cluster, kind, namespace, name }) {
  return [...without(terms, ["cluster", "kind", "namespace", "object"]),
    ...(cluster ? [term("cluster", cluster)] : []),
    ...(namespace ? [term("namespace", namespace)] : []),
    term("object", `${kind}/${name}`)];
}
