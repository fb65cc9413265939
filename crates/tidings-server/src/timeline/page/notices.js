// What the page says about itself: what is missing from the picture, and what went wrong.

import { byId, el, fill } from "./dom.js";

/** @typedef {{text: string, action?: [string, () => void], bad?: boolean}} Notice */

/** @type {Map<string, Notice>} */
const notices = new Map();
/** The texts of notices that the reader closed. @type {Map<string, string>} */
const closed = new Map();

/** Shows a notice in its place, or removes it. What the reader closed comes again when its cause
 * ended meanwhile; a problem, also with other words.
 * @param {string} key @param {Notice|null} notice */
export function notify(key, notice) {
  const before = notices.get(key);
  const told = closed.get(key);
  if (notice && told !== undefined && (!notice.bad || told === notice.text)) return;
  closed.delete(key);
  if (!notice && !before) return;
  // Screen readers do not announce the same text twice.
  if (notice && before?.text === notice.text) return;
  if (notice) notices.set(key, notice);
  else notices.delete(key);
  show();
}

function show() {
  fill(byId("notices"), ...[...notices].map(([key, { text, action, bad }]) =>
    el("div", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : "status" },
      el("span", {}, text),
      action && el("button", { type: "button", onclick: action[1] }, action[0]),
      el("button", { type: "button", class: "plain", "aria-label": "Close this notice",
        onclick: () => {
          notices.delete(key);
          closed.set(key, text);
          show();
        } }, "✕"))));
}

let busy = 0;

/** Shows a bar if an answer takes longer than a moment. @param {boolean} waiting */
export function setBusy(waiting) {
  clearTimeout(busy);
  const bar = byId("busy");
  if (waiting) busy = window.setTimeout(() => bar.classList.add("on"), 200);
  else bar.classList.remove("on");
}
