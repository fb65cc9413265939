// The header: ranges, times, live, export and the rest, as buttons.

import { logout, parameters, url } from "./api.js";
import { listCommand } from "./commands.js";
import { byId, copy, el, fill, visible } from "./dom.js";
import { notify } from "./notices.js";
import { switchTheme } from "./theme.js";
import { DAY, dateTime, HOUR, MINUTE, number, parseMoment, zoneName } from "./time.js";

/** @typedef {import("./known.js").Known} Known */
/** @typedef {import("./view.js").Store} Store */
/** @typedef {import("./types.js").Overview} Overview */

/** @type {[string, number][]} */
export const QUICK = [
  ["15 min", 15 * MINUTE], ["1 h", HOUR], ["6 h", 6 * HOUR], ["24 h", DAY], ["7 d", 7 * DAY],
  ["30 d", 30 * DAY],
];

export class Header {
  /** @param {Store} store @param {Known} known
   * @param {{save: (form: "svg"|"png") => void, help: () => void, all: () => void}} on */
  constructor(store, known, on) {
    this.store = store;
    this.from = /** @type {HTMLInputElement} */ (byId("from"));
    this.to = /** @type {HTMLInputElement} */ (byId("to"));
    this.live = byId("live");
    this.quick = QUICK.map(([label, length], index) => el("button", { type: "button",
      title: `The last ${label} (${index + 1})`,
      onclick: () => this.setLast(length) }, label));
    this.known = known;
    this.all = el("button", { type: "button", title: "All there is (0)", onclick: on.all }, "All");
    fill(byId("ranges"), ...this.quick, this.all);
    /** @param {string} id @param {() => void} act */
    const button = (id, act) => byId(id).addEventListener("click", act);
    button("pan-left", () => store.pan(-0.5));
    button("pan-right", () => store.pan(0.5));
    button("zoom-in", () => store.zoom(0.5));
    button("zoom-out", () => store.zoom(2));
    button("live", () => this.toggleLive());
    button("zone", () => store.set({ utc: !store.view.utc }));
    button("theme", switchTheme);
    button("help-button", on.help);
    button("by-type", () => store.set({ by: "type" }, true));
    button("by-reason", () => store.set({ by: "reason" }, true));
    button("count", () => store.set({
      count: store.view.count === "events" ? "occurrences" : "events" }, true));
    button("logout", async () => {
      await logout().catch(() => undefined);
      location.reload();
    });
    button("export-svg", () => on.save("svg"));
    button("export-png", () => on.save("png"));
    button("export-link", () => {
      store.replace();
      void copy(location.href).then(() => tellCopied("link"));
    });
    button("export-command", () => {
      const { command, left } = listCommand(store.view.filters, store.range(), known);
      void copy(command).then(() => (left.length === 0 ? tellCopied("command")
        : notify("command", { text:
          `The command is copied. It does not express: ${left.join(", ")}.` })));
    });
    store.listeners.push(() => notify("command", null));
    this.startMenu();
    byId("range-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submitRange();
    });
  }

  startMenu() {
    const opener = byId("export");
    const menu = byId("export-menu");
    /** @param {boolean} open */
    const set = (open) => {
      menu.hidden = !open;
      opener.setAttribute("aria-expanded", String(open));
      if (!open) return;
      const [from, to] = this.store.range();
      for (const format of ["jsonl", "perfetto"]) {
        const params = parameters({ format, from: Math.floor(from), to: Math.ceil(to) },
          this.store.view.filters);
        /** @type {HTMLAnchorElement} */ (byId(`export-${format}`)).href = url("export", params);
      }
    };
    const items = () => [...menu.querySelectorAll("a, button")]
      .map((node) => /** @type {HTMLElement} */ (node));
    opener.addEventListener("click", () => {
      set(menu.hidden === true);
      if (!menu.hidden) items()[0].focus();
    });
    menu.addEventListener("click", () => set(false));
    menu.addEventListener("keydown", (event) => {
      const all = items();
      const at = all.findIndex((node) => node === document.activeElement);
      const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (by) all[(at + by + all.length) % all.length].focus();
      else if (event.key === "Escape") {
        set(false);
        opener.focus();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    document.addEventListener("pointerdown", (event) => {
      const inside = event.target instanceof Element && event.target.closest(".menu");
      if (!menu.hidden && !inside) set(false);
    });
  }

  /** @param {number} last */
  setLast(last) {
    this.store.set({ last, skip: 0 }, true);
  }

  /** Stops at the range in view, or follows the present with a range of the same length. */
  toggleLive() {
    const [from, to] = this.store.range();
    if (this.store.view.last !== null) {
      this.store.pause();
      return;
    }
    const near = Math.abs(to - this.store.now()) < (to - from) * 2;
    const length = Math.max(MINUTE, Math.round((to - from) / 1000) * 1000);
    this.setLast(near ? length : HOUR);
  }

  submitRange() {
    const { utc } = this.store.view;
    notify("range", null);
    const [day] = this.store.range();
    const present = this.store.now();
    const from = parseMoment(this.from.value, utc, present, day);
    const now = /^now$/i.test(this.to.value.trim());
    const to = parseMoment(this.to.value, utc, present, from ?? day);
    this.from.setAttribute("aria-invalid", String(from === null));
    this.to.setAttribute("aria-invalid", String(to === null));
    if (from === null || to === null || to <= from) {
      notify("range", { bad: true, text: from !== null && to !== null
        ? "The range ends before it begins."
        : "Write times as 2026-01-31 13:08, 13:08 of the day in view, -2h or now." });
      return;
    }
    if (now) this.setLast(Math.max(1000, Math.round((to - from) / 1000) * 1000));
    else this.store.setRange(from, to, true);
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  }

  /** @param {Overview} overview */
  setOverview(overview) {
    byId("logout").title = visible(`Log out ${overview.user}`);
    // A reader who came by a link, which can be used once, could not log in again.
    byId("logout").hidden = overview.login === "code";
  }

  /** Updates the buttons. @param {number} came Events received while the view stands still.
   * @param {string} lag The clusters that are not followed, if any. */
  show(came, lag) {
    const { view } = this.store;
    const [from, to] = this.store.range();
    setValue(this.from, dateTime(from, view.utc));
    setValue(this.to, dateTime(to, view.utc));
    const live = view.last !== null;
    press(this.live, live);
    setText(byId("live-text"), live && lag ? lag
      : !live && came > 0 ? `Live · ${number(came)} new` : "Live");
    this.live.classList.toggle("came", !live && came > 0);
    this.live.classList.toggle("lags", live && lag !== "");
    setText(byId("zone"), view.utc ? "UTC" : "Local");
    setText(byId("axis-zone"), zoneName(view.utc));
    QUICK.forEach(([, length], index) => press(this.quick[index], view.last === length));
    const isQuick = QUICK.some(([, length]) => view.last === length);
    press(this.all, !isQuick && this.known.isWhole(from, to));
    const { shown, filters } = view;
    const title = [shown?.name, ...filters, "Timeline · tidings"].filter(Boolean).join(" · ");
    if (document.title !== visible(title)) document.title = visible(title);
    press(byId("by-type"), view.by === "type");
    press(byId("by-reason"), view.by === "reason");
    press(byId("count"), view.count === "events");
  }
}

/** Says for a moment that something was copied. @param {string} what */
function tellCopied(what) {
  notify("command", { text: `The ${what} is copied.` });
  setTimeout(() => notify("command", null), 4000);
}

/** @param {HTMLElement} node @param {boolean} on */
function press(node, on) {
  if (node.getAttribute("aria-pressed") !== String(on)) {
    node.setAttribute("aria-pressed", String(on));
  }
}

/** @param {HTMLElement} node @param {string} text */
function setText(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** Sets the value, unless the field is being edited.
 * @param {HTMLInputElement} field @param {string} text */
function setValue(field, text) {
  if (field !== document.activeElement && field.value !== text) {
    field.value = text;
    field.removeAttribute("aria-invalid");
  }
}
