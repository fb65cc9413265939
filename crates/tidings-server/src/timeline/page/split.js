// The rows by reason below a lane that is selected: what is dense in one row can be told apart in
// several.

import { Label } from "./labels.js";

/** @typedef {import("./lanes.js").Row} Row */
/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Picture} Picture */

/** Maximum rows; the last one has the reasons for which there is no room. */
const MOST = 8;

/** The rows of a lane, the most frequent reason first; none if it has one reason, or if its marks
 * may each have several.
 * @param {Row} row @param {Picture} picture
 * @param {Map<string, Label>} labels Those of the rows before, by key, which are kept.
 * @returns {Row[]} */
export function reasonRows({ lane, key: of, marks }, { reasons, complete, mixed }, labels) {
  if (mixed) return [];
  /** @type {Map<string, Mark[]>} */
  const byReason = new Map();
  for (const mark of marks) {
    const reason = reasons[mark[6]] || "(no reason)";
    const same = byReason.get(reason);
    if (same) same.push(mark);
    else byReason.set(reason, [mark]);
  }
  if (byReason.size < 2) return [];
  const sorted = [...byReason].sort(([, a], [, b]) => occurrences(b) - occurrences(a));
  if (sorted.length > MOST) {
    const rest = sorted.splice(MOST - 1).flatMap(([, some]) => some);
    sorted.push(["other reasons", rest]);
  }
  return sorted.map(([reason, some]) => {
    const sums = {
      events: sum(some.map((mark) => mark[5])),
      warnings: sum(some.filter((mark) => mark[3]).map((mark) => mark[5])),
      occurrences: occurrences(some),
      first: Math.min(...some.map((mark) => mark[1])),
      last: Math.max(...some.map((mark) => mark[2])),
    };
    const own = { ...lane, ...sums, objects: 0, gone: false, family: { ...sums, objects: 0 } };
    const key = `${of}\n${reason}`;
    const label = labels.get(key) ?? new Label();
    label.show({ ...own, kind: "", name: reason, apart: false, depth: lane.depth + 1 }, undefined,
      { parent: false, clusters: false, sampled: !complete, reason: true });
    return { lane: own, key, marks: some, drawn: some, lanes: [], parent: false, folded: false,
      label, reason };
  });
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

/** @param {Mark[]} marks */
const occurrences = (marks) => sum(marks.map((mark) => mark[4]));
