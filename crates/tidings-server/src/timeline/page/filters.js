// The filter field, its suggestions, and the filters in force as chips. Suggestions are what has
// been seen so far; anything else can be typed as `key:value`.

import { byId, el, fill } from "./dom.js";
import { FILTER_KEYS, hasFilters, noFilters } from "./view.js";

/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./view.js").Store} Store */

const SUGGESTED = 12;
/** Maximum values remembered for a key. */
const REMEMBERED = 2000;

export class FilterBar {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.field = /** @type {HTMLInputElement} */ (byId("filter"));
    this.popup = byId("suggestions");
    this.chips = byId("chips");
    /** @type {Map<FilterKey, Set<string>>} */
    this.seen = new Map(FILTER_KEYS.map((key) => [key, new Set()]));
    /** @type {[FilterKey, string][]} */
    this.offers = [];
    this.chosen = -1;
    this.field.addEventListener("input", () => this.suggest());
    this.field.addEventListener("focus", () => this.suggest());
    this.field.addEventListener("blur", () => this.close());
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    byId("filter-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.take(this.offers[this.chosen]);
    });
    // Handled before the field loses the focus and the popup its content.
    this.popup.addEventListener("pointerdown", (event) => {
      const node = event.target instanceof Element ? event.target.closest("[role=option]") : null;
      if (!node) return;
      event.preventDefault();
      this.take(this.offers[[...this.popup.children].indexOf(node)]);
    });
  }

  /** @param {Picture} picture */
  learn(picture) {
    for (const lane of picture.lanes) {
      this.remember("namespace", lane.namespace);
      this.remember("kind", lane.kind);
      this.remember("object", lane.name);
      this.remember("cluster", lane.cluster);
    }
    for (const reason of picture.reasons) this.remember("reason", reason);
    this.remember("type", "Warning");
    this.remember("type", "Normal");
  }

  /** @param {Item[]} items */
  learnItems(items) {
    for (const item of items) {
      this.remember("source", item.source);
      this.remember("type", item.type);
    }
  }

  /** @param {FilterKey} key @param {string} value */
  remember(key, value) {
    const known = this.seen.get(key);
    if (known && value && known.size < REMEMBERED) known.add(value);
  }

  showChips() {
    const { filters } = this.store.view;
    const chips = FILTER_KEYS.flatMap((key) => filters[key].map((value) =>
      el("span", { class: "chip" }, el("span", { class: "key" }, key), el("b", {}, value),
        el("button", { type: "button", "aria-label": `Remove filter ${key} ${value}`,
          onclick: () => this.store.removeFilter(key, value) }, "✕"))));
    if (chips.length > 1) {
      chips.push(el("span", { class: "chip clear" }, el("button", { type: "button",
        onclick: () => this.store.setFilters(noFilters()) }, "Clear filters")));
    }
    fill(this.chips, ...chips);
    this.chips.hidden = !hasFilters(filters);
  }

  /** The key a text begins with, and the rest. @param {string} text
   * @returns {[FilterKey|null, string]} */
  split(text) {
    const colon = text.indexOf(":");
    const head = text.slice(0, colon).trim().toLowerCase();
    const aliases = { ns: "namespace", name: "object", from: "source", message: "text" };
    const word = Object.hasOwn(aliases, head)
      ? aliases[/** @type {keyof typeof aliases} */ (head)] : head;
    const key = FILTER_KEYS.find((known) => known === word);
    return colon > 0 && key ? [key, text.slice(colon + 1).trim()] : [null, text.trim()];
  }

  suggest() {
    const [key, text] = this.split(this.field.value);
    const wanted = text.toLowerCase();
    /** @type {[FilterKey, string][]} */
    const found = [];
    if (text && (!key || key === "text")) found.push(["text", text]);
    const keys = key ? [key] : text ? FILTER_KEYS : /** @type {FilterKey[]} */ (["type", "kind"]);
    /** @type {[FilterKey, string][]} */
    const later = [];
    for (const one of keys) {
      for (const value of this.seen.get(one) ?? []) {
        const at = value.toLowerCase().indexOf(wanted);
        if (this.store.view.filters[one].includes(value)) continue;
        if (at === 0) found.push([one, value]);
        else if (at > 0) later.push([one, value]);
      }
    }
    const exact = key && text && key !== "text" && !this.seen.get(key)?.has(text);
    if (exact) found.push([key, text]);
    this.offers = [...found, ...later].slice(0, SUGGESTED);
    // Enter takes the first suggestion, which is the text if no key was named.
    this.chosen = text ? 0 : -1;
    this.show();
  }

  show() {
    fill(this.popup, ...this.offers.map(([key, value], index) => el("div", {
      role: "option", id: `offer-${index}`, "aria-selected": String(index === this.chosen),
    }, el("span", { class: "key" }, key === "text" ? "text contains" : key), value)));
    const open = this.offers.length > 0;
    this.popup.hidden = !open;
    this.field.setAttribute("aria-expanded", String(open));
    if (this.chosen >= 0) this.field.setAttribute("aria-activedescendant", `offer-${this.chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  close() {
    this.offers = [];
    this.chosen = -1;
    this.show();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const n = this.offers.length;
      if (n === 0) return;
      this.chosen = (this.chosen + (event.key === "ArrowDown" ? 1 : -1) + n) % n;
      this.show();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (this.field.value === "") this.field.blur();
      this.field.value = "";
      this.close();
    } else if (event.key === "Backspace" && this.field.value === "") {
      const { filters } = this.store.view;
      const key = [...FILTER_KEYS].reverse().find((one) => filters[one].length > 0);
      if (key) this.store.removeFilter(key, filters[key][filters[key].length - 1]);
    }
  }

  /** @param {[FilterKey, string]|undefined} offer */
  take(offer) {
    if (!offer) return;
    this.field.value = "";
    this.close();
    this.store.addFilter(...offer);
  }
}
