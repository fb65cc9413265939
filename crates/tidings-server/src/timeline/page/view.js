// The state of the view, and its form in the address. A link opens the same view; anything in the
// address that is not understood is left out.

import { parameters } from "./api.js";
import { FILTER_KEYS, term } from "./terms.js";
import { lengthText, parseLength, parseTime, SECOND, DAY, HOUR } from "./time.js";

/** @typedef {import("./types.js").View} View */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").FilterKey} FilterKey */

export const SHORTEST = SECOND;
export const LONGEST = 3650 * DAY;
/** @type {import("./types.js").Below[]} */
const BELOW = ["events", "reason", "object", "namespace", "node", "source"];
/** The server refuses more. */
const MOST_TERMS = 64;

/** The view of an address, and whether it names a range.
 * @param {string} search @returns {{view: View, ranged: boolean}} */
export function readAddress(search) {
  const params = new URLSearchParams(search);
  // Older links have a parameter for each key.
  const filters = [...params.getAll("filter"), ...FILTER_KEYS.flatMap((key) =>
    params.getAll(key).filter(Boolean).map((value) => term(key, value)))].filter(Boolean);
  const last = parseLength(params.get("last") ?? "");
  const from = parseTime(params.get("from") ?? "", true);
  const to = parseTime(params.get("to") ?? "", true);
  const fixed = from !== null && to !== null && to > from;
  return {
    view: {
      last: last && !fixed ? Math.min(last, LONGEST) : fixed ? null : HOUR,
      from: fixed ? from : 0,
      to: fixed ? to : 0,
      by: params.get("by") === "reason" ? "reason" : "type",
      count: one(params.get("count"), ["occurrences", "events"]),
      sort: one(params.get("sort"), ["trouble", "first", "latest", "name"]),
      group: one(params.get("group"), ["owner", "namespace", "node"]),
      filters: [...new Set(filters)].slice(0, MOST_TERMS),
      shown: readShown(params.get("show") ?? ""),
      below: BELOW.find((one) => one === params.get("below")) ?? null,
      against: params.get("against") === "before",
      utc: params.get("zone") === "utc",
      skip: Math.max(0, Math.floor(Number(params.get("skip")) || 0)),
    },
    ranged: last !== null || fixed,
  };
}

/** A value that is known, or the first one. @template {string} T
 * @param {string|null} value @param {[T, ...T[]]} known @returns {T} */
const one = (value, known) => known.find((it) => it === value) ?? known[0];

/** The address of a view, from the question mark. @param {View} view */
export function writeAddress(view) {
  /** @type {[string, string][]} */
  const pairs = [];
  if (view.last !== null) pairs.push(["last", lengthText(view.last)]);
  else pairs.push(["from", instant(view.from)], ["to", instant(view.to)]);
  if (view.by !== "type") pairs.push(["by", view.by]);
  if (view.count !== "occurrences") pairs.push(["count", view.count]);
  if (view.sort !== "trouble") pairs.push(["sort", view.sort]);
  if (view.group !== "owner") pairs.push(["group", view.group]);
  for (const one of view.filters) pairs.push(["filter", one]);
  if (view.skip > 0) pairs.push(["skip", String(view.skip)]);
  if (view.shown) pairs.push(["show", writeShown(view.shown)]);
  if (view.below) pairs.push(["below", view.below]);
  if (view.against) pairs.push(["against", "before"]);
  if (view.utc) pairs.push(["zone", "utc"]);
  // Colons and slashes may stand in a query as they are, and are easier to read so.
  const text = pairs.map(([key, value]) =>
    `${key}=${encodeURIComponent(value).replaceAll("%3A", ":").replaceAll("%2F", "/")}`);
  return `?${text.join("&")}`;
}

/** @param {number} ms */
const instant = (ms) => new Date(Math.round(ms)).toISOString().replace(".000Z", "Z");

/** "object:CLUSTER/KIND/NAMESPACE/NAME", with "/FROM/TO" for a part of its events, or
 * "event:CLUSTER/NAMESPACE/NAME". @param {Shown} shown */
function writeShown(shown) {
  const parts = shown.is === "object"
    ? [shown.cluster, shown.kind, shown.namespace, shown.name, ...(shown.span ?? []).map(String)]
    : [shown.cluster, shown.namespace, shown.name];
  return `${shown.is}:${parts.map(encodeURIComponent).join("/")}`;
}

/** @param {string} text @returns {Shown|null} */
function readShown(text) {
  const colon = text.indexOf(":");
  let parts;
  try {
    parts = text.slice(colon + 1).split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
  const is = text.slice(0, Math.max(colon, 0));
  if (is === "object" && (parts.length === 4 || parts.length === 6)) {
    const [cluster, kind, namespace, name] = parts;
    const [from, to] = [Number(parts[4]), Number(parts[5])];
    return { is, cluster, kind, namespace, name, ...(from <= to && { span: [from, to] }) };
  }
  if (is === "event" && parts.length === 3) {
    const [cluster, namespace, name] = parts;
    return { is, cluster, namespace, name };
  }
  return null;
}

/**
 * Holds the view, tells listeners of changes, and keeps the address. A step that a reader may want
 * to take back is an entry of the history; a pan or zoom only replaces the present one.
 */
export class Store {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    /** Milliseconds that the server's clock is ahead of ours. */
    this.ahead = 0;
    /** If `still`, the loaded data is that of the view.
     * @type {((view: View, before: View, still: boolean) => void)[]} */
    this.listeners = [];
    this.timer = 0;
    addEventListener("popstate", () => this.apply(readAddress(location.search).view));
  }

  now() {
    return Date.now() + this.ahead;
  }

  /** The range in view. @returns {[number, number]} */
  range() {
    const { last, from, to } = this.view;
    if (last === null) return [from, to];
    const end = this.now() + last * 0.02; // so that new events are not at the very edge
    return [end - last * 1.02, end];
  }

  /** The range to ask the server for. A moving one has no end: what a clock that is ahead dated
   * later happens now. @returns {{from: number, to?: number}} */
  asked() {
    const [from, to] = this.range();
    return { from: Math.floor(from), ...(this.view.last === null && { to: Math.ceil(to) }) };
  }

  /** The parameters of the view's picture. */
  params() {
    const { by, count, skip, sort, group, filters } = this.view;
    return parameters({ ...this.asked(), by, count, skip, sort, group }, filters);
  }

  /** @param {Partial<View>} patch @param {boolean} [step] A step of its own in the history. */
  set(patch, step = false) {
    if (step && this.timer) this.replace(); // the end of a pan, before the step
    this.apply({ ...this.view, ...patch });
    if (step) history.pushState(null, "", writeAddress(this.view));
    else if (!this.timer) this.timer = window.setTimeout(() => this.replace(), 250);
  }

  /** Writes the address now. Browsers limit how often, so pans and zooms wait for it. */
  replace() {
    clearTimeout(this.timer);
    this.timer = 0;
    history.replaceState(null, "", writeAddress(this.view));
  }

  /** Holds a moving range as it is, up to now, so that what comes later does not slip in. */
  pause() {
    const [from] = this.range();
    this.apply({ ...this.view, last: null, from, to: this.now() }, true);
    history.pushState(null, "", writeAddress(this.view));
  }

  /** A fixed range, kept within what can be shown.
   * @param {number} from @param {number} to @param {boolean} [step] */
  setRange(from, to, step = false) {
    const middle = (from + to) / 2;
    const length = Math.min(Math.max(to - from, SHORTEST), LONGEST);
    const start = Math.max(0, middle - length / 2);
    this.set({ last: null, from: start, to: start + length, skip: 0 }, step);
  }

  /** Zooms around a time; around now, a moving range stays one.
   * @param {number} factor @param {number} [around] */
  zoom(factor, around) {
    const { last } = this.view;
    if (last !== null && around === undefined) {
      const length = Math.round((last * factor) / SECOND) * SECOND;
      this.set({ last: Math.min(Math.max(length, 10 * SECOND), LONGEST), skip: 0 });
      return;
    }
    const [from, to] = this.range();
    const at = around ?? (from + to) / 2;
    const length = Math.min(Math.max((to - from) * factor, SHORTEST), LONGEST);
    const start = at - ((at - from) / (to - from)) * length;
    this.setRange(start, start + length);
  }

  /** Moves by a part of the range. @param {number} part */
  pan(part) {
    const [from, to] = this.range();
    const by = (to - from) * part;
    this.setRange(from + by, to + by);
  }

  /** Adds the term of a value, in place of its opposite.
   * @param {FilterKey} key @param {string} value @param {boolean} [excluded] */
  addFilter(key, value, excluded = false) {
    this.removeFilter(term(key, value, !excluded), [term(key, value, excluded)]);
  }

  /** @param {string} text @param {string[]} [added] Terms to add. */
  removeFilter(text, added = []) {
    const left = this.view.filters.filter((other) => other !== text);
    const filters = [...new Set([...left, ...added])];
    if (filters.join("\n") !== this.view.filters.join("\n")) this.setFilters(filters);
  }

  /** @param {string[]} filters */
  setFilters(filters) {
    this.set({ filters, skip: 0 }, true);
  }

  /** @param {View} view @param {boolean} [still] */
  apply(view, still = false) {
    const before = this.view;
    this.view = view;
    for (const listener of this.listeners) listener(view, before, still);
  }
}
