// The clusters and their periods with events: requested at the start, and again when needed.

import { get } from "./api.js";
import { HOUR, MINUTE, SECOND } from "./time.js";

/** @typedef {import("./types.js").Cluster} Cluster */
/** @typedef {import("./types.js").Overview} Overview */

/** Milliseconds for which an answer is used. */
const GOOD = MINUTE;

export class Known {
  /** @param {import("./view.js").Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Cluster[]} */
    this.clusters = [];
    /** Whether a link was used: clusters then have names of contexts, which no flag selects. */
    this.link = false;
    this.asked = 0;
    /** @type {() => void} */
    this.answered = () => {};
    /** Resolves with the first answer. @type {Promise<void>} */
    this.first = new Promise((resolve) => {
      this.answered = resolve;
    });
    /** The last renewal. @type {Promise<void>} */
    this.renewed = Promise.resolve();
  }

  async load() {
    /** @type {Overview} */
    const found = await get("overview");
    this.asked = Date.now();
    this.clusters = found.clusters;
    this.link = found.login === "code";
    this.store.ahead = found.now - Date.now();
    this.answered();
    return found;
  }

  /** Requests the answer again if it is old. If that fails, the old one stays: views show what is
   * wrong with the server. */
  renew() {
    if (Math.abs(Date.now() - this.asked) >= GOOD) {
      this.asked = Date.now(); // not again at once, even if it fails
      this.renewed = this.load().then(() => undefined, () => undefined);
    }
    return this.renewed;
  }

  /** When the newest event was last seen; 0 if there is none. */
  newest() {
    return Math.max(...this.clusters.map((cluster) => cluster.to ?? 0), 0);
  }

  events() {
    return this.clusters.reduce((sum, one) => sum + (one.events ?? 0), 0);
  }

  /** From when to when there are events. @returns {[number, number]} */
  extent() {
    return [Math.min(...this.clusters.map((cluster) => cluster.from ?? Infinity)), this.newest()];
  }

  /** Whether a range has all of that, and little else. @param {number} from @param {number} to */
  isWhole(from, to) {
    const [first, last] = this.extent();
    return from <= first && to >= last && to - from <= (last - first) * 1.1 + HOUR;
  }

  /** Whether events may have begun before that. */
  isExact() {
    return this.clusters.every((cluster) => cluster.from === null || cluster.fromIsExact);
  }

  /** The range of all events: from the oldest to the newest, or to now if that is near. */
  show() {
    const [from, to] = this.extent();
    if (!Number.isFinite(from) || to === 0) return;
    const now = this.store.now();
    if (now - to < HOUR) {
      this.store.set({ last: Math.ceil((now - from) / SECOND) * SECOND, skip: 0 }, true);
    } else {
      const edge = Math.max((to - from) * 0.02, SECOND);
      this.store.setRange(from - edge, to + edge, true);
    }
  }
}
