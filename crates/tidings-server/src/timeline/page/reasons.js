// The table beside the list of events: what happened most, by reason or another key, since when,
// whether it still goes on, and what is new against the range before.

import { get, isAbort, parameters } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { shortObject } from "./kinds.js";
import { listed } from "./list.js";
import { ofObject, term } from "./terms.js";
import { ago, counted, dateTime, dayTime, number, SECOND, shortTime } from "./time.js";

/** @typedef {import("./types.js").Top} Top */
/** @typedef {import("./types.js").TopRow} TopRow */
/** @typedef {import("./types.js").Below} Below */
/** @typedef {import("./types.js").By} By */
/** @typedef {import("./view.js").Store} Store */

/** With more objects than this the table is opened first. */
const MANY_OBJECTS = 100;
/** Minimum milliseconds between two requests while only time passes. */
const AGAIN = 5 * SECOND;
/** @type {[By, string][]} */
const KEYS = [["reason", "Reason"], ["object", "Object"], ["namespace", "Namespace"],
  ["node", "Node"], ["source", "Source"]];
const NONE = "(none)";
const FORGOTTEN = "Nothing from before that range is kept: what is new may have been forgotten.";

export class Reasons {
  /**
   * @param {Store} store
   * @param {{failed: (error: unknown, again: () => void) => void,
   *   loaded: (by: By, rows: TopRow[]) => void}} on
   */
  constructor(store, on) {
    this.store = store;
    this.on = on;
    this.section = byId("list");
    this.head = byId("top-head");
    this.body = byId("top-rows");
    this.foot = byId("top-foot");
    /** Whether the first picture decided which of the two is opened. */
    this.decided = false;
    this.many = false;
    /** The column by which rows are sorted; "" as they come. @type {""|"first"|"last"} */
    this.sort = "";
    this.key = "";
    this.asked = 0;
    /** @type {Top|null} */
    this.top = null;
    /** @type {AbortController|null} */
    this.control = null;
    byId("tab-events").addEventListener("click", () => this.open("events"));
    byId("tab-top").addEventListener("click", () => this.open("reason"));
    byId("tabs").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      event.stopPropagation();
      this.open(this.below() === "events" ? "reason" : "events");
      byId(this.below() === "events" ? "tab-events" : "tab-top").focus();
    });
  }

  /** What is below the lanes. The events of an object that is selected come before all.
   * @returns {Below} */
  below() {
    const { view } = this.store;
    if (listed(view)) return "events";
    return view.below || (this.many ? "reason" : "events");
  }

  /** @param {Below} below */
  open(below) {
    const { view } = this.store;
    const other = below !== "events" && listed(view) ? { shown: null } : {};
    this.store.set({ below, ...other }, true);
  }

  /** Decides once which of the two is opened first. @param {number} objects */
  decide(objects) {
    if (this.decided) return;
    this.decided = true;
    this.many = objects > MANY_OBJECTS;
  }

  /** Shows the tab, and loads the table if it is open.
   * @param {boolean} [again] The same view once more. */
  async show(again = false) {
    const below = this.below();
    const isOpen = below !== "events";
    this.section.classList.toggle("top", isOpen);
    for (const [id, on] of /** @type {[string, boolean][]} */ (
      [["tab-events", !isOpen], ["tab-top", isOpen]])) {
      byId(id).setAttribute("aria-selected", String(on));
      byId(id).tabIndex = on ? 0 : -1;
    }
    if (!isOpen) {
      this.control?.abort();
      this.control = null;
      this.key = "";
      return;
    }
    const { view } = this.store;
    const by = below;
    const params = parameters({ ...this.store.asked(), by,
      ...(view.against && { against: "before" }) }, view.filters);
    const stable = new URLSearchParams(params);
    if (view.last !== null) stable.set("from", String(view.last));
    const key = `${stable} ${view.utc}`;
    if (key === this.key && (!again || performance.now() - this.asked < AGAIN)) return;
    if (key === this.key && this.body.contains(document.activeElement)) return;
    this.key = key;
    this.asked = performance.now();
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    try {
      /** @type {Top} */
      const top = await get("top", params, control.signal);
      if (this.control !== control) return;
      this.top = top;
      this.on.loaded(by, top.rows);
      this.draw();
    } catch (error) {
      if (isAbort(error) || this.control !== control) return;
      this.key = "";
      this.on.failed(error, () => void this.show(true));
    } finally {
      if (this.control === control) this.control = null;
    }
  }

  draw() {
    const { top } = this;
    if (!top) return;
    const { view } = this.store;
    const by = this.below();
    if (by === "events") return;
    fill(byId("top-tools"),
      el("div", { class: "group", role: "group", "aria-label": "Rows by" },
        ...KEYS.map(([key, label]) => el("button", { type: "button",
          "aria-pressed": String(key === by),
          onclick: () => this.store.set({ below: key }, true) }, `by ${label.toLowerCase()}`))),
      el("button", { type: "button", "aria-pressed": String(view.against),
        title: "Compare with the range of the same length just before",
        onclick: () => this.store.set({ against: !view.against }, true) },
      "Against the range before"));
    /** @param {""|"first"|"last"} sort @param {string} label @param {string} of */
    const sorted = (sort, label, of) => el("th", { scope: "col", class: of,
      "aria-sort": this.sort === sort ? (sort === "first" ? "ascending" : "descending") : null },
    el("button", { type: "button", class: "plain", onclick: () => {
      this.sort = sort;
      this.draw();
    } }, label));
    fill(this.head, el("tr", {},
      el("th", { scope: "col", class: "name" },
        KEYS.find(([key]) => key === by)?.[1] ?? ""),
      sorted("", top.counted === "occurrences" ? "Count" : `Count of ${top.counted}`, "count"),
      top.before && el("th", { scope: "col", class: "count" }, "Before"),
      by !== "object" && el("th", { scope: "col", class: "count objects" }, "Objects"),
      sorted("first", "First seen", "time"), sorted("last", "Last seen", "time"),
      el("th", { scope: "col", class: "over" }, "Over time"),
      el("th", { scope: "col", class: "out" }, el("span", { class: "offscreen" }, "Leave out"))));
    const rows = [...top.rows];
    if (this.sort === "first") rows.sort((a, b) => (a.first ?? Infinity) - (b.first ?? Infinity));
    if (this.sort === "last") rows.sort((a, b) => (b.last ?? 0) - (a.last ?? 0));
    fill(this.body, ...rows.map((row) => this.row(row, top, by)));
    fill(this.foot, ends(top));
  }

  /** @param {TopRow} row @param {Top} top @param {By} by */
  row(row, top, by) {
    const { view } = this.store;
    const warning = row.warnings * 2 > row.occurrences;
    const name = by === "object" ? shortObject(row) : row.name || NONE;
    const is = !top.before?.complete ? "" : row.occurrences > 0 && row.before === 0 ? "new"
      : row.occurrences === 0 ? "gone" : "";
    const isDoubted = is === "new" && !top.before?.known;
    // Of a table that is not of all events, every number is one of those that were read.
    const about = row.estimated || !top.complete ? "≈ " : "";
    const aboutBefore = row.beforeEstimated || top.before?.complete === false ? "≈ " : "";
    const tag = el("em", { class: is, title: isDoubted ? FORGOTTEN : null },
      isDoubted ? "new?" : is);
    return el("tr", { class: warning ? "warning" : "" },
      el("th", { scope: "row", class: "name" },
        el("button", { type: "button", class: "plain", title: `Only ${name}`,
          onclick: () => this.filter(row, by, false) }, warning ? "◆ " : "", name),
        is && tag, by === "object" && row.namespace
          && el("span", { class: "faint" }, row.namespace),
        row.uid && el("span", { class: "faint", title: row.uid }, `uid ${row.uid.slice(0, 8)}…`),
        row.cluster && el("span", { class: "faint" }, row.cluster)),
      el("td", { class: "count" }, `${about}×${number(row.occurrences)}`),
      top.before && el("td", { class: "count" }, `${aboutBefore}×${number(row.before)}`),
      by !== "object" && el("td", { class: "count objects" },
        row.objects === null ? "" : `${top.complete ? "" : "≈ "}${number(row.objects)}`),
      el("td", { class: "time" }, this.time(row, row.first, top)),
      el("td", { class: "time" }, row.going
        ? el("b", { class: "going", title: row.last === null ? "" : dateTime(row.last, view.utc) },
          "still going") : this.time(row, row.last, top)),
      el("td", { class: "over", title: row.partsEstimated
        ? "≈ evenly between the first and the last time of each event" : "" },
      el("span", { class: "about" }, row.partsEstimated ? "≈" : ""), spark(row.parts)),
      el("td", { class: "out" }, el("button", { type: "button", class: "plain",
        title: `Without ${name}`, "aria-label": `Without ${name}`,
        onclick: () => this.filter(row, by, true) }, "⊖")));
  }

  /** A time with its day if it is another one than the range's. What is only known to the hour has
   * a ≈. @param {TopRow} row @param {number|null} at @param {Top} top */
  time(row, at, { from, to, now }) {
    if (at === null) return "";
    const { utc } = this.store.view;
    const isNear = dateTime(from, utc).slice(0, 10) === dateTime(to - 1, utc).slice(0, 10)
      && dateTime(at, utc).slice(0, 10) === dateTime(from, utc).slice(0, 10);
    const text = isNear ? shortTime(at, utc, at) : dayTime(at, utc, from);
    return el("span", { title: `${dateTime(at, utc)}, ${ago(at, now)}` },
      row.byHour ? `≈ ${text}` : text);
  }

  /** Only this, or without it. @param {TopRow} row @param {By} by @param {boolean} excluded */
  filter(row, by, excluded) {
    const { store } = this;
    if (by === "object") {
      const { cluster, kind, namespace, name } = row;
      if (excluded) store.addFilter("object", `${kind}/${name}`, true);
      else store.setFilters(ofObject(store.view.filters, { cluster, kind, namespace, name }));
    } else {
      const key = by === "node" ? "host" : by;
      const cluster = row.cluster && !excluded ? [term("cluster", row.cluster)] : [];
      store.removeFilter(term(key, row.name, !excluded),
        [...cluster, term(key, row.name, excluded)]);
    }
  }
}

/** What the rows leave out. @param {Top} top */
function ends({ rows, more, complete, laterComplete, read, counted: unit, before }) {
  return [
    rows.length === 0 && "No event in this range matches.",
    !complete && unit === "occurrences"
      && `Of the ${counted(read ?? 0, "event")} seen last; narrow the range for all.`,
    !laterComplete && "What happened in the range and again long after it may be missing.",
    before && !before.complete && "The range before was not read whole: nothing is called new.",
    unit !== "occurrences" && `Counted by hour, each of the ${unit} once.`,
    more > 0 && `${number(more)} more are not shown.`,
    before?.complete && !before.known && FORGOTTEN,
  ].filter(Boolean).join(" ");
}

const SVG = "http://www.w3.org/2000/svg";

/** Bars of a row on the axis of the lanes, the highest for its busiest part.
 * @param {number[]} parts */
function spark(parts) {
  const most = Math.max(1, ...parts);
  const bars = parts.map((value, at) => (value === 0 ? ""
    : `M${at} 16v${-Math.max(2, (value / most) * 16)}h0.8V16z`));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${parts.length} 16`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", bars.join(""));
  svg.appendChild(path);
  return svg;
}
