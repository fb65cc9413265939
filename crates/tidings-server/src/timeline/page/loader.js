// Loads the picture of the view: debounced while it moves, one request at a time, late answers
// dropped; tries again, ever more slowly, while the server is away.

import { ApiError, get, isAbort, parameters } from "./api.js";
import { notify, setBusy } from "./notices.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./view.js").Store} Store */

/** Milliseconds that the range has to stand still. */
const SETTLED = 120;
/** Milliseconds between two pictures while events come; more if an answer takes long. */
const LIVE = 1500;
const LONGEST_WAIT = 30_000;

export class Loader {
  /**
   * @param {Store} store
   * @param {{loaded: (picture: Picture, again: boolean) => void,
   *   login: (message: string) => void}} on
   */
  constructor(store, on) {
    this.store = store;
    this.on = on;
    /** @type {AbortController|null} */
    this.control = null;
    this.timer = 0;
    this.retry = 0;
    this.failures = 0;
    /** When the last picture was asked for, and how long its answer took. */
    this.asked = 0;
    this.took = 0;
    this.waiting = false;
  }

  /** Loads when the range has stood still. */
  soon() {
    clearTimeout(this.timer);
    this.waiting = false;
    this.timer = window.setTimeout(() => this.load(), SETTLED);
  }

  /** Loads since events came, but not too often. */
  refresh() {
    if (this.waiting || this.control) return;
    this.waiting = true;
    clearTimeout(this.timer);
    const pause = Math.max(LIVE, this.took * 10);
    const wait = Math.max(0, this.asked + pause - performance.now());
    this.timer = window.setTimeout(() => this.load(true), wait);
  }

  /** @param {boolean} [again] The same view once more. */
  async load(again = false) {
    clearTimeout(this.timer);
    clearTimeout(this.retry);
    this.waiting = false;
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    const { view } = this.store;
    const [from, to] = this.store.range();
    const params = parameters({ from: Math.floor(from), to: Math.ceil(to), by: view.by,
      skip: view.skip }, view.filters);
    if (!again) setBusy(true);
    this.asked = performance.now();
    try {
      /** @type {Picture} */
      const picture = await get("view", params, control.signal);
      if (this.control !== control) return;
      this.took = performance.now() - this.asked;
      this.succeeded();
      this.on.loaded(picture, again);
    } catch (error) {
      if (!isAbort(error)) this.failed(error);
    } finally {
      if (this.control === control) {
        this.control = null;
        setBusy(false);
      }
    }
  }

  succeeded() {
    this.failures = 0;
    notify("server", null);
  }

  /** What has to be done about an error, wherever it came from. @param {unknown} error */
  failed(error) {
    if (!(error instanceof ApiError)) {
      notify("server", { bad: true, text: `Something went wrong in this page: ${error}` });
      return;
    }
    const { status, message } = error;
    if (status === 401) {
      this.on.login(message);
      return;
    }
    if (status === 403) {
      notify("server", { bad: true, text: `Not permitted: ${message}` });
      return;
    }
    if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
      notify("server", { bad: true, text: `The server refused this: ${message}`,
        action: ["Try again", () => this.load()] });
      return;
    }
    this.failures += 1;
    clearTimeout(this.retry);
    const wait = Math.min(500 * 2 ** this.failures, LONGEST_WAIT) * (0.75 + Math.random() / 2);
    this.retry = window.setTimeout(() => this.load(true), wait);
    // A stream that ends now and then is no news.
    if (this.failures < 2) return;
    notify("server", { bad: true, action: ["Try now", () => this.load()],
      text: status === 0 ? "The server does not answer. What you see is what it said last; "
        + "this page tries again by itself." : `The server has a problem: ${message}. `
        + "This page tries again by itself." });
  }
}
