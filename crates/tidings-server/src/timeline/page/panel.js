// The side panel: one object, or one event, as a sentence, then in detail.

import { get, isAbort } from "./api.js";
import { append, byId, copy, el, fill, visible } from "./dom.js";
import { shortKind, shortObject } from "./kinds.js";
import { ago, dateTime, number, shortTime } from "./time.js";
import { versionsView } from "./versions.js";
import { toYaml } from "./yaml.js";

/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */
/** @typedef {import("./types.js").ObjectDetail} ObjectDetail */
/** @typedef {import("./types.js").EventDetail} EventDetail */
/** @typedef {import("./view.js").Store} Store */

/** Longest raw event that is shown, in characters; all of it can be copied. */
const RAW = 100_000;

export class Panel {
  /** @param {Store} store @param {(error: unknown) => void} refused */
  constructor(store, refused) {
    this.store = store;
    this.refused = refused;
    this.box = byId("panel");
    this.content = byId("panel-content");
    this.kind = byId("panel-kind");
    this.title = byId("panel-title");
    /** @type {AbortController|null} */
    this.control = null;
    this.key = "";
    this.form = "YAML";
    /** What had the focus before the panel was opened. @type {HTMLElement|null} */
    this.before = null;
    byId("panel-close").addEventListener("click", () => this.close());
    byId("panel-link").addEventListener("click", (event) => {
      store.replace();
      void copied(/** @type {HTMLElement} */ (event.currentTarget), location.href);
    });
  }

  close() {
    this.store.set({ shown: null }, true);
    if (this.before?.isConnected) this.before.focus({ preventScroll: true });
    else byId("labels").querySelector("[tabindex='0']")?.dispatchEvent(new Event("focusin"));
  }

  /** @param {Shown|null} shown @param {[number, number]} range @param {boolean} again */
  async show(shown, range, again = false) {
    const key = JSON.stringify([shown, this.store.view.utc]);
    if (key === this.key && !again) return;
    const other = key !== this.key;
    this.key = key;
    this.control?.abort();
    const opened = shown !== null && this.box.hidden;
    if (opened && document.activeElement instanceof HTMLElement) {
      this.before = document.activeElement;
    }
    this.box.hidden = shown === null;
    document.body.classList.toggle("with-panel", shown !== null);
    if (!shown) return;
    const control = new AbortController();
    this.control = control;
    if (other) {
      fill(this.kind, shown.is === "object" ? shown.kind : "Event");
      fill(this.title, shown.name);
      this.box.setAttribute("aria-busy", "true");
    }
    if (opened) byId("panel-close").focus({ preventScroll: true });
    try {
      if (shown.is === "object") await this.showObject(shown, range, control.signal);
      else await this.showEvent(shown, control.signal);
      if (other) this.content.scrollTop = 0;
    } catch (error) {
      if (isAbort(error)) return;
      this.key = "";
      const gone = /** @type {{status?: number}} */ (error).status === 404;
      fill(this.content, el("p", { class: "problem", role: "alert" }, gone
        ? "This event is no longer kept, or the link is mistyped."
        : `It could not be read: ${/** @type {Error} */ (error).message}.`),
      el("button", { type: "button", onclick: () => this.show(shown, range, true) },
        "Try again"));
      this.refused(error);
    } finally {
      if (this.control === control) this.box.removeAttribute("aria-busy");
    }
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
    fill(this.content,
      el("p", { class: "sentence" }, detail.sentence),
      this.facts([["Namespace", namespace], ["Cluster", cluster]]),
      el("div", { class: "actions" },
        el("button", { type: "button", onclick: () => {
          const { filters } = this.store.view;
          this.store.setFilters({ ...filters, kind: [kind],
            namespace: namespace ? [namespace] : [], object: [name] });
        } }, "Only this object"),
        namespace && el("button", { type: "button",
          onclick: () => this.store.addFilter("namespace", namespace) }, "Only its namespace"),
        detail.items.length > 0 && el("button", { type: "button",
          onclick: () => this.zoomTo(detail.items) }, "Zoom to its events")),
      family.length > 0 && el("section", {}, el("h3", {}, "Family"),
        el("ul", { class: "family" }, ...family.map((one) => this.relative(one, cluster)))),
      el("section", {}, el("h3", {}, "Events"),
        detail.items.length === 0 ? el("p", { class: "faint" }, "None in this range.")
          : el("ul", { class: "items" }, ...detail.items.map((item) => this.entry(item))),
        detail.items.length >= 100
          && el("p", { class: "faint" }, "The last 100; the list below has all of the range.")),
      el("section", {}, el("h3", {}, "As a command"),
        ...this.commands({
          tidings: `tidings events ${namespace ? `-n ${quote(namespace)} ` : "-A "}--for `
            + `${quote(`${shortKind(kind)}/${name}`)} --since ${instant(range[0])} `
            + `--until ${instant(range[1])}`,
          kubectl: `kubectl get events ${namespace ? `-n ${quote(namespace)} ` : "-A "}`
            + "--field-selector "
            + quote(`involvedObject.kind=${kind},involvedObject.name=${name}`),
        })));
  }

  /** @param {Item[]} items */
  zoomTo(items) {
    const from = Math.min(...items.map((item) => item.first));
    const to = Math.max(...items.map((item) => item.last));
    const edge = Math.max((to - from) * 0.05, 2000);
    this.store.setRange(from - edge, to + edge, true);
  }

  /** @param {ObjectRef & {relation: string}} one @param {string} cluster */
  relative(one, cluster) {
    const open = () => this.store.set({ shown: { is: "object", cluster, kind: one.kind,
      namespace: one.namespace, name: one.name } }, true);
    return el("li", {}, el("span", { class: "faint" }, one.relation === "owner" ? "owner" : "owns"),
      el("button", { type: "button", class: "plain", onclick: open }, shortObject(one)));
  }

  /** @param {Item} item @param {string} [why] */
  entry(item, why) {
    const { utc } = this.store.view;
    const warning = item.type === "Warning";
    const open = () => this.store.set({ shown: { is: "event", cluster: item.cluster,
      namespace: item.namespace, name: item.name } }, true);
    return el("li", { class: warning ? "warning" : "" },
      el("button", { type: "button", class: "plain", onclick: open },
        el("span", { class: "time", title: dateTime(item.last, utc) },
          shortTime(item.last, utc, this.store.now())),
        el("b", { class: "reason" }, warning ? "◆ " : "", item.reason || "(no reason)"),
        item.count > 1 && el("span", { class: "count" }, `×${number(item.count)}`),
        why !== undefined && el("span", { class: "object" }, shortObject(item.object))),
      why && el("div", { class: "why" }, why),
      el("div", { class: "message" }, item.message));
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
    const width = Math.max(200, this.content.clientWidth - 32);
    fill(this.kind, item.type || "Event");
    fill(this.title, item.reason || item.name);
    fill(this.content,
      el("p", { class: "sentence" }, detail.sentence),
      el("p", { class: "message" }, item.message),
      el("div", { class: "actions" },
        of.name && el("button", { type: "button", onclick: () => this.store.set({
          shown: { is: "object", cluster, kind: of.kind, namespace: of.namespace, name: of.name },
        }, true) }, `Open ${shortObject(of)}`),
        item.reason && el("button", { type: "button",
          onclick: () => this.store.addFilter("reason", item.reason) }, "Only this reason"),
        el("button", { type: "button", onclick: () => this.zoomTo([item]) }, "Zoom to it")),
      this.facts([
        ["Object", of.name ? `${of.kind} ${of.name}` : ""], ["Namespace", item.namespace],
        ["Cluster", cluster],
        ["First seen", `${dateTime(item.first, utc)} (${ago(item.first, now)})`],
        ["Last seen", `${dateTime(item.last, utc)} (${ago(item.last, now)})`],
        ["Count", number(item.count)], ["Source", item.source], ["Host", item.host],
        ["Action", item.action], ["Name", item.name],
      ]),
      el("section", {}, el("h3", {}, "What changed before this"),
        detail.before.length === 0
          ? el("p", { class: "faint" }, "Nothing near it in time or in its family.")
          : el("ol", { class: "items" },
            ...detail.before.map(({ item: one, why }) => this.entry(one, why)))),
      el("section", {}, el("h3", {}, "Versions"), ...versionsView(detail, utc, width)),
      el("section", {}, el("h3", {}, "As a command"), ...this.commands(detail.commands)),
      this.raw(detail.raw));
  }

  /** @param {[string, string][]} rows */
  facts(rows) {
    const list = el("dl", { class: "facts" });
    for (const [name, value] of rows) {
      if (value) append(list, el("dt", {}, name), el("dd", {}, value));
    }
    return list;
  }

  /** @param {Record<string, string>} commands */
  commands(commands) {
    return Object.values(commands).filter(Boolean).map((command) => el("div", { class: "command" },
      el("code", { tabindex: 0 }, command), copyButton(command, "Copy")));
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

/** @param {string|(() => string)} text @param {string} label */
function copyButton(text, label) {
  return el("button", { type: "button", onclick: (/** @type {Event} */ event) =>
    copied(/** @type {HTMLElement} */ (event.currentTarget),
      typeof text === "string" ? text : text()) }, label);
}

/** Copies, and says so on the button for a moment. @param {HTMLElement} button
 * @param {string} text */
async function copied(button, text) {
  await copy(text);
  const label = button.textContent;
  if (label === "Copied") return;
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = label;
  }, 1500);
}

/** A word of a shell. @param {string} word */
const quote = (word) => (/^[\w./:=,@-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** @param {number} ms */
const instant = (ms) => `${new Date(Math.floor(ms)).toISOString().slice(0, 19)}Z`;
