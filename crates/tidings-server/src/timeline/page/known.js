// What there is at all, by cluster: asked for at the start, and again where it decides.

import { get } from "./api.js";
import { HOUR, MINUTE, SECOND } from "./time.js";

/** @typedef {import("./types.js").Cluster} Cluster */
/** @typedef {import("./types.js").Overview} Overview */

/** Milliseconds for which an answer is good. */
const GOOD = MINUTE;

export class Known {
  /** @param {import("./view.js").Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Cluster[]} */
    this.clusters = [];
    /** A link led here: clusters have the names of contexts, which commands know by no flag. */
    this.link = false;
    this.asked = 0;
    /** The last time that it was asked again. @type {Promise<void>} */
    this.renewed = Promise.resolve();
  }

  async load() {
    /** @type {Overview} */
    const found = await get("overview");
    this.asked = Date.now();
    this.clusters = found.clusters;
    this.link = found.login === "code";
    this.store.ahead = found.now - Date.now();
    return found;
  }

  /** Asks again if the answer is an old one. Without another, the old one stays: pictures say what
   * is wrong with the server. */
  renew() {
    if (Math.abs(Date.now() - this.asked) >= GOOD) {
      this.asked = Date.now(); // not at once again, whatever comes of it
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

  /** Shows all: from the oldest event to the newest; to now, if that is near. */
  show() {
    const from = Math.min(...this.clusters.map((cluster) => cluster.from ?? Infinity));
    const to = this.newest();
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
