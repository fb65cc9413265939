// The order of the objects, and what they are put together by, as two choices above them.

import { byId } from "./dom.js";

/** @typedef {import("./types.js").View} View */
/** @typedef {import("./view.js").Store} Store */

/** @param {Store} store */
export function startOrder(store) {
  const sort = /** @type {HTMLSelectElement} */ (byId("sort"));
  const group = /** @type {HTMLSelectElement} */ (byId("group"));
  sort.addEventListener("change", () => store.set(
    { sort: /** @type {View["sort"]} */ (sort.value), skip: 0 }, true));
  group.addEventListener("change", () => store.set(
    { group: /** @type {View["group"]} */ (group.value), skip: 0 }, true));
  const show = () => {
    sort.value = store.view.sort;
    group.value = store.view.group;
  };
  store.listeners.push(show);
  show();
}
