// The filter field, its suggestions, and the terms in force as chips. Suggestions are values that
// were seen; anything else can be typed. What is typed is read by the server, the only one that
// knows the language.

import { ApiError, get, isAbort, parameters } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { FILTER_KEYS, keyOf, parts, term, without } from "./terms.js";
import { number } from "./time.js";

/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./view.js").Store} Store */

const SUGGESTED = 12;
/** Maximum values remembered for a key. */
const REMEMBERED = 2000;
/** Keys whose values the server counts. @type {import("./types.js").By[]} */
const COUNTED = ["reason", "object", "namespace", "node", "source"];
/** Keys whose values are suggested for a word. */
const NAMED = FILTER_KEYS.filter((key) => key !== "text");

/** A term that is offered, or what is typed.
 * @typedef {{text: string, typed: boolean, label: string, value: string,
 *   count: number|null}} Offer */

export class FilterBar {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.field = /** @type {HTMLInputElement} */ (byId("filter"));
    this.popup = byId("suggestions");
    this.chips = byId("chips");
    /** Values of each key, and how often they happened, if that is known.
     * @type {Map<FilterKey, Map<string, number|null>>} */
    this.seen = new Map(FILTER_KEYS.map((key) => [key, new Map()]));
    /** @type {Offer[]} */
    this.offers = [];
    /** The view of which the values of a key were counted.
     * @type {Map<import("./types.js").By, import("./types.js").View>} */
    this.counted = new Map();
    /** What the server says about what was typed. */
    this.problem = "";
    /** @type {AbortController|null} */
    this.control = null;
    this.chosen = -1;
    this.field.addEventListener("input", () => {
      this.problem = "";
      this.control?.abort();
      this.suggest();
    });
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
      this.take(this.offers[Number(node.id.slice("offer-".length))]);
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
      this.remember("host", item.host);
      this.remember("type", item.type);
    }
  }

  /** Values with how often they happened.
   * @param {import("./types.js").By} by @param {import("./types.js").TopRow[]} rows */
  learnRows(by, rows) {
    for (const { name, occurrences } of rows) {
      this.remember(by === "node" ? "host" : by, name, occurrences);
    }
  }

  /** Asks how often the values of a key happened, once for a view.
   * @param {FilterKey|undefined} key */
  async count(key) {
    const by = key === "host" ? "node" : COUNTED.find((one) => one === key) ?? "reason";
    const { view } = this.store;
    if (this.counted.get(by) === view) return;
    this.counted.set(by, view);
    const others = without(view.filters, [key ?? "reason"]);
    try {
      /** @type {import("./types.js").Top} */
      const top = await get("top", parameters({ ...this.store.asked(), by, parts: 1 }, others));
      this.learnRows(by, top.rows);
      if (document.activeElement === this.field && !this.problem) this.suggest();
    } catch {
      // There are suggestions without counts, too.
    }
  }

  /** @param {FilterKey} key @param {string} value @param {number|null} [count] */
  remember(key, value, count = null) {
    const known = this.seen.get(key);
    if (!known || !value || (known.size >= REMEMBERED && !known.has(value))) return;
    known.set(value, count ?? known.get(value) ?? null);
  }

  showChips() {
    const { filters } = this.store.view;
    const chips = filters.map((text) => {
      const { excluded, key, value } = parts(text);
      return el("span", { class: excluded ? "chip without" : "chip" },
        el("span", { class: "key" }, `${excluded ? "without " : ""}${key}`), el("b", {}, value),
        el("button", { type: "button", "aria-label": `Remove filter ${text}`,
          onclick: () => this.store.removeFilter(text) }, "✕"));
    });
    if (chips.length > 1) {
      chips.push(el("span", { class: "chip clear" }, el("button", { type: "button",
        onclick: () => this.store.setFilters([]) }, "Clear filters")));
    }
    fill(this.chips, ...chips);
    this.chips.hidden = filters.length === 0;
  }

  /** The values that may be meant by the last word that is typed. */
  suggest() {
    const typed = this.field.value.trim();
    const [, minus, head, rest] = /^(-?)(?:([a-z]+):)?(.*)$/isu.exec(typed) ?? ["", "", "", ""];
    const key = keyOf(head ?? "");
    void this.count(key);
    /** @type {Offer[]} */
    const found = [];
    /** @type {Offer[]} */
    const later = [];
    const raw = { text: typed, typed: true, label: "as typed", value: typed, count: null };
    // Of several words, a pattern or an unknown key the server decides.
    const isPlain = !/["*\s]/u.test(typed) && (!head || key !== undefined);
    const wanted = rest.toLowerCase();
    const keys = !isPlain ? [] : key ? [key] : typed ? NAMED
      : /** @type {FilterKey[]} */ (["type", "reason"]);
    for (const one of keys) {
      for (const [value, count] of this.seen.get(one) ?? []) {
        const at = value.toLowerCase().indexOf(wanted);
        const text = term(one, value, minus === "-");
        if (at < 0 || this.store.view.filters.includes(text)) continue;
        (at === 0 ? found : later).push({ text, typed: false,
          label: `${minus ? "without " : ""}${one}`, value, count });
      }
    }
    const order = (/** @type {Offer} */ one, /** @type {Offer} */ other) =>
      (other.count ?? 0) - (one.count ?? 0);
    const offers = [...found.sort(order), ...later.sort(order)].slice(0, SUGGESTED);
    // A word without a key is a text first; behind a key, a value that is known.
    const isKnown = key !== undefined && offers.some(({ value }) => value === rest);
    if (typed && (key === undefined || offers.length === 0)) offers.unshift(raw);
    else if (typed && rest && !isKnown) offers.push(raw);
    this.offers = offers;
    // Enter takes the first one.
    this.chosen = typed ? 0 : -1;
    this.show();
  }

  show() {
    const { problem } = this;
    fill(this.popup, ...this.offers.map(({ label, value, count }, index) => el("div", {
      role: "option", id: `offer-${index}`, "aria-selected": String(index === this.chosen),
    }, el("span", { class: "key" }, label), value,
    count !== null && el("em", {}, `×${number(count)}`))));
    const told = byId("filter-problem");
    if (told.textContent !== problem) fill(told, problem);
    told.hidden = problem === "";
    const open = this.offers.length > 0 && problem === "";
    this.popup.hidden = !open;
    this.field.setAttribute("aria-expanded", String(open));
    if (this.chosen >= 0) this.field.setAttribute("aria-activedescendant", `offer-${this.chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  close() {
    this.problem = "";
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
      const last = this.store.view.filters.at(-1);
      if (last !== undefined) this.store.removeFilter(last);
    }
  }

  /** Adds a term. @param {Offer|undefined} offer */
  take(offer) {
    if (!offer) return;
    if (offer.typed) void this.read(offer.text);
    else this.add([offer.text]);
  }

  /** @param {string[]} terms */
  add(terms) {
    this.field.value = "";
    this.close();
    const { filters } = this.store.view;
    this.store.setFilters([...new Set([...filters, ...terms])]);
  }

  /** Has the server read what is typed, which says what is wrong with it.
   * @param {string} text */
  async read(text) {
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    try {
      /** @type {{terms: string[]}} */
      const { terms } = await get("filter", new URLSearchParams({ filter: text }), control.signal);
      if (this.control === control) this.add(terms);
    } catch (error) {
      if (isAbort(error) || this.control !== control) return;
      this.problem = error instanceof ApiError ? error.message : String(error);
      this.show();
    }
  }
}
