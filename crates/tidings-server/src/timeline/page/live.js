// The changes that the server sends, read as they come. The stream ends when the page is hidden,
// since a browser has few connections to one server; later it is opened again, and what was missed
// is asked for anew.

import { ApiError, isAbort, parameters, stream } from "./api.js";

/** @typedef {import("./types.js").Change} Change */

/**
 * @typedef {object} Hooks
 * @property {(change: Change) => void} change
 * @property {() => void} begun Something was heard.
 * @property {() => void} restart The position is too old: the view has to be loaded anew.
 * @property {(error: ApiError) => void} lost Followed no more, until `again` or another view.
 */

/** Milliseconds without a byte after which a stream is taken for dead; the server sends a comment
 * every 15 seconds. */
const SILENCE = 45_000;
/** Maximum characters of a line. */
const LONGEST_LINE = 4 << 20;

export class Live {
  /** @param {Hooks} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {AbortController|null} */
    this.control = null;
    /** @type {string[]} */
    this.filters = [];
    this.key = "";
    this.position = "";
    /** The stream was lost, and the loader will begin it again. */
    this.lost = false;
  }

  /** Follows from a position; if it already follows the same events, it continues.
   * @param {string} position @param {string[]} filters */
  follow(position, filters) {
    const key = JSON.stringify(filters);
    if (this.control && key === this.key) return;
    this.position = position;
    if (this.lost && key === this.key) return;
    this.stop();
    this.key = key;
    this.filters = filters;
    this.begin();
  }

  /** Continues a lost stream. */
  again() {
    if (this.lost) this.begin();
  }

  begin() {
    this.lost = false;
    this.control = new AbortController();
    void this.run(this.filters, this.control);
  }

  stop() {
    this.control?.abort();
    this.control = null;
    this.lost = false;
  }

  /** @param {string[]} filters @param {AbortController} control */
  async run(filters, control) {
    const { signal } = control;
    let watchdog = 0;
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = window.setTimeout(() => control.abort(), SILENCE);
    };
    try {
      heard();
      const body = await stream("live", parameters({ position: this.position }, filters), signal);
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || signal.aborted) break;
        heard();
        this.hooks.begun();
        text += value.replaceAll("\r", "");
        const blocks = text.split("\n\n");
        text = blocks.pop() ?? "";
        if (text.length > LONGEST_LINE) break;
        for (const block of blocks) this.read(block);
      }
      this.ended(control, new ApiError(0, "the server ended the stream of changes"));
    } catch (error) {
      // An abort of our own has replaced `control` already; one of the watchdog has not.
      const said = error instanceof ApiError ? error
        : new ApiError(0, isAbort(error) ? "the server is silent" : "the connection was lost");
      this.ended(control, said);
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** @param {AbortController} control @param {ApiError} error */
  ended(control, error) {
    if (this.control !== control) return;
    this.control = null;
    this.lost = true;
    control.abort();
    this.hooks.lost(error);
  }

  /** One message of the stream. @param {string} block */
  read(block) {
    let event = "message";
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5));
    }
    if (event === "restart") {
      this.stop();
      this.hooks.restart();
    } else if (event === "change") {
      /** @type {Change} */
      const change = JSON.parse(data.join("\n"));
      this.position = change.position;
      this.hooks.change(change);
    }
  }
}
