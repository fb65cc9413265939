// The list of events: a table that says in words what the picture shows, newest first, in pages.

import { alike } from "./alike.js";
import { append, byId, el, fill, isSelected } from "./dom.js";
import { ApiError, get, isAbort, parameters } from "./api.js";
import { shortObject } from "./kinds.js";
import { ofObject } from "./terms.js";
import { ago, counted, dateTime, number, shortTime } from "./time.js";

/** @typedef {import("./types.js").Change} Change */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").ItemPage} ItemPage */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").View} View */
/** @typedef {import("./types.js").FilterKey} FilterKey */

const PAGE = 100;
/** The width of a letter, relative to the size of the font. */
const LETTER = 0.6;
/** How much wider bold letters are. */
const BOLD = 1.12;
/** Letters at the end of a long name that are always shown. */
const TAIL = 12;
/** Maximum rows that scrolling adds; a button adds more. */
const BY_SCROLLING = 1000;

/** @typedef {{params: URLSearchParams, utc: boolean, clusters: boolean, day: number}} Asked */

/** The object whose events are listed, if not all are.
 * @param {View} view @returns {Extract<Shown, {is: "object"}>|null} */
export const listed = ({ shown }) => (shown?.is === "object" ? shown : null);

export class List {
  /**
   * @param {{open: (item: Item) => void, over: (item: Item|null) => void,
   *   filter: (key: FilterKey, value: string) => void,
   *   all: () => void, newer: () => void,
   *   failed: (error: unknown, again: () => void) => void,
   *   loaded: (items: Item[]) => void, now: () => number}} on
   */
  constructor(on) {
    this.on = on;
    this.box = byId("list");
    this.body = byId("rows");
    this.caption = byId("list-title");
    this.back = byId("list-all");
    this.newer = byId("list-newer");
    /** The object whose events these are. @type {Extract<Shown, {is: "object"}>|null} */
    this.chosen = null;
    /** Events received since the rows were read. */
    this.came = 0;
    /** Reading failed, and the loader will retry it. */
    this.failed = false;
    this.foot = byId("list-foot");
    this.more = el("button", { type: "button", onclick: () => this.next() }, "Older events");
    /** What is listed, in the order of the server. @type {Item[]} */
    this.items = [];
    /** @type {{by: "last"|"first", up: boolean}} */
    this.order = { by: "last", up: false };
    /** Alike events share a row. */
    this.grouped = false;
    /** The rows whose other events are shown, by what these have in common.
     * @type {Set<string>} */
    this.unfolded = new Set();
    byId("list-alike").addEventListener("click", (event) => {
      this.grouped = !this.grouped;
      /** @type {HTMLElement} */ (event.currentTarget).ariaPressed = String(this.grouped);
      this.showRows();
    });
    for (const by of /** @type {const} */ (["last", "first"])) {
      byId(`by-${by}`).addEventListener("click", () => void this.sort(by));
    }
    this.key = "";
    /** @type {string|null} */
    this.token = null;
    this.complete = true;
    /** @type {AbortController|null} */
    this.control = null;
    /** The request that the rows answer. @type {Asked|null} */
    this.asked = null;
    this.back.addEventListener("click", () => on.all());
    this.newer.addEventListener("click", () => {
      this.key = "";
      this.box.focus({ preventScroll: true }); // the button disappears
      on.newer();
    });
    new ResizeObserver(() => this.fit()).observe(this.box);
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("scroll", () => {
      const left = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight;
      if (left < 200 && this.items.length < BY_SCROLLING && this.token && !this.control) {
        this.next();
      }
    }, { passive: true });
  }

  /**
   * Shows the events of the view, or of the object that is selected in it.
   * @param {View} view @param {[number, number]} range @param {boolean} clusters
   * @param {boolean} again Even if nothing that decides changed: something came.
   */
  async show(view, range, clusters, again) {
    const chosen = listed(view);
    const filters = chosen ? ofObject(view.filters, chosen) : view.filters;
    // A mark's span includes its last moment.
    const [from, to] = chosen?.span ? [chosen.span[0], chosen.span[1] + 1] : range;
    // Else with what is ahead of the clock.
    const ends = chosen?.span ? Number.isFinite(to) : view.last === null;
    const plain = { from: Math.floor(from), ...(ends && { to: Math.ceil(to) }), limit: PAGE };
    const params = parameters(plain, filters);
    const key = `${params} ${view.utc}`;
    if (key === this.key && !again) return;
    if (again && this.keeps()) {
      this.key = "";
      return;
    }
    this.key = key;
    this.chosen = chosen;
    const title = chosen ? `Events of ${chosen.kind} ${chosen.name}` : "Events";
    const inside = chosen?.span
      ? ` · ${dateTime(from, view.utc)} – ${ends ? shortTime(to, view.utc, from) : "now"}` : "";
    fill(this.caption, title + inside);
    this.caption.classList.toggle("offscreen", !chosen); // the tab says it
    this.back.hidden = !chosen;
    byId("rows-table").classList.toggle("clusters", clusters);
    await this.load(null, { params, utc: view.utc, clusters,
      day: ends ? to : this.on.now() }, again);
  }

  /** Whether the rows stay although newer ones came: while a reader is further down, or has the
   * focus or a selection in them. What failed has a time of its own. */
  keeps() {
    const held = this.box.scrollTop > 0 || !this.isNewestFirst()
      || this.body.contains(document.activeElement)
      || isSelected(this.body);
    if (held) this.offer();
    return held || this.failed;
  }

  /** Counts received events. @param {Change} change */
  tell({ items, more }) {
    const { chosen } = this;
    if (!chosen) this.came += items.length + more;
    else if (!chosen.span) {
      this.came += items.filter(({ cluster, object }) => cluster === chosen.cluster
        && object.kind === chosen.kind && object.namespace === chosen.namespace
        && object.name === chosen.name).length;
    }
  }

  offer() {
    this.newer.hidden = this.came === 0;
    fill(this.newer, `${number(this.came)} newer`);
  }

  next() {
    if (this.asked && this.token && !this.control) return this.load(this.token, this.asked);
    return Promise.resolve();
  }

  isNewestFirst() {
    return this.order.by === "last" && !this.order.up;
  }

  /** Sorts by a column, newest first, or the other way round if it is sorted by that already. What
   * is sorted has to be read, within a bound. @param {"last"|"first"} by */
  async sort(by) {
    this.order = { by, up: this.order.by === by && !this.order.up };
    this.showRows();
    const { order } = this;
    while (this.token && !this.isNewestFirst() && this.items.length < BY_SCROLLING) {
      const { length } = this.items;
      await this.next();
      if (this.order !== order || this.items.length === length) return;
    }
  }

  /** Fills the table. */
  showRows() {
    const { by, up } = this.order;
    const focused = document.querySelector("#rows :focus");
    const rows = this.grouped ? alike(this.items)
      : this.items.map((sum) => ({ sum, key: "", others: [] }));
    if (!this.isNewestFirst()) {
      rows.sort(({ sum: a }, { sum: b }) => (up ? a[by] - b[by] : b[by] - a[by]));
    }
    for (const column of /** @type {const} */ (["last", "first"])) {
      const head = byId(`by-${column}`).closest("th");
      head?.setAttribute("aria-sort", column !== by ? "none" : up ? "ascending" : "descending");
    }
    fill(this.body, ...rows.flatMap((row) => this.rowsOf(row)));
    this.fit();
    if (focused) this.focusAgain(focused);
  }

  /** The row of alike events, and if it is unfolded, those of the others.
   * @param {import("./alike.js").Alike} of */
  rowsOf({ key, sum, others }) {
    const row = this.row(sum);
    if (others.length === 0) return [row];
    const isOpen = this.unfolded.has(key);
    const button = el("button", { type: "button", class: "plain alike",
      "aria-expanded": String(isOpen), onclick: (/** @type {Event} */ event) => {
        event.stopPropagation();
        if (!this.unfolded.delete(key)) this.unfolded.add(key);
        this.showRows();
      } }, `${isOpen ? "▾" : "▸"} ${number(others.length)} more`);
    row.querySelector(".object div")?.append(button);
    if (!isOpen) return [row];
    const more = others.map((item) => this.row(item));
    for (const one of more) one.classList.add("other");
    return [row, ...more];
  }

  /** Gives the columns the widths of what is in them, and the message the rest. Long names of
   * objects and namespaces yield to it; their ends are kept. */
  fit() {
    const table = byId("rows-table");
    const { utc, day } = this.asked ?? { utc: false, day: 0 };
    const letter = parseFloat(getComputedStyle(table).fontSize) * LETTER;
    const wide = (/** @type {(item: Item) => string} */ text, /** @type {number} */ least) =>
      this.items.reduce((most, item) => Math.max(most, text(item).length), least) * letter + 18;
    const widths = {
      time: wide((item) => shortTime(item.last, utc, day), 10) + 6,
      first: wide((item) => shortTime(item.first, utc, day), 10),
      reason: Math.min(wide((item) => item.reason, 8) * BOLD, 44 * letter),
      object: wide((item) => shortObject(item.object), 12) + (this.grouped ? 11 * letter : 0),
      namespace: wide(whereOf, 9),
      count: wide(countOf, 6),
    };
    const { time, first, reason, count } = widths;
    const room = this.box.clientWidth * 0.66 - time - first - reason - count - 100;
    widths.object = Math.min(widths.object, Math.max(room * 0.7, 24 * letter));
    widths.namespace = Math.min(widths.namespace, Math.max(room * 0.3, 12 * letter));
    for (const [name, width] of Object.entries(widths)) {
      table.style.setProperty(`--${name}`, `${Math.ceil(width)}px`);
    }
    table.classList.toggle("one-namespace", new Set(this.items.map(whereOf)).size === 1);
  }

  /** @param {string|null} token @param {Asked} asked @param {boolean} [again] */
  async load(token, asked, again = false) {
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    const params = new URLSearchParams(asked.params);
    if (token) params.set("continue", token);
    try {
      /** @type {ItemPage} */
      const page = await get("events", params, control.signal);
      if (this.control !== control) return;
      this.failed = false;
      this.on.loaded(page.items);
      if (!token) {
        if (again && this.keeps()) return; // since it was asked
        this.asked = asked;
        this.items = [];
        this.came = 0;
        this.offer();
        this.box.scrollTop = 0;
      }
      this.items.push(...page.items);
      if (token && this.isNewestFirst() && !this.grouped) {
        append(this.body, ...page.items.map((item) => this.row(item)));
        this.fit();
      } else this.showRows();
      this.token = page.continue;
      this.complete = page.complete;
      this.ended();
    } catch (error) {
      if (isAbort(error) || this.control !== control) return;
      this.key = "";
      this.failed = !(error instanceof ApiError && error.status === 401);
      this.on.failed(error, () => {
        if (!this.control) void this.load(token, asked, again);
      });
    } finally {
      if (this.control === control) this.control = null;
    }
  }

  /** Gives the focus to the row of the same event as one that was replaced, else to the list.
   * @param {Element} before What had the focus in the row. */
  focusAgain(before) {
    const eventOf = (/** @type {Element|null} */ row) =>
      row?.querySelector("[data-event]")?.getAttribute("data-event");
    const event = eventOf(before.closest("tr"));
    const row = [...this.body.children].find((one) => eventOf(one) === event);
    const kind = before.classList.contains("alike") ? ".alike" : "[data-event]";
    const node = /** @type {HTMLElement|null|undefined} */ (row?.querySelector(kind));
    (node ?? this.box).focus({ preventScroll: true });
  }

  /** Shows the end of the list. */
  ended() {
    const { length } = this.items;
    if (this.token) {
      const which = this.isNewestFirst() ? "" : ", the last seen of the range, sorted";
      fill(this.foot, `${counted(length, "event")} shown${which}. `, this.more);
      return;
    }
    const end = length === 0
      ? "No event was last seen in this range. What was seen again later is in the lanes."
      : `${counted(length, "event")}: all that were last seen in this range.`;
    fill(this.foot, this.complete ? end : `${end} Not all were read; narrow the range.`);
  }

  /** @param {Item} item */
  row(item) {
    const { utc, day } = this.asked ?? { utc: false, day: 0 };
    const warning = item.type === "Warning";
    const where = whereOf(item);
    const object = shortObject(item.object);
    const cut = Math.max(0, object.length - TAIL);
    const time = (/** @type {"last"|"first"} */ at, /** @type {string} */ name) =>
      el("td", { class: name, title: `${dateTime(item[at], utc)}, `
        + `${ago(item[at], this.on.now())}` }, shortTime(item[at], utc, day));
    const open = () => this.on.open(item);
    const row = el("tr", { class: warning ? "warning" : "", onclick: open,
      onpointerenter: () => this.on.over(item), onpointerleave: () => this.on.over(null) },
      time("last", "time"), time("first", "first"),
      el("td", { class: "type", ...picked("type", item.type) }, warning ? "◆ " : "",
        item.type || "–"),
      el("td", { class: "reason", title: item.reason, ...picked("reason", item.reason) },
        el("button", { type: "button", class: "plain", "data-event": eventKey(item),
          onclick: (/** @type {Event} */ event) => {
            event.stopPropagation();
            open();
          } }, item.reason || "(no reason)")),
      el("td", { class: "object", title: `${item.object.kind} ${item.object.name}`,
        ...picked("object", `${item.object.kind}/${item.object.name}`) },
        el("div", {}, el("span", {}, object.slice(0, cut)), el("span", {}, object.slice(cut)))),
      el("td", { class: "namespace", title: where, ...picked("namespace", item.namespace) },
        where),
      el("td", { class: "cluster", title: item.cluster }, item.cluster),
      el("td", { class: "count" }, countOf(item)),
      el("td", { class: "message", title: item.message }, item.message),
      el("td", { class: "source", title: item.source, ...picked("source", item.source) },
        item.source));
    return row;
  }

  /** Moves between rows by arrow keys. @param {KeyboardEvent} event */
  pressed(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const row = event.target instanceof Element ? event.target.closest("tr") : null;
    const next = event.key === "ArrowDown" ? row?.nextElementSibling
      : row?.previousElementSibling;
    event.stopPropagation();
    event.preventDefault();
    next?.querySelector("button")?.focus();
  }
}

/** @param {FilterKey} key @param {string} value */
const picked = (key, value) => ({ "data-key": key, "data-value": value });

/** @param {Item} item */
const whereOf = (item) => item.object.namespace || item.namespace;

/** @param {Item} item */
const countOf = ({ count }) => (count > 1 ? `×${number(count)}` : "");

/** @param {Item} item */
const eventKey = ({ cluster, namespace, name }) => [cluster, namespace, name].join("/");
