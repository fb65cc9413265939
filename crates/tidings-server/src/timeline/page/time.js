// Times as people read them, and the ticks of an axis. No clock is read here: `now` is an argument.

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** @type {[string, number][]} */
const UNITS = [["d", DAY], ["h", HOUR], ["m", MINUTE], ["s", SECOND]];

/** @param {number} n @param {number} [width] */
const pad = (n, width = 2) => String(n).padStart(width, "0");

/** The parts of a time, in the reader's zone or in UTC. @param {number} ms @param {boolean} utc */
function parts(ms, utc) {
  const d = new Date(ms);
  return utc
    ? { y: d.getUTCFullYear(), mo: d.getUTCMonth(), d: d.getUTCDate(), h: d.getUTCHours(),
        mi: d.getUTCMinutes(), s: d.getUTCSeconds(), ms: d.getUTCMilliseconds() }
    : { y: d.getFullYear(), mo: d.getMonth(), d: d.getDate(), h: d.getHours(),
        mi: d.getMinutes(), s: d.getSeconds(), ms: d.getMilliseconds() };
}

/** "2024-10-24 13:08:53". @param {number} ms @param {boolean} utc */
export function dateTime(ms, utc) {
  const p = parts(ms, utc);
  return `${p.y}-${pad(p.mo + 1)}-${pad(p.d)} ${pad(p.h)}:${pad(p.mi)}:${pad(p.s)}`;
}

/** "13:08:53", with the date before it where it is not the day of `day`.
 * @param {number} ms @param {boolean} utc @param {number} day */
export function shortTime(ms, utc, day) {
  const text = dateTime(ms, utc);
  return text.slice(0, 10) === dateTime(day, utc).slice(0, 10) ? text.slice(11) : text.slice(5);
}

/** "Jul 9 23:53:09", with the year where it is not that of `year`.
 * @param {number} ms @param {boolean} utc @param {number} year */
export function dayTime(ms, utc, year) {
  const { y, mo, d } = parts(ms, utc);
  const day = `${MONTHS[mo]} ${d}${y === parts(year, utc).y ? "" : ` ${y}`}`;
  return `${day} ${dateTime(ms, utc).slice(11)}`;
}

/** "2 h 10 min": two units at most; from a year on, whole years. @param {number} ms */
export function duration(ms) {
  const s = Math.round(Math.abs(ms) / SECOND);
  if (s < 60) return `${s} s`;
  const years = Math.floor((s * SECOND) / (365 * DAY));
  if (years > 0) return counted(years, "year");
  const steps = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]];
  const parts = [];
  let rest = s * SECOND;
  for (const [size, unit] of /** @type {[number, string][]} */ (steps)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) parts.push(`${n} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** "3 min ago" or "in 3 min". @param {number} ms @param {number} now */
export function ago(ms, now) {
  const d = now - ms;
  if (Math.abs(d) < SECOND) return "now";
  return d > 0 ? `${duration(d)} ago` : `in ${duration(d)}`;
}

/** A length for the address: "90m", "7d". @param {number} ms */
export function lengthText(ms) {
  for (const [unit, size] of UNITS) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${Math.max(1, Math.round(ms / SECOND))}s`;
}

/** The length that `lengthText` wrote, or null. @param {string} text */
export function parseLength(text) {
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  if (!match) return null;
  const size = UNITS.find(([unit]) => unit === match[2])?.[1] ?? 0;
  return Number(match[1]) * size || null;
}

/** Year, month, day; hour, minute; second; fraction; Z. */
const TIME =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z)?$/i;

/** A time as people write it: "2024-10-24 13:08", "2024-10-24", RFC 3339, or milliseconds.
 * Null for any other text. @param {string} text @param {boolean} utc */
export function parseTime(text, utc) {
  const t = text.trim();
  if (/^\d{11,14}$/.test(t)) return Number(t);
  const m = TIME.exec(t);
  if (!m) {
    const ms = /[+-]\d\d:\d\d$/.test(t) ? Date.parse(t) : NaN;
    return Number.isFinite(ms) ? ms : null;
  }
  const [y, mo, d, h, mi, s] = m.slice(1, 7).map((x) => Number(x ?? 0));
  const fraction = Math.floor(Number(`0.${m[7] ?? 0}`) * 1000);
  const ms = utc || m[8]
    ? Date.UTC(y, mo - 1, d, h, mi, s, fraction)
    : new Date(y, mo - 1, d, h, mi, s, fraction).getTime();
  return Number.isFinite(ms) ? ms : null;
}

/** A time as `parseTime` reads it, or relative to now: "now", "-2h", "now-90m"; or the time of a
 * day: "18:05". @param {string} text @param {boolean} utc @param {number} now
 * @param {number} day A time of that day. */
export function parseMoment(text, utc, now, day) {
  const t = text.trim().toLowerCase();
  const [, before] = /^(?:now)?\s*-\s*(\S+)$/.exec(t) ?? [];
  const length = before === undefined ? null : parseLength(before);
  if (t === "now") return now;
  if (length !== null) return now - length;
  return /^\d\d?:\d\d(:\d\d)?$/.test(t)
    ? parseTime(`${dateTime(day, utc).slice(0, 10)} ${t}`, utc) : parseTime(t, utc);
}

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

/** The reader's zone, by name. @param {boolean} utc */
export const zoneName = (utc) => (utc ? "UTC" : ZONE);

const STEPS = [
  100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
  91 * DAY, 182 * DAY, 365 * DAY,
];

/**
 * Round times in a range, at most one in `room` pixels; from an hour on they are round on the
 * wall clock, across changes of summer time too.
 * @param {number} from @param {number} to @param {number} width @param {boolean} utc
 * @param {number} [room]
 * @returns {{at: number, text: string, strong: boolean}[]}
 */
export function ticks(from, to, width, utc, room = 90) {
  const least = ((to - from) * room) / Math.max(width, 1);
  const step = STEPS.find((s) => s >= least) ?? 365 * DAY * Math.ceil(least / (365 * DAY));
  const found = [];
  if (step < HOUR) {
    const offset = utc ? 0 : -new Date(from).getTimezoneOffset() * MINUTE;
    let at = Math.ceil((from + offset) / step) * step - offset;
    for (; at <= to && found.length < 200; at += step) found.push(at);
  } else {
    const p = parts(from, utc);
    const hours = step / HOUR;
    // Days count from the first of the month, so that a pan does not shift the ticks.
    let h = step >= DAY ? -(p.d - 1) * 24 : 0;
    for (let n = 0; n < 2000; n += 1, h += hours) {
      const at = utc ? Date.UTC(p.y, p.mo, p.d, h) : new Date(p.y, p.mo, p.d, h).getTime();
      if (at > to) break;
      if (at >= from) found.push(at);
    }
  }
  return found.map((at) => ({ at, ...tickText(at, step, utc) }));
}

/** @param {number} at @param {number} step @param {boolean} utc */
function tickText(at, step, utc) {
  const p = parts(at, utc);
  const midnight = p.h === 0 && p.mi === 0 && p.s === 0 && p.ms === 0;
  if (step >= 365 * DAY) return { text: `${MONTHS[p.mo]} ${p.y}`, strong: true };
  if (step >= DAY || midnight) return { text: `${MONTHS[p.mo]} ${p.d}`, strong: midnight };
  const minutes = `${pad(p.h)}:${pad(p.mi)}`;
  if (step >= MINUTE) return { text: minutes, strong: false };
  if (step >= SECOND) return { text: `${minutes}:${pad(p.s)}`, strong: p.s === 0 };
  return { text: `${pad(p.mi)}:${pad(p.s)}.${pad(p.ms, 3).slice(0, 1)}`, strong: p.ms === 0 };
}

// Made once: this is what takes the time.
const NUMBERS = new Intl.NumberFormat("en-US");

/** "1,004,311". @param {number} n */
export const number = (n) => NUMBERS.format(n);

/** "1 event", "2 events". @param {number} n @param {string} word */
export const counted = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
