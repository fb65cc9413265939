// Lanes: a tree of labels in the page, and one canvas for all marks beside it. The canvas covers
// the rows in view and half a window around them, and scrolls with them, so that marks and labels
// never come apart; beyond that nothing is drawn.

import { paintDensity } from "./density.js";
import { arrange, byId } from "./dom.js";
import { foldsThatFit, keptOrder, sameMark } from "./kept.js";
import { Label } from "./labels.js";
import { marking } from "./marking.js";
import {
  markAt, NARROW, paintGaps, paintGrid, paintLife, paintMark, paintNow, paintWords, toX, WIDE,
} from "./paint.js";
import { Pins } from "./pins.js";
import { isIn, isOf, isShown, laneKey } from "./shown.js";
import { reasonRows } from "./split.js";
import { canvasSurface, fit } from "./surface.js";
import { colours } from "./theme.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").Lane} Lane */
/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").View} View */
/** @typedef {import("./paint.js").Scale} Scale */

/** @typedef {{lane: Lane, key: string, marks: Mark[], drawn: Mark[], lanes: Lane[],
 *   parent: boolean, folded: boolean, label: Label, reason?: string}} Row `drawn` and `lanes` are
 *   its own and those of what is folded below; `reason` is that of a row of one reason. */

export class Lanes {
  /** @param {(lane: Lane) => void} open Called for a lane that is clicked. */
  constructor(open) {
    this.open = open;
    this.box = byId("lanes");
    this.body = byId("lanes-body");
    this.labels = byId("labels");
    this.canvas = /** @type {HTMLCanvasElement} */ (byId("marks"));
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    /** @type {Picture|null} */
    this.picture = null;
    /** @type {Row[]} All lanes, those that are folded away too. */
    this.all = [];
    /** @type {Row[]} */
    this.rows = [];
    /** Whether what is folded was chosen; else it is what does not fit. */
    this.byHand = false;
    /** @type {Set<string>} */
    this.folded = new Set();
    /** The lanes in the order in which they are drawn, by their numbers in the picture.
     * @type {number[]} */
    this.order = [];
    /** A pointer is inside: what it is over stays where it is. */
    this.inside = false;
    /** The key of the lane that the panel shows: it has a row for each of its reasons below it. */
    this.split = "";
    /** The key of the lane that a row of the list is about. */
    this.lit = "";
    /** The key of the lane that the keyboard acts on. */
    this.current = "";
    /** The mark in the current lane that the keyboard acts on. @type {Mark|null} */
    this.mark = null;
    /** The mark that the keyboard acted on when it left the picture: it is at it again when a later
     * picture has it. @type {{key: string, mark: Mark, picture: Picture}|null} */
    this.left = null;
    this.shape = WIDE;
    this.marking = marking({ reasons: [], changes: [], rates: { series: [] } }, "type");
    this.pins = new Pins();
    /** Of the window on the lanes: measured when it changes, since a question for a size has the
     * browser lay out at once what it would lay out later. */
    this.width = 0;
    this.height = 0;
    this.top = 0;
    this.body.addEventListener("pointerenter", ({ pointerType }) => {
      this.inside = pointerType === "mouse";
    });
    this.body.addEventListener("pointerleave", () => {
      this.inside = false;
      if (this.order.every((lane, index) => lane === index)) return;
      this.order = this.all.map((_, index) => index);
      this.layout();
      this.box.dispatchEvent(new Event("redraw"));
    });
    this.labels.addEventListener("click", (event) => this.clicked(event));
    this.labels.addEventListener("focusin", (event) => {
      const row = this.rowOf(event.target);
      if (row) this.setCurrent(row);
    });
  }

  /** @param {Picture} picture @param {{clusters: boolean, by: "type"|"reason",
   *   again: boolean}} of Whether names include the cluster, what the rates are by, and whether the
   *   picture is of the same view as the one before. */
  setPicture(picture, { clusters, by, again }) {
    this.marking = marking(picture, by);
    const anchor = this.anchor();
    const left = this.mark && this.picture
      ? { key: this.current, mark: this.mark, picture: this.picture } : this.left;
    this.picture = picture;
    this.mark = null;
    /** @type {Mark[][]} */
    const marks = picture.lanes.map(() => []);
    for (const mark of picture.marks) marks[mark[0]]?.push(mark);
    const parents = new Set(picture.lanes.map((lane) => lane.parent));
    const labels = new Map(this.all.map((row) => [row.key, row.label]));
    const places = new Map(this.order.map((lane, place) => [this.all[lane].key, place]));
    this.all = picture.lanes.map((lane, index) => {
      const key = laneKey(lane);
      const label = labels.get(key) ?? new Label();
      labels.delete(key); // of one lane only
      const parent = parents.has(index);
      label.show(lane, picture.lanes[lane.parent], { parent, clusters,
        sampled: !picture.complete });
      return { lane, key, marks: marks[index], drawn: [], lanes: [], parent, folded: false,
        label };
    });
    if (!again && !this.byHand) {
      this.folded = foldsThatFit(this.all, Math.floor(this.height / this.shape.height));
    }
    this.order = again && this.inside ? keptOrder(this.all, places)
      : this.all.map((_, index) => index);
    if (left && this.all.some(({ key }) => key === left.key)) this.current = left.key;
    this.layout();
    if (left && left.key === this.current) {
      this.mark = sameMark(left.mark, left.picture, this.currentRow()?.drawn ?? [], picture);
    }
    this.left = this.mark ? null : left;
    if (anchor) this.returnTo(anchor);
  }

  /** @param {Row} row */
  isFolded(row) {
    return row.parent && this.folded.has(row.key);
  }

  /** Where each lane is drawn: in its own row, or in that of an owner. Owners come first.
   * @returns {Row[]} */
  places() {
    /** @type {Row[]} */
    const places = [];
    this.all.forEach((row, index) => {
      const owner = places[row.lane.parent];
      places[index] = owner && this.isFolded(owner) ? owner : row;
    });
    return places;
  }

  /** Positions the rows that are not folded. */
  layout() {
    const places = this.places();
    const labels = new Map(this.rows.map(({ key, label }) => [key, label]));
    const focused = this.labels.contains(document.activeElement);
    this.all.forEach((row) => {
      row.folded = this.isFolded(row);
      row.drawn = [];
      row.lanes = [];
    });
    this.rows = this.order.map((lane) => this.all[lane])
      .filter((row, place) => places[this.order[place]] === row);
    this.all.forEach(({ marks, lane }, index) => {
      places[index].drawn.push(...marks);
      places[index].lanes.push(lane);
    });
    const split = this.rows.findIndex((row) => row.key === this.split);
    if (split >= 0 && this.picture) {
      this.rows.splice(split + 1, 0, ...reasonRows(this.rows[split], this.picture, labels));
    }
    if (!this.currentRow()) {
      // The lane of a row by reason, or the owner into which a lane was folded.
      const lane = this.all.findIndex(({ key }) => isIn(this.current, key));
      this.current = (places[lane] ?? this.rows[0])?.key ?? "";
    }
    arrange(this.labels, this.rows.map((row) => row.label.node));
    this.rows.forEach(({ key, parent, folded, label: { node } }, index) => {
      node.style.top = `${index * this.shape.height}px`;
      node.style.height = `${this.shape === WIDE ? WIDE.height : 18}px`;
      node.tabIndex = key === this.current ? 0 : -1;
      if (parent) node.setAttribute("aria-expanded", String(!folded));
      else node.removeAttribute("aria-expanded");
    });
    this.body.style.height = `${this.rows.length * this.shape.height}px`;
    if (focused) this.currentRow()?.label.node.focus({ preventScroll: true });
  }

  /** @param {Event} event */
  clicked(event) {
    const row = this.rowOf(event.target);
    if (!row) return;
    this.setCurrent(row);
    const onFold = event.target instanceof Element && event.target.classList.contains("fold");
    // What groups others may have no events of its own.
    if (row.parent && (onFold || row.lane.events === 0)) this.toggle(row);
    else this.open(row.lane);
  }

  /** @param {Row} [row] */
  toggle(row = this.currentRow()) {
    if (!row?.parent) return;
    this.byHand = true;
    if (!this.folded.delete(row.key)) this.folded.add(row.key);
    this.layout();
    row.label.node.focus({ preventScroll: true });
    this.box.dispatchEvent(new Event("redraw"));
  }

  /** Folds all lanes that have others below them, or unfolds them. */
  toggleAll() {
    this.byHand = true;
    if (this.folded.size > 0) this.folded.clear();
    else for (const row of this.all) if (row.parent) this.folded.add(row.key);
    this.layout();
    this.box.dispatchEvent(new Event("redraw"));
  }

  /** @param {EventTarget|null} target */
  rowOf(target) {
    const node = target instanceof Element ? target.closest(".lane") : null;
    return this.rows.find((row) => row.label.node === node);
  }

  currentRow() {
    return this.rows.find((row) => row.key === this.current);
  }

  /** A row of an earlier picture may no longer exist. @param {Row} of */
  setCurrent(of) {
    const row = this.rows.find((one) => one.key === of.key);
    if (!row) return;
    const before = this.currentRow();
    if (before) before.label.node.tabIndex = -1;
    if (this.current !== row.key) {
      this.left = this.mark = null;
      this.box.dispatchEvent(new Event("redraw"));
    }
    this.current = row.key;
    row.label.node.tabIndex = 0;
  }

  /** The next or previous mark of the current lane, in the range. @param {number} by
   * @param {Scale} scale */
  step(by, scale) {
    const marks = this.currentRow()?.drawn
      .filter((mark) => mark[2] >= scale.from && mark[1] <= scale.to) ?? [];
    const at = this.mark ? marks.indexOf(this.mark) + by : by > 0 ? 0 : marks.length - 1;
    this.mark = marks[Math.min(Math.max(at, 0), marks.length - 1)] ?? null;
    return this.mark;
  }

  /** The next or previous warning of the range in any lane. @param {number} by
   * @param {Scale} scale */
  stepWarning(by, scale) {
    const marks = this.all.flatMap((row) => row.marks.map((mark) => ({ row, mark })))
      .filter(({ mark }) => mark[3] && mark[2] >= scale.from && mark[1] <= scale.to)
      .sort((a, b) => a.mark[1] - b.mark[1] || a.mark[0] - b.mark[0]);
    const at = marks.findIndex(({ mark }) => mark === this.mark);
    const found = marks[at < 0 ? (by > 0 ? 0 : marks.length - 1) : at + by];
    if (!found) return null;
    this.show(found.row);
    this.mark = found.mark;
    return found.mark;
  }

  /** Moves to another lane by keys. @param {number} by */
  move(by) {
    const at = this.rows.findIndex((row) => row.key === this.current);
    const row = this.rows[Math.min(Math.max(at + by, 0), this.rows.length - 1)];
    if (!row) return;
    this.setCurrent(row);
    row.label.node.focus({ preventScroll: true });
    this.reveal(row);
  }

  /** The lane of an object: the latest of those that were named so.
   * @param {string} cluster @param {import("./types.js").ObjectRef} object */
  find(cluster, { kind, namespace, name, uid }) {
    const rows = this.all.filter(({ lane }) => isOf(lane, cluster, { kind, name, namespace })
      || isOf(lane, cluster, { kind, name, namespace: "" }));
    return rows.find(({ lane }) => uid && lane.uid === uid) ?? rows[0];
  }

  /** Shows a lane, unfolded, for a moment in another colour. @param {Row|undefined} row */
  show(row) {
    if (!row) return;
    let owner = this.all[row.lane.parent];
    if (owner) this.byHand = true;
    for (; owner; owner = this.all[owner.lane.parent]) this.folded.delete(owner.key);
    this.layout();
    this.setCurrent(row);
    this.reveal(row);
    const { node } = row.label;
    node.classList.remove("flash");
    void node.offsetWidth; // begins the animation anew
    node.classList.add("flash");
    this.box.dispatchEvent(new Event("redraw"));
  }

  /** Lights the row that has a lane. @param {Row|undefined} row */
  light(row) {
    const key = row ? this.places()[this.all.indexOf(row)].key : "";
    if (key === this.lit) return;
    this.lit = key;
    this.box.dispatchEvent(new Event("redraw"));
  }

  /** @param {Row} row */
  reveal(row) {
    const y = this.rows.indexOf(row) * this.shape.height;
    if (y < this.box.scrollTop) this.box.scrollTop = y;
    const most = y + this.shape.height - this.box.clientHeight;
    if (most > this.box.scrollTop) this.box.scrollTop = most;
  }

  /** The first lane in view and where it is, to find it again in the next picture. */
  anchor() {
    const index = Math.floor(this.box.scrollTop / this.shape.height);
    const row = this.rows[index];
    if (!row || this.box.scrollTop === 0) return null;
    return { key: row.key, off: this.box.scrollTop - index * this.shape.height };
  }

  /** @param {{key: string, off: number}} anchor */
  returnTo({ key, off }) {
    const index = this.rows.findIndex((row) => row.key === key);
    if (index >= 0) this.box.scrollTop = index * this.shape.height + off;
  }

  /** Sets which lane the panel shows, and splits it by reasons. @param {Shown|null} shown */
  select(shown) {
    const { picture } = this;
    /** @type {string[]} */
    const keys = [];
    for (const { lane, key, marks, label } of this.all) {
      const is = shown?.is === "object" && isOf(lane, shown.cluster, shown);
      label.select(is);
      // A mark that is opened leaves its lane split.
      const holds = key === this.split && picture && shown
        && marks.some((mark) => isShown(mark, picture, shown));
      if ((is && !shown.span) || holds) keys.push(key);
    }
    // Objects of one name have a lane each.
    const split = keys.find((key) => isIn(this.current, key))
      ?? keys.find((key) => key === this.split) ?? keys[0] ?? "";
    if (split === this.split) return;
    this.split = split;
    this.layout();
    this.revealSplit();
  }

  /** Brings the rows by reason into view. */
  revealSplit() {
    const { split } = this;
    const of = this.rows.filter(({ key }) => isIn(key, split));
    if (split === "" || of.length === 0) return;
    this.reveal(of[of.length - 1]);
    this.reveal(of[0]);
  }

  /** The lane and mark at a point of the window. @param {number} x From the canvas's left.
   * @param {number} y From the window's top. @param {Scale} scale */
  at(x, y, scale) {
    const inside = y - this.body.getBoundingClientRect().top;
    const row = this.rows[Math.floor(inside / this.shape.height)];
    return row ? { row, mark: markAt(row.drawn, x, scale) } : null;
  }

  /** Where a mark of the current row is in the window, if it is in view.
   * @param {Mark} mark @param {Scale} scale @returns {[number, number]|null} */
  placeOf(mark, scale) {
    const row = this.rows.findIndex(({ key }) => key === this.current);
    const y = row * this.shape.height + this.shape.middle - this.box.scrollTop;
    if (row < 0 || y < 0 || y > this.height || mark[2] < scale.from || mark[1] > scale.to) {
      return null;
    }
    const { top } = this.box.getBoundingClientRect();
    const at = Math.min(Math.max(toX(mark[2], scale), 0), scale.width);
    return [this.canvas.getBoundingClientRect().left + at, top + y];
  }

  /** Measures the window on the lanes, and takes the shape of rows that fits.
   * @param {boolean} narrow */
  resize(narrow) {
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    const shape = narrow ? NARROW : WIDE;
    if (shape === this.shape) return;
    this.shape = shape;
    this.layout();
  }

  /** Whether rows in view are outside of the canvas. */
  stale() {
    const { scrollTop, clientHeight } = this.box;
    return scrollTop < this.top || (scrollTop + clientHeight > this.top + this.canvas.clientHeight
      && this.top + this.canvas.clientHeight < this.body.clientHeight);
  }

  /** @param {Scale} scale @param {View} view @param {number} now
   * @param {{from: number, to: number}[]} unknown Spans of which the server has not told yet. */
  draw(scale, view, now, unknown) {
    const c = colours();
    const all = Math.max(this.rows.length * this.shape.height, this.height);
    const height = Math.min(this.height * 2, all);
    this.top = Math.max(0, Math.min(this.box.scrollTop - this.height / 2, all - height));
    fit(this.canvas, this.context, scale.width, height);
    this.canvas.style.top = `${this.top}px`;
    this.context.clearRect(0, 0, scale.width, height);
    const s = canvasSurface(this.context, c.font);
    const first = Math.max(0, Math.floor(this.top / this.shape.height));
    const last = Math.min(this.rows.length,
      Math.ceil((this.top + height) / this.shape.height));
    const end = Math.min(height, this.rows.length * this.shape.height - this.top);
    for (let i = first; i < last; i += 1) {
      const y = i * this.shape.height - this.top;
      s.line(0, y + this.shape.height - 0.5, scale.width, y + this.shape.height - 0.5, c.row);
    }
    paintGrid(s, scale, 0, height, c, view.utc);
    if (!this.picture) return;
    paintGaps(s, scale, [...this.picture.gaps, ...unknown], 0, Math.max(end, 0), c);
    for (let i = first; i < last; i += 1) {
      const y = i * this.shape.height - this.top + this.shape.middle;
      const row = this.rows[i];
      if (row.key === this.lit) s.rect(0, y - this.shape.middle, scale.width, this.shape.height,
        c.pick, 0.18);
      paintRow(s, scale, row, y, this.picture, view.shown, c, this.marking, this.mark);
      this.pins.paint(s, scale, row, y, c);
    }
    paintNow(s, scale, now, 0, height, c);
  }
}

/** One lane: its life, its marks, and its warnings above all; or a strip of what is folded.
 * @param {import("./surface.js").Surface} s @param {Scale} scale
 * @param {Pick<Row, "lane"|"drawn"|"folded">} row @param {number} y @param {Picture} picture
 * @param {Shown|null} shown @param {import("./theme.js").Colours} c
 * @param {import("./marking.js").Marking} is @param {Mark|null} [at] */
export function paintRow(s, scale, { lane, drawn, folded }, y, picture, shown, c, is, at) {
  paintLife(s, scale, folded ? { ...lane.family, gone: false } : lane, folded ? y + 8.5 : y, c);
  /** @param {Mark} mark */
  const isPicked = (mark) => mark === at || isShown(mark, picture, shown);
  if (folded) {
    paintDensity(s, scale, drawn, y + 9, (mark) => is.colour(mark, c));
    for (const mark of drawn) if (isPicked(mark)) paintMark(s, scale, mark, y, true, c, is);
    return;
  }
  for (const warning of [0, 1]) {
    for (const mark of drawn) {
      if (mark[3] === warning) paintMark(s, scale, mark, y, isPicked(mark), c, is);
    }
  }
  paintWords(s, scale, drawn, y, c, is, lane.gone ? lane.last : null);
}
