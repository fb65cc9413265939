// The keys, and the help that lists them.

import { append, byId, el, isField } from "./dom.js";

/** @type {[string, string][]} */
const HELP = [
  ["w  s", "zoom in, out"], ["a  d", "earlier, later"], ["↑  ↓", "previous, next object"],
  ["←  →", "previous, next mark of the object"],
  ["n  N", "next, previous warning"], ["Enter", "open the object or mark"],
  ["Space", "fold what the object owns"], ["x", "fold or unfold all"],
  ["f", "zoom to the object or mark, and what is around it"],
  ["Esc", "close"], ["/", "filter"], ["l", "live or paused"], ["u", "your zone or UTC"],
  ["1 … 6, 0", "15 min … 30 d, all"], ["?", "this help"],
  ["Ctrl + wheel", "zoom where the pointer is"], ["Shift + wheel", "earlier, later"],
  ["click", "open; on the rates: zoom to the bar"],
  ["drag", "move; on the rates, or with Shift: zoom to what is marked"],
  ["two fingers", "zoom and move"],
];
const MARKS = [
  ["●", "normal event"], ["◆", "warning"], ["▲", "change: a roll-out, a scale, a node's state"],
  ["━", "from first to last seen; ×n: seen n times"],
  ["▂▅▇", "how much happened in what is folded"],
  ["❶", "what changed before the event that is open, the likeliest cause first"],
  ["◂", "it began before this range"],
  ["12", "a mark of 12 events, too near to tell apart: zoom, or click to list them"],
  ["✕", "last sign of an object that was deleted"],
  ["▨", "not covered: events may be missing here"],
];

/** @param {Record<string, () => void>} actions By name of the key. */
export function startKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isField(event.target) || document.querySelector("dialog[open]")) return;
    const focus = event.target instanceof Element ? event.target : document.body;
    // These belong to what has the focus, outside of the tree of objects.
    const own = ["Enter", " ", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
    if (own.includes(event.key) && focus !== document.body && !focus.closest("#lanes")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function startHelp() {
  append(byId("help-content"),
    el("table", {}, el("tbody", {}, ...HELP.map(([key, what]) => el("tr", {},
      el("th", { scope: "row" }, key), el("td", {}, what))))),
    el("table", {}, el("tbody", {}, ...MARKS.map(([mark, what]) => el("tr", {},
      el("th", { scope: "row" }, mark), el("td", {}, what))))));
  return () => /** @type {HTMLDialogElement} */ (byId("help")).showModal();
}
