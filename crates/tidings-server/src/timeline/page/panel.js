// The side panel: one object, or one event, as a sentence, then in detail.

import { ApiError, get, isAbort, isFinal } from "./api.js";
import { beforeView, pinsOf } from "./before.js";
import { leftOut, objectCommands } from "./commands.js";
import { append, byId, copy, el, fill, isSelected, visible } from "./dom.js";
import { shortObject } from "./kinds.js";
import { ofObject } from "./terms.js";
import { ago, dateTime, number, SECOND, shortTime } from "./time.js";
import { versionsView } from "./versions.js";
import { toYaml } from "./yaml.js";

/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */
/** @typedef {import("./types.js").ObjectDetail} ObjectDetail */
/** @typedef {import("./types.js").EventDetail} EventDetail */
/** @typedef {import("./known.js").Known} Known */
/** @typedef {import("./view.js").Store} Store */

/** Maximum characters shown of a raw event; all of it can be copied. */
const RAW = 100_000;
/** The width from which the panel has two columns, as in the style sheet. */
const TWO_COLUMNS = 660;
/** Lines of a message that are shown at first. */
const LINES = 12;
/** Minimum milliseconds between two requests for an object while the range moves. */
const AGAIN = 5 * SECOND;

export class Panel {
  /** @param {Store} store @param {Known} known
   * @param {{failed: (error: unknown, again: () => void) => void, settled: () => void,
   *   pins: import("./pins.js").Pins, draw: () => void,
   *   zoom: (from: number, to: number) => void}} on What failed is tried again by who is
   *   told; it is settled if it succeeded or is wanted no more. */
  constructor(store, known, on) {
    this.store = store;
    this.known = known;
    this.on = on;
    this.box = byId("panel");
    this.content = byId("panel-content");
    this.kind = byId("panel-kind");
    this.title = byId("panel-title");
    /** @type {AbortController|null} */
    this.control = null;
    /** The subject shown. */
    this.subject = "";
    /** The range for which it is shown, if that matters. @type {number|null} */
    this.last = null;
    this.stamp = "";
    /** The content is still that of the former subject. */
    this.fresh = false;
    this.failed = false;
    /** The message shown instead. */
    this.problem = "";
    this.form = "YAML";
    /** The element that had the focus before the panel was opened. @type {HTMLElement|null} */
    this.before = null;
    byId("panel-close").addEventListener("click", () => this.close());
    byId("panel-link").addEventListener("click", (event) => {
      store.replace();
      void copied(/** @type {HTMLElement} */ (event.currentTarget), location.href);
    });
  }

  close() {
    this.store.set({ shown: null }, true);
    if (document.activeElement === document.body) this.leave();
  }

  /** Gives the focus back to what had it before the panel was opened, else to the current lane. */
  leave() {
    const { before } = this;
    for (const node of [before?.isConnected ? before : this.sameRow(before),
      byId("labels").querySelector("[tabindex='0']"), byId("list")]) {
      if (!(node instanceof HTMLElement) || node === document.body) continue;
      node.focus({ preventScroll: true });
      if (document.activeElement === node) return;
    }
  }

  /** The same row of the list, which may have been made anew since.
   * @param {HTMLElement|null} before */
  sameRow(before) {
    const event = before?.dataset.event;
    return event === undefined ? undefined : [...document.querySelectorAll("#rows [data-event]")]
      .find((node) => node.getAttribute("data-event") === event);
  }

  /** @param {Shown|null} shown @param {[number, number]} range @param {boolean} [again] */
  async show(shown, range, again = false) {
    const { last, utc } = this.store.view;
    const subject = JSON.stringify([shown, utc]);
    const other = subject !== this.subject;
    // The events of an object are those of the range.
    const stamp = shown?.is !== "object" ? "" : last === null ? range.join()
      : String(Math.floor(this.store.now() / AGAIN));
    const ranged = shown?.is === "object" && last !== this.last;
    if (!other && !ranged && stamp === this.stamp && !again) return;
    // Only time has passed, which disturbs neither a reader nor a request in progress.
    const ticks = !other && !ranged && !again && last !== null;
    if (ticks && (this.failed || this.control || isSelected(this.content))) return;
    this.subject = subject;
    this.last = last;
    this.stamp = stamp;
    this.control?.abort();
    this.control = null;
    if (other) {
      this.pin([]);
      this.fresh = true;
      this.failed = false;
      this.problem = "";
      this.on.settled();
    }
    // Beside a list in a narrow window it is not shown, though not hidden.
    const opened = shown !== null && this.box.offsetHeight === 0;
    const left = shown === null && this.box.contains(document.activeElement);
    if (opened && document.activeElement instanceof HTMLElement) {
      this.before = document.activeElement;
    }
    this.box.hidden = shown === null;
    document.body.classList.toggle("with-panel", shown !== null);
    document.body.classList.toggle("with-span", shown?.is === "object" && !!shown.span);
    if (left) this.leave();
    if (!shown) return;
    const control = new AbortController();
    this.control = control;
    if (other) {
      fill(this.kind, shown.is === "object" ? shown.kind : "Event");
      fill(this.title, shown.name);
      this.box.setAttribute("aria-busy", "true");
    }
    if (opened) {
      byId("panel-close").focus({ preventScroll: true });
      // A narrow window has the list instead.
      if (!this.box.contains(document.activeElement)) byId("list").focus({ preventScroll: true });
    }
    try {
      if (shown.is === "object") await this.showObject(shown, range, control.signal);
      else await this.showEvent(shown, control.signal);
      this.failed = false;
      this.problem = "";
      this.on.settled();
    } catch (error) {
      if (isAbort(error) || this.control !== control) return;
      this.failed = true;
      const final = error instanceof ApiError && isFinal(error);
      if (!ticks || final) this.tell(/** @type {Error} */ (error));
      if (!(error instanceof ApiError) || (final && error.status !== 401)) {
        this.on.settled(); // nothing is retried automatically
        return;
      }
      if (error.status === 401) this.subject = ""; // requested again after a login
      this.on.failed(error, () => {
        if (this.subject === subject) void this.show(shown, this.store.range(), true);
      });
    } finally {
      if (this.control === control) {
        this.control = null;
        this.box.removeAttribute("aria-busy");
      }
    }
  }

  /** @param {import("./pins.js").Pin[]} pins */
  pin(pins) {
    this.on.pins.set(pins);
    this.on.draw();
  }

  /** Shows an error, once. @param {Error} error */
  tell(error) {
    const gone = error instanceof ApiError && error.status === 404;
    const problem = gone ? "This event is no longer kept, or the link is mistyped."
      : `It could not be read: ${error.message}.`;
    if (problem === this.problem) return;
    this.problem = problem;
    fill(this.content, el("p", { class: "problem", role: "alert" }, problem),
      el("button", { type: "button",
        onclick: () => this.show(this.store.view.shown, this.store.range(), true) }, "Try again"));
  }

  /** Fills the panel; a reader of the same in it stays where they are.
   * @param {...import("./dom.js").Child} children */
  put(...children) {
    const all = () => [...this.content.querySelectorAll("button, [tabindex]")]
      .map((node) => /** @type {HTMLElement} */ (node));
    const { fresh } = this;
    const { scrollTop } = this.content;
    const old = all();
    const at = old.findIndex((node) => node === document.activeElement);
    const focused = old[at];
    const alike = (/** @type {HTMLElement[]} */ nodes) =>
      nodes.filter((node) => label(node) === label(focused));
    const nth = focused ? alike(old).indexOf(focused) : -1;
    fill(this.content, ...children);
    this.fresh = false;
    this.content.scrollTop = fresh ? 0 : scrollTop;
    if (!focused) return;
    if (fresh) {
      byId("panel-close").focus({ preventScroll: true });
      return;
    }
    const now = all();
    (alike(now)[nth] ?? now[Math.min(at, now.length - 1)])?.focus({ preventScroll: true });
  }

  /** @param {Extract<Shown, {is: "object"}>} shown @param {[number, number]} range
   * @param {AbortSignal} signal */
  async showObject(shown, range, signal) {
    const { cluster, kind, namespace, name } = shown;
    const params = new URLSearchParams({ cluster, kind, namespace, name,
      from: String(Math.floor(range[0])), to: String(Math.ceil(range[1])) });
    /** @type {ObjectDetail} */
    const detail = await get("object", params, signal);
    const family = detail.family.filter((one) => one.relation !== "self");
    this.put(el("div", { class: "main" },
      el("p", { class: "sentence" }, detail.sentence),
      this.facts([["Namespace", namespace, "namespace"], ["Cluster", cluster, "cluster"],
        ...this.seen(detail.summary)]),
      el("div", { class: "actions" },
        el("button", { type: "button", onclick: () =>
          this.store.setFilters(ofObject(this.store.view.filters,
            { cluster: this.known.clusters.length > 1 ? cluster : "", kind, namespace, name })) },
        "Only this object"),
        namespace && el("button", { type: "button",
          onclick: () => this.store.addFilter("namespace", namespace) }, "Only its namespace"),
        detail.items.length > 0 && el("button", { type: "button",
          onclick: () => this.zoomTo(detail.summary ? [detail.summary] : detail.items) },
        "Zoom to its events")),
      family.length > 0 && el("section", {}, el("h3", {}, "Family"),
        el("ul", { class: "family" }, ...family.map((one) => this.relative(one, cluster))))),
    el("section", { class: "side" }, el("h3", {}, "Events"),
      detail.items.length === 0 ? el("p", { class: "faint" }, "None in this range.")
        : el("ul", { class: "items" }, ...detail.items.map((item) => this.entry(item))),
      detail.items.length >= 100
        && el("p", { class: "faint" }, "The last 100; the list has all of the range.")),
    el("section", { class: "rest" }, el("h3", {}, "As a command"),
      ...this.commands(objectCommands(shown, range, this.known), shown)));
  }

  /** When an object was first and last seen in the range.
   * @param {ObjectDetail["summary"]} summary @returns {[string, string][]} */
  seen(summary) {
    if (!summary) return [];
    const { utc } = this.store.view;
    const now = this.store.now();
    const { first, last, occurrences, complete } = summary;
    const about = complete ? "" : "of the last events: ";
    return [["First seen", `${about}${dateTime(first, utc)} (${ago(first, now)})`],
      ["Last seen", `${dateTime(last, utc)} (${ago(last, now)})`],
      ["Occurrences", about + number(occurrences)]];
  }

  /** @param {{first: number, last: number}[]} items */
  zoomTo(items) {
    const from = Math.min(...items.map((item) => item.first));
    const to = Math.max(...items.map((item) => item.last));
    this.on.zoom(from, to);
  }

  /** @param {ObjectRef & {relation: string}} one @param {string} cluster */
  relative(one, cluster) {
    const open = () => this.store.set({ shown: { is: "object", cluster, kind: one.kind,
      namespace: one.namespace, name: one.name } }, true);
    return el("li", {}, el("span", { class: "faint" }, one.relation === "owner" ? "owner" : "owns"),
      el("button", { type: "button", class: "plain", onclick: open }, shortObject(one)));
  }

  /** @param {Item} item */
  entry(item) {
    const { utc } = this.store.view;
    const warning = item.type === "Warning";
    return el("li", { class: warning ? "warning" : "" },
      el("button", { type: "button", class: "plain", onclick: () => this.open(item) },
        el("span", { class: "time", title: dateTime(item.last, utc) },
          shortTime(item.last, utc, this.store.now())),
        el("b", { class: "reason" }, warning ? "◆ " : "", item.reason || "(no reason)"),
        item.count > 1 && el("span", { class: "count" }, `×${number(item.count)}`)),
      el("div", { class: "message" }, item.message));
  }

  /** @param {Item} item */
  open({ cluster, namespace, name }) {
    this.store.set({ shown: { is: "event", cluster, namespace, name } }, true);
  }

  /** @param {Extract<Shown, {is: "event"}>} shown @param {AbortSignal} signal */
  async showEvent(shown, signal) {
    const { cluster, namespace, name } = shown;
    /** @type {EventDetail} */
    const detail = await get("event", new URLSearchParams({ cluster, namespace, name }), signal);
    const { item } = detail;
    const { utc } = this.store.view;
    const now = this.store.now();
    const of = item.object;
    // With the event's namespace, which is visible; a cluster-scoped object has none.
    const object = { cluster, kind: of.kind, namespace, name: of.name };
    const inside = this.content.clientWidth;
    const width = Math.max(200, (inside >= TWO_COLUMNS ? inside / 2 : inside) - 32);
    fill(this.kind, item.type || "Event");
    fill(this.title, item.reason || item.name);
    this.put(el("div", { class: "main" },
      el("p", { class: "sentence" }, detail.sentence),
      ...messageView(item.message),
      el("div", { class: "actions" },
        of.name && el("button", { type: "button", onclick: () => this.store.set({
          shown: { is: "object", cluster, kind: of.kind, namespace: of.namespace, name: of.name },
        }, true) }, `Open ${shortObject(of)}`),
        item.reason && el("button", { type: "button",
          onclick: () => this.store.addFilter("reason", item.reason) }, "Only this reason"),
        el("button", { type: "button", onclick: () => this.zoomTo([item]) }, "Zoom to it")),
      this.facts([
        ["Object", of.name ? `${of.kind} ${of.name}` : "", "object", `${of.kind}/${of.name}`],
        ["Namespace", item.namespace, "namespace"], ["Cluster", cluster, "cluster"],
        ["Reason", item.reason, "reason"],
        ["Began", detail.began < item.first
          ? `${dateTime(detail.began, utc)}, with similar events` : ""],
        ["First seen", `${dateTime(item.first, utc)} (${ago(item.first, now)})`],
        ["Last seen", `${dateTime(item.last, utc)} (${ago(item.last, now)})`],
        ["Count", number(item.count)], ["Source", item.source, "source"],
        ["Host", item.host, "host"],
        ["Action", item.action], ["Name", item.name],
      ])),
    el("div", { class: "side" },
      beforeView(detail, { utc, day: item.first, open: (one) => this.open(one),
        over: (pin) => {
          this.on.pins.over = pin;
          this.on.draw();
        } })),
    el("div", { class: "rest" },
      el("section", {}, el("h3", {}, "Versions"), ...versionsView(detail, utc, width)),
      el("section", {}, el("h3", {}, "As a command"),
        ...this.commands(objectCommands(object, null, this.known), shown)),
      this.raw(detail.raw)));
    this.pin(pinsOf(detail));
  }

  /** Names with values; a value that can be a term of the filter has its key, and perhaps another
   * form there. @param {[string, string, FilterKey?, string?][]} rows */
  facts(rows) {
    const list = el("dl", { class: "facts" });
    for (const [name, value, key, form] of rows) {
      if (value) {
        append(list, el("dt", {}, name), el("dd", key ? { "data-key": key,
          "data-value": form ?? value, tabindex: 0 } : {}, value));
      }
    }
    return list;
  }

  /** @param {Record<string, string>} commands @param {Shown} shown */
  commands(commands, shown) {
    const left = leftOut(shown, this.known);
    return [
      ...Object.values(commands).filter(Boolean).map((command) => el("div", { class: "command" },
        el("code", { tabindex: 0 }, command), copyButton(command, "Copy"))),
      left.length > 0
        && el("p", { class: "faint" }, `The commands do not express: ${left.join(", ")}.`),
      this.known.clusters.length > 1 && !this.known.link
        && el("p", { class: "faint" }, "kubectl asks the cluster of its current context."),
    ];
  }

  /** @param {unknown} raw */
  raw(raw) {
    const pre = el("pre", { tabindex: 0 });
    const forms = el("div", { class: "actions", role: "group", "aria-label": "Form" });
    const text = () => (this.form === "JSON" ? JSON.stringify(raw, null, 2) : toYaml(raw).trim());
    const write = () => {
      const all = text();
      // Escaped as everywhere, but for the line ends.
      const lines = all.slice(0, RAW).split("\n").map(visible).join("\n");
      fill(pre);
      const left = all.length - RAW;
      pre.textContent = left > 0 ? `${lines}\n… ${number(left)} more; Copy has all` : lines;
      fill(forms, ...["YAML", "JSON"].map((form) => el("button", { type: "button",
        "aria-pressed": String(form === this.form), onclick: () => {
          this.form = form;
          write();
        } }, form)), copyButton(text, "Copy"));
    };
    write();
    return el("section", {}, el("h3", {}, "As it was recorded"), forms, pre);
  }
}

/** A message with its lines; of a long one, the first lines and a button for the others.
 * @param {string} message */
function messageView(message) {
  const lines = message.trimEnd().split("\n");
  const text = el("p", { class: "message" }, lines.slice(0, LINES).join("\n"));
  if (lines.length <= LINES) return [text];
  const more = el("button", { type: "button", onclick() {
    fill(text, message);
    more.remove();
  } }, `Show all ${number(lines.length)} lines`);
  return [text, more];
}

/** @param {string|(() => string)} text @param {string} label */
function copyButton(text, label) {
  return el("button", { type: "button", onclick: (/** @type {Event} */ event) =>
    copied(/** @type {HTMLElement} */ (event.currentTarget),
      typeof text === "string" ? text : text()) }, label);
}

/** A button's text, except just after it copied something.
 * @param {HTMLElement} node */
const label = (node) => node.dataset.label ?? node.textContent;

/** Copies, and shows that on the button for a moment. @param {HTMLElement} button
 * @param {string} text */
async function copied(button, text) {
  await copy(text);
  if (button.dataset.label !== undefined) return;
  const { textContent } = button;
  button.dataset.label = textContent ?? "";
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = textContent;
    delete button.dataset.label;
  }, 1500);
}
