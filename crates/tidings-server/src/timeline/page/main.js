// Starts the page and joins its parts: a change of the view is drawn at once from what is there,
// then loaded finer.

import { byId, save } from "./dom.js";
import { isRanged, store } from "./early.js";
import { tellEmpty } from "./empty.js";
import { FilterBar } from "./filters.js";
import { Foot } from "./foot.js";
import { watchGestures } from "./gestures.js";
import { Header, QUICK } from "./header.js";
import { startHelp, startKeys } from "./keys.js";
import { Known } from "./known.js";
import { Lanes } from "./lanes.js";
import { List, listed } from "./list.js";
import { Live } from "./live.js";
import { Loader } from "./loader.js";
import { startLogin } from "./login.js";
import { Minimap } from "./minimap.js";
import { notify } from "./notices.js";
import { startOrder } from "./order.js";
import { paintAxis, toTime, toX } from "./paint.js";
import { Panel } from "./panel.js";
import { startPicks } from "./picks.js";
import { pictureAsPng, pictureAsSvg } from "./picture.js";
import { Rates } from "./rates.js";
import { Reasons } from "./reasons.js";
import { shownLane, shownMark } from "./shown.js";
import { startSplitter } from "./splitter.js";
import { canvasSurface, fit } from "./surface.js";
import { colours, onTheme, startTheme } from "./theme.js";
import { dateTime, HOUR, MINUTE, SECOND } from "./time.js";
import { notFollowed } from "./summary.js";
import { describeMark, KeyTip, showBrush, showCursor, showTip } from "./tip.js";

/** @typedef {import("./types.js").Picture} Picture */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").FirstWarning} FirstWarning */
/** @typedef {import("./paint.js").Scale} Scale */

/** Windows narrower than this have labels above the marks. */
const NARROW = 720;
/** What is shown before and after a moment. */
const AROUND = 5 * MINUTE;
/** A moving range is loaded at this interval even if the stream is silent. */
const REFRESH = 30 * SECOND;

startTheme();
const known = new Known(store);
/** @type {Picture|null} */
let picture = null;
/** Events received while the picture stands still. */
let came = 0;
let drawing = 0;
/** Pixels left of the scale, for labels. */
let gutter = 0;
/** The first picture was drawn, and its time was recorded for measurements. */
let measured = false;

const clusters = () => known.clusters.length > 1;
const login = startLogin(() => void start());
const loader = new Loader(store, { loaded, known: known.first, login: (message) => {
  live.stop();
  login.open(message, picture !== null);
} });
const filterBar = new FilterBar(store);
const rates = new Rates((from, to) => store.setRange(from, to, true), store);
/** @param {Shown} shown */
const open = (shown) => store.set({ shown }, true);
const lanes = new Lanes((lane) => open(shownLane(lane)));
const keyTip = new KeyTip(lanes);
const list = new List({
  open({ cluster, namespace, name, object }) {
    lanes.show(lanes.find(cluster, object));
    open({ is: "event", cluster, namespace, name });
  },
  over: (item) => lanes.light(item ? lanes.find(item.cluster, item.object) : undefined),
  filter: (key, value) => store.addFilter(key, value),
  all: () => store.set({ shown: null }, true),
  newer: () => void list.show(store.view, store.range(), clusters(), false),
  failed: (error, again) => loader.failed(error, "list", again),
  loaded(items) {
    filterBar.learnItems(items);
    loader.succeeded("list");
  },
  now: () => store.now(),
});
const reasons = new Reasons(store, {
  failed: (error, again) => loader.failed(error, "list", again),
  loaded(by, rows) {
    filterBar.learnRows(by, rows);
    loader.succeeded("list");
  },
});
const panel = new Panel(store, known, {
  failed: (error, again) => loader.failed(error, "panel", again),
  settled: () => loader.succeeded("panel"),
  pins: lanes.pins,
  draw,
  zoom: zoomTo,
});
const live = new Live({
  change(change) {
    if (store.view.last !== null) {
      list.tell(change);
      loader.refresh();
    } else {
      came += change.items.length + change.more;
      draw();
    }
  },
  begun: () => loader.succeeded("live"),
  restart: () => void loader.load(true),
  lost: (error) => loader.failed(error, "live", () => live.again()),
});
startOrder(store);
const minimap = new Minimap(store, known);
const openHelp = startHelp();
const header = new Header(store, known, { save: savePicture, help: openHelp,
  all: showAll });
const foot = new Foot(store, known, { all: showAll, first: openFirst });

/** The scale of the lanes, from the left of their canvas. @returns {Scale} */
function scale() {
  const [from, to] = store.range();
  return { from, to, left: 0, width: Math.max(50, lanes.width - gutter) };
}

/** Draws before the next frame. */
function draw() {
  if (!drawing) drawing = requestAnimationFrame(drawNow);
}

function drawNow() {
  drawing = 0;
  const now = store.now();
  const s = scale();
  // What is not known since the server last answered is no peace.
  const silent = store.view.last === null ? null : loader.silentSince();
  const unknown = silent === null ? [] : [{ from: silent + store.ahead, to: now }];
  lanes.draw(s, store.view, now, unknown);
  rates.draw(s);
  minimap.draw(s.width);
  drawAxis(s);
  keyTip.place(s, store.view.utc);
  header.show(came, silent === null ? notFollowed(picture).label : "No answer");
  if (picture && !measured) {
    measured = true;
    performance.mark("first-picture");
  }
}

/** @param {Scale} s */
function drawAxis(s) {
  const canvas = /** @type {HTMLCanvasElement} */ (byId("axis"));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  fit(canvas, context, s.width, 22);
  context.clearRect(0, 0, s.width, 22);
  const c = colours();
  paintAxis(canvasSurface(context, c.font), s, 11, c, store.view.utc);
}

/** @param {Picture} loadedNow @param {boolean} again */
function loaded(loadedNow, again) {
  picture = loadedNow;
  store.ahead = picture.now - Date.now();
  if (store.view.last !== null) came = 0;
  lanes.setPicture(picture, { clusters: clusters(), by: store.view.by, again });
  lanes.select(store.view.shown);
  rates.setPicture(picture, store.view.by, scale(), gutter);
  minimap.setPicture(picture);
  filterBar.learn(picture);
  foot.show(picture);
  tellEmpty(picture, store, known, { all: showAll, isShown: (p) => p === picture });
  reasons.decide(picture.lanes.length + picture.more.lanes);
  void reasons.show(again);
  void list.show(store.view, store.range(), clusters(), again);
  void panel.show(store.view.shown, store.range());
  if (document.visibilityState === "visible") live.follow(picture.position, store.view.filters);
  const { dataset } = document.documentElement; // for tests: how many pictures were loaded
  dataset.loaded = String(Number(dataset.loaded ?? 0) + 1);
  draw();
}

/** Opens the event of a first warning, and shows its lane. @param {FirstWarning} first */
function openFirst({ cluster, namespace, name, kind, object, objectNamespace }) {
  lanes.show(lanes.find(cluster, { kind, namespace: objectNamespace, name: object }));
  open({ is: "event", cluster, namespace, name });
}

/** Shows the range of all events, unless the reader has moved elsewhere meanwhile. */
async function showAll() {
  const { view } = store;
  await known.renew();
  if (store.view === view) known.show();
}

/** @param {"svg"|"png"} form */
async function savePicture(form) {
  if (!picture) return;
  notify("save", null); // so that the same failure is said again
  const shown = { picture, rows: lanes.rows, view: store.view, range: store.range(),
    now: store.now() };
  const content = form === "svg" ? pictureAsSvg(shown) : await pictureAsPng(shown);
  if (content) save(`timeline.${form}`, content);
  else {
    notify("save", { bad: true, text: "The browser could not make a PNG: save an SVG instead." });
  }
}

store.listeners.push((view, before, still) => {
  if (view.last === null) notify("following", null);
  if (still) {
    draw();
    return;
  }
  const ranged = view.last !== before.last || view.from !== before.from || view.to !== before.to;
  const other = view.filters !== before.filters || view.by !== before.by
    || view.count !== before.count || view.skip !== before.skip || view.sort !== before.sort
    || view.group !== before.group;
  if (view.filters !== before.filters) filterBar.showChips();
  if (ranged) notify("range", null);
  if (view.skip !== before.skip) lanes.box.scrollTop = 0;
  if (other || (view.last !== null && before.last === null)) {
    came = 0;
    void loader.load();
  } else if (ranged) loader.soon();
  if (view.below !== before.below || view.against !== before.against
    || view.shown !== before.shown || view.utc !== before.utc) void reasons.show();
  if (view.shown !== before.shown || view.utc !== before.utc) {
    lanes.select(view.shown);
    void panel.show(view.shown, store.range());
    const listsOther = listed(view) !== listed(before) || view.utc !== before.utc;
    if (!ranged && !other && listsOther) void list.show(view, store.range(), clusters(), false);
  }
  draw();
});

/** @param {number|null} x @param {number} y @param {PointerEvent} event */
function hoverLanes(x, y, event) {
  const found = x === null ? null : lanes.at(x, y, scale());
  if (x !== null) keyTip.shown = false;
  hoverTime(x);
  lanes.canvas.style.cursor = found?.mark ? "pointer" : "";
  const at = x === null ? 0 : toTime(x, scale());
  const gap = picture?.gaps.find((one) => one.from <= at && at <= one.to);
  if (picture && found?.mark) {
    showTip(describeMark(picture, found.mark, store.view.utc), event.clientX, event.clientY);
  } else if (gap && x !== null) {
    showTip({ title: "Not covered: events may be missing", lines: [gap.cause,
      `${dateTime(gap.from, store.view.utc)} – ${dateTime(gap.to, store.view.utc)}`] },
    event.clientX, event.clientY);
  } else showTip(null, 0, 0);
}

/** @param {number|null} x */
function hoverTime(x) {
  const inside = x !== null && x >= 0 && x <= scale().width;
  showCursor(inside ? x + gutter : null,
    inside ? dateTime(toTime(x, scale()), store.view.utc) : "");
}

/** Zooms to a span, with what is around it. @param {number} from @param {number} to */
function zoomTo(from, to) {
  const edge = Math.max((to - from) * 0.1, to - from < AROUND ? AROUND : SECOND);
  store.setRange(from - edge, to + edge, true);
}

/** @param {number} from @param {number} to @param {boolean} done */
function brush(from, to, done) {
  if (done) {
    showBrush(null, 0);
    store.setRange(from, to, true);
    return;
  }
  const s = scale();
  showBrush(gutter + toX(from, s), toX(to, s) - toX(from, s));
}

/** @type {Omit<import("./gestures.js").Handlers, "left"|"hover"|"press">} */
const moves = {
  scale,
  range: (from, to) => store.setRange(from, to),
  zoom: (factor, around) => store.zoom(factor, around),
  brush,
};
watchGestures(lanes.body, {
  ...moves,
  left: () => lanes.canvas.getBoundingClientRect().left,
  hover: hoverLanes,
  press(x, y) {
    const s = scale();
    const found = lanes.at(x, y, s);
    const mark = found?.mark;
    // Of the picture that is pressed: when it is opened, another one may be there.
    const shown = picture && mark ? shownMark(mark, picture) : null;
    return {
      once() {
        if (found) lanes.setCurrent(found.row);
        if (shown) open(shown);
      },
      twice() {
        if (mark) zoomTo(mark[1], mark[2]);
        else store.zoom(0.5, toTime(x, s));
      },
    };
  },
}, { ignore: ".lane" });
watchGestures(rates.box, {
  ...moves,
  left: () => lanes.canvas.getBoundingClientRect().left,
  hover(x, _y, event) {
    hoverTime(x);
    const words = x === null ? null : rates.describe(toTime(x, scale()), store.view.utc);
    if (x !== null) keyTip.shown = false;
    showTip(words && words.lines.length > 0 ? words : null, event.clientX, event.clientY);
  },
  press(x) {
    const at = toTime(x, scale());
    const bar = rates.bar(at);
    return {
      once() {
        if (bar) store.setRange(bar[0], bar[1], true);
      },
      twice: () => store.zoom(0.5, at),
    };
  },
}, { mouse: false }); // a mouse's drag there is uPlot's

/** Goes to another mark, and says which it is.
 * @param {import("./types.js").Mark|null} mark @param {string} none Said if there is none. */
function tellMark(mark, none) {
  keyTip.tell(mark, none, store.view.utc);
  draw();
}

function openCurrent() {
  keyTip.hide();
  const row = lanes.currentRow();
  if (!row) return;
  const shown = lanes.mark && picture ? shownMark(lanes.mark, picture) : null;
  if (!shown && row.lane.events === 0) lanes.toggle(row);
  else open(shown ?? shownLane(row.lane));
}

startKeys({
  w: () => store.zoom(0.7),
  s: () => store.zoom(1 / 0.7),
  a: () => store.pan(-0.15),
  d: () => store.pan(0.15),
  ArrowUp: () => lanes.move(-1),
  ArrowDown: () => lanes.move(1),
  ArrowLeft: () => tellMark(lanes.step(-1, scale()), "No mark in this range"),
  ArrowRight: () => tellMark(lanes.step(1, scale()), "No mark in this range"),
  n: () => tellMark(lanes.stepWarning(1, scale()), "No later warning in this range"),
  N: () => tellMark(lanes.stepWarning(-1, scale()), "No earlier warning in this range"),
  Enter: openCurrent,
  " ": () => lanes.toggle(),
  x: () => lanes.toggleAll(),
  f() {
    const row = lanes.currentRow();
    const mark = lanes.mark;
    if (mark) zoomTo(mark[1], mark[2]);
    else if (row && row.lane.events > 0) zoomTo(row.lane.first, row.lane.last);
  },
  Escape() {
    keyTip.hide();
    if (store.view.shown) panel.close();
  },
  "/": () => byId("filter").focus(),
  "?": openHelp,
  l: () => header.toggleLive(),
  u: () => store.set({ utc: !store.view.utc }),
  0: showAll,
  ...Object.fromEntries(QUICK.map(([, length], index) => [index + 1,
    () => header.setLast(length)])),
});

/** Measures the drawing area, and draws before a new size is visible. */
function resized() {
  hoverTime(null); // the pointer is elsewhere now
  showTip(null, 0, 0);
  const narrow = byId("picture").clientWidth < NARROW;
  document.body.classList.toggle("narrow", narrow);
  gutter = narrow ? 0 : byId("legend").offsetWidth;
  lanes.resize(narrow);
  lanes.revealSplit();
  if (picture) rates.setPicture(picture, store.view.by, scale(), gutter);
  drawNow();
}
new ResizeObserver(resized).observe(byId("lanes"));
lanes.box.addEventListener("scroll", () => {
  if (!keyTip.shown) showTip(null, 0, 0);
  if (keyTip.shown || lanes.stale()) draw();
}, { passive: true });
lanes.box.addEventListener("redraw", draw);
onTheme(() => {
  rates.recolour(scale());
  if (picture) rates.showLegend(store.view.by);
  draw();
});
startSplitter(() => draw());
startPicks(store);

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") live.stop();
  else if (picture) void loader.load(true);
});
setInterval(() => {
  if (document.visibilityState !== "visible" || store.view.last === null || !picture) return;
  draw();
  if (performance.now() - loader.asked > REFRESH) loader.refresh();
}, SECOND);

/** Requests the overview, and begins at a range with events. */
async function start() {
  // A fixed range needs neither the overview nor the server's clock: both are requested at once.
  const early = store.view.last === null && !picture;
  if (early) void loader.load();
  let found;
  try {
    found = await known.load();
  } catch (error) {
    loader.failed(error, "start", () => void start());
    return;
  }
  loader.succeeded("start");
  header.setOverview(found);
  const newest = known.newest();
  if (!isRanged && !picture && newest > 0 && newest < store.now() - HOUR) known.show();
  else if (!early || loader.failing.has("view")) void loader.load();
  store.replace();
}

resized();
filterBar.showChips();
void start();
