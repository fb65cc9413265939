// Beside a value that can be a term of the filter: only this (⊕), or without it (⊖). The two
// buttons move to the value that the pointer or the focus is at.

import { el } from "./dom.js";

/** @typedef {import("./types.js").FilterKey} FilterKey */

/** @param {import("./view.js").Store} store */
export function startPicks(store) {
  /** @param {string} sign @param {boolean} excluded */
  const button = (sign, excluded) => el("button", { type: "button", class: "plain",
    onclick: (/** @type {Event} */ event) => {
      event.stopPropagation();
      const { key, value } = holder()?.dataset ?? {};
      if (key) store.addFilter(/** @type {FilterKey} */ (key), value ?? "", excluded);
    } }, sign);
  const only = button("⊕", false);
  const out = button("⊖", true);
  const box = el("span", { class: "picks" }, only, out);
  const holder = () => box.parentElement;
  /** @param {Event} event */
  const move = ({ target }) => {
    if (!(target instanceof Element)) return;
    const place = target.closest("[data-key]");
    if (!(place instanceof HTMLElement) || place === holder()) return;
    const { value } = place.dataset;
    for (const [node, word] of /** @type {[HTMLElement, string][]} */ (
      [[only, "Only"], [out, "Without"]])) {
      node.title = `${word} ${value || "(none)"}`;
      node.setAttribute("aria-label", node.title);
    }
    place.appendChild(box);
  };
  document.addEventListener("pointerover", move);
  document.addEventListener("focusin", move);
}
