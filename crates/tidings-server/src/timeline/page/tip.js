// The tip at the pointer: a line through the picture with its time, and a few words beside it.

import { byId, el, fill } from "./dom.js";
import { counted, dateTime, duration, number } from "./time.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").Mark} Mark */

/** @typedef {{title: string, lines: string[]}} Words */

/** A mark in words. @param {Picture} picture @param {Mark} mark @param {boolean} utc
 * @returns {Words} */
export function describeMark(picture, mark, utc) {
  const lane = picture.lanes[mark[0]];
  const [, from, to, warning, occurrences, events, reason] = mark;
  const what = picture.reasons[reason] || "(no reason)";
  const several = events > 1;
  const sign = warning ? "◆ Warning" : picture.changes.includes(reason) ? "▲" : "●";
  const title = `${sign} ${what}${several ? " and others" : ""}`;
  const lines = [`${lane.kind || "object"} ${lane.name}`];
  const { message } = picture.events[mark[7]] ?? {};
  if (message) lines.push(message);
  const about = picture.complete ? "" : "≈ ";
  if (several) {
    lines.push(`${about}${counted(events, "event")}, ${about}${
      counted(occurrences, "occurrence")}`);
  } else if (occurrences > 1) lines.push(`${number(occurrences)} times`);
  lines.push(to - from >= 1000
    ? `${dateTime(from, utc)} – ${dateTime(to, utc)} (${duration(to - from)})`
    : dateTime(to, utc));
  if (several) lines.push("click: list them; double-click: zoom to them");
  return { title, lines };
}

/** @param {Words|null} words @param {number} x @param {number} y In the window. */
export function showTip(words, x, y) {
  const tip = byId("tip");
  tip.hidden = !words;
  if (!words) return;
  fill(tip, el("b", {}, words.title), ...words.lines.map((line) => el("div", {}, line)));
  const { offsetWidth: w, offsetHeight: h } = tip;
  const left = x + 14 + w > innerWidth ? Math.max(4, x - w - 14) : x + 14;
  const top = y + 18 + h > innerHeight ? Math.max(4, y - h - 12) : y + 18;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

/** The tip of the mark that the keyboard is at. It stays beside its mark while the picture moves,
 * and yields to the tip of a pointer. */
export class KeyTip {
  /** @param {import("./lanes.js").Lanes} lanes */
  constructor(lanes) {
    this.lanes = lanes;
    this.shown = false;
  }

  /** Says which mark it is. @param {Mark|null} mark @param {string} none Said if there is none.
   * @param {boolean} utc */
  tell(mark, none, utc) {
    const { picture } = this.lanes;
    const words = picture && mark && describeMark(picture, mark, utc);
    fill(byId("said"), words ? [words.title, ...words.lines.slice(1)].join(", ") : none);
    this.shown ||= mark !== null;
  }

  /** Shows the tip if its mark is in view. @param {import("./paint.js").Scale} scale
   * @param {boolean} utc */
  place(scale, utc) {
    if (!this.shown) return;
    const { picture, mark } = this.lanes;
    if (!picture || !mark) {
      this.shown = this.lanes.left !== null;
      showTip(null, 0, 0);
      return;
    }
    const [x, y] = this.lanes.placeOf(mark, scale) ?? [];
    showTip(x === undefined ? null : describeMark(picture, mark, utc), x ?? 0, y ?? 0);
  }

  hide() {
    this.shown = false;
    showTip(null, 0, 0);
  }
}

/** The line under the pointer. @param {number|null} x From the left of the picture.
 * @param {string} [text] */
export function showCursor(x, text = "") {
  const cursor = byId("cursor");
  cursor.hidden = x === null;
  if (x === null) return;
  cursor.style.transform = `translateX(${Math.round(x)}px)`;
  cursor.dataset.time = text;
}

/** The range that is being drawn. @param {number|null} left @param {number} width */
export function showBrush(left, width) {
  const brush = byId("brush");
  brush.hidden = left === null;
  if (left === null) return;
  brush.style.left = `${left}px`;
  brush.style.width = `${width}px`;
}
