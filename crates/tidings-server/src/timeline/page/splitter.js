// The line between picture and list, moved by drag or keys.

import { byId } from "./dom.js";

/** @param {() => void} moved */
export function startSplitter(moved) {
  const line = byId("splitter");
  const main = /** @type {HTMLElement} */ (line.parentElement);
  let share = 35;
  /** @param {number} percent Of the height, for the list. */
  const set = (percent) => {
    share = Math.min(80, Math.max(10, percent));
    main.style.setProperty("--list", `${share}%`);
    line.setAttribute("aria-valuenow", String(Math.round(share)));
    moved();
  };
  line.addEventListener("pointerdown", (event) => line.setPointerCapture(event.pointerId));
  line.addEventListener("pointermove", (event) => {
    if (!line.hasPointerCapture(event.pointerId)) return;
    const { bottom, height } = main.getBoundingClientRect();
    set(((bottom - event.clientY) / height) * 100);
  });
  line.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    set(share + (event.key === "ArrowUp" ? 5 : -5));
  });
}
