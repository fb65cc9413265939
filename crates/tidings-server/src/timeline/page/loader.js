// Loads the picture of the view: debounced while it moves, one request at a time, late answers
// dropped. What fails, the picture or what is shown with it, is tried again by itself, ever more
// slowly; what is refused, slowly from the start.

import { ApiError, get, isAbort, isFinal } from "./api.js";
import { notify, setBusy } from "./notices.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./notices.js").Notice} Notice */
/** @typedef {import("./view.js").Store} Store */

/** Milliseconds for which the range must stand still before a load. */
const SETTLED = 120;
/** Milliseconds between two pictures while events come; more if an answer takes long. */
const LIVE = 1500;
/** Maximum milliseconds before a retry, plus or minus a quarter. */
const LONGEST_WAIT = 30_000;

/** @typedef {"start"|"view"|"list"|"live"|"panel"} Source */
/** The parts that load. If several fail, the first is reported. @type {Source[]} */
const SOURCES = ["start", "view", "list", "live", "panel"];
/** @typedef {{failures: number, timer: number, again: () => void, notice: Notice|null}} Failing */

export class Loader {
  /**
   * @param {Store} store
   * @param {{loaded: (picture: Picture, again: boolean) => void, known: Promise<void>,
   *   login: (message: string) => void}} on
   */
  constructor(store, on) {
    this.store = store;
    this.on = on;
    /** @type {AbortController|null} */
    this.control = null;
    this.timer = 0;
    /** The parts that failed and have not succeeded since. @type {Map<Source, Failing>} */
    this.failing = new Map();
    /** When the last picture was asked for, and how long its answer took. */
    this.asked = 0;
    this.took = 0;
    /** Whether a load is scheduled because events came. */
    this.waiting = false;
    /** When the server was last heard of, by the clock of the browser. */
    this.heard = Date.now();
    /** Whether a load is scheduled for when the range stands still. */
    this.settling = false;
    /** Whether the current view's picture has not arrived yet. */
    this.due = false;
  }

  /** Loads once the range stands still. */
  soon() {
    clearTimeout(this.timer);
    this.waiting = false;
    this.settling = true;
    this.due = true;
    this.timer = window.setTimeout(() => this.load(), SETTLED);
  }

  /** Loads because events came, but not too often. */
  refresh() {
    if (this.waiting || this.settling || this.control) return;
    this.waiting = true;
    clearTimeout(this.timer);
    const pause = this.failing.has("view") ? LONGEST_WAIT : Math.max(LIVE, this.took * 10);
    const wait = Math.max(0, this.asked + pause - performance.now());
    this.timer = window.setTimeout(() => this.load(true), wait);
  }

  /** @param {boolean} [again] The same view once more. */
  async load(again = false) {
    clearTimeout(this.timer);
    clearTimeout(this.failing.get("view")?.timer);
    this.waiting = false;
    this.settling = false;
    if (!again) this.due = true;
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    if (!again) setBusy(true);
    this.asked = performance.now();
    try {
      /** @type {Picture} */
      const picture = await get("view", this.store.params(), control.signal);
      await this.on.known; // which clusters there are
      if (this.control !== control) return;
      this.took = performance.now() - this.asked;
      this.succeeded("view");
      const same = !this.due;
      this.due = false;
      this.on.loaded(picture, same);
    } catch (error) {
      if (isAbort(error) || this.control !== control) return;
      this.failed(error, "view", () => void this.load(true));
    } finally {
      if (this.control === control) {
        this.control = null;
        setBusy(false);
      }
    }
  }

  /** @param {Source} source */
  succeeded(source) {
    this.heard = Date.now();
    clearTimeout(this.failing.get(source)?.timer);
    if (this.failing.delete(source)) this.tell();
  }

  /** Handles an error. @param {unknown} error @param {Source} source
   * @param {() => void} again Asks once more for what failed, and for nothing else. */
  failed(error, source, again) {
    const failures = (this.failing.get(source)?.failures ?? 0) + 1;
    clearTimeout(this.failing.get(source)?.timer);
    if (error instanceof ApiError && error.status === 401) {
      this.succeeded(source);
      this.on.login(error.message);
      return;
    }
    /** @type {Failing} */
    const failing = { failures, timer: 0, again, notice: this.describe(error, failures) };
    this.failing.set(source, failing);
    // What was refused may be permitted later, or be a proxy's answer while the server starts.
    const soon = error instanceof ApiError && !isFinal(error);
    const pause = soon ? Math.min(500 * 2 ** failures, LONGEST_WAIT) : LONGEST_WAIT;
    failing.timer = window.setTimeout(() => {
      failing.timer = 0;
      again();
    }, pause * (0.75 + Math.random() / 2));
    this.tell();
  }

  /** @param {unknown} error @param {number} failures @returns {Notice|null} */
  describe(error, failures) {
    if (!(error instanceof ApiError)) {
      return { bad: true, text: `Something went wrong in this page: ${error}` };
    }
    const { status, message } = error;
    if (status === 403) return { bad: true, text: `Not permitted: ${message}` };
    if (isFinal(error)) {
      return { bad: true, text: `The server refused this: ${message}`,
        action: ["Try again", () => this.retry()] };
    }
    // Streams end now and then, which is not reported.
    if (failures < 2) return null;
    return { bad: true, action: ["Try now", () => this.retry()],
      text: status === 0 ? "The server does not answer. What you see is what it said last; "
        + "this page tries again by itself." : `The server has a problem: ${message}. `
        + "This page tries again by itself." };
  }

  /** When the server was last heard of, if what happens now does not come; null if it does. */
  silentSince() {
    const lost = ["view", "live"].some((source) =>
      this.failing.get(/** @type {Source} */ (source))?.notice);
    return lost ? this.heard : null;
  }

  /** Retries all failed parts at once. */
  retry() {
    for (const failing of [...this.failing.values()]) {
      clearTimeout(failing.timer);
      failing.timer = 0;
      failing.again();
    }
  }

  tell() {
    const told = SOURCES.map((source) => this.failing.get(source)?.notice).find(Boolean);
    notify("server", told ?? null);
  }
}
