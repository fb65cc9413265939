// What the page says about itself: what is missing from the picture, and what went wrong.

import { byId, el, fill } from "./dom.js";

/** @typedef {{text: string, action?: [string, () => void], bad?: boolean}} Notice */

/** @type {Map<string, Notice>} */
const notices = new Map();

/** Shows a notice in its place, or removes it.
 * @param {string} key @param {Notice|null} notice */
export function notify(key, notice) {
  const before = notices.get(key);
  if (!notice && !before) return;
  // Screen readers do not announce the same text twice.
  if (notice && before?.text === notice.text) return;
  if (notice) notices.set(key, notice);
  else notices.delete(key);
  fill(byId("notices"), ...[...notices.values()].map(({ text, action, bad }) =>
    el("div", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : "status" },
      el("span", {}, text),
      action && el("button", { type: "button", onclick: action[1] }, action[0]))));
}

let busy = 0;

/** Shows a bar if an answer takes longer than a moment. @param {boolean} waiting */
export function setBusy(waiting) {
  clearTimeout(busy);
  const bar = byId("busy");
  if (waiting) busy = window.setTimeout(() => bar.classList.add("on"), 200);
  else bar.classList.remove("on");
}
