// Light and dark, and the colours that canvases take from the style sheet.

/** @typedef {ReturnType<typeof readColours>} Colours */

const KEY = "tidings-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
/** The dark colours. Their media query follows the system until a theme is chosen. */
const darkColours = /** @type {HTMLLinkElement} */ (document.getElementById("dark-colours"));

/** The browser may refuse to store settings; then the choice lasts as long as the page. */
function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** @type {(() => void)[]} */
const listeners = [];
/** @type {Colours|null} */
let known = null;

export function isDark() {
  return matchMedia(darkColours.media).matches;
}

/** @param {"dark"|"light"} theme */
function choose(theme) {
  darkColours.media = theme === "dark" ? "all" : "not all";
}

export function startTheme() {
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") choose(chosen);
  dark.addEventListener("change", changed);
  // Until the style sheet is loaded, the colours are the light ones.
  darkColours.addEventListener("load", changed);
}

export function switchTheme() {
  const next = isDark() ? "light" : "dark";
  choose(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // The choice is not stored.
  }
  changed();
}

/** @param {() => void} listener */
export function onTheme(listener) {
  listeners.push(listener);
}

function changed() {
  known = null;
  for (const listener of listeners) listener();
}

/** The colours of the present theme. */
export function colours() {
  known ??= readColours();
  return known;
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    page: value("--page"), ink: value("--ink"), faint: value("--faint"), line: value("--line"),
    strong: value("--line-strong"), normal: value("--normal"), warning: value("--warning"),
    edge: value("--warning-edge"), gap: value("--gap"), now: value("--now"),
    pick: value("--pick"), row: value("--row"), font: value("--font"),
    series: Array.from({ length: 12 }, (_, i) => value(`--series-${i}`)),
  };
}

/** The colour of a series of the rates: types have their own, reasons take the next.
 * @param {string} name @param {number} index @param {Colours} c */
export function seriesColour(name, index, c) {
  if (name === "Warning") return c.warning;
  if (name === "Normal") return c.normal;
  if (name === "other") return c.strong;
  return c.series[index % c.series.length];
}
