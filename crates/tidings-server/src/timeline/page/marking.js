// What a mark says by its colour and form: its type or reason, and whether something changed.

import { seriesColour } from "./theme.js";

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./theme.js").Colours} Colours */

/** @typedef {{colour: (mark: Mark, c: Colours) => string, form: (mark: Mark) => Form,
 *   words: (mark: Mark) => string}} Marking
 * @typedef {"warning"|"change"|"normal"} Form */

/** @param {{reasons: string[], changes: number[], rates: {series: {name: string}[]}}} picture
 * @param {"type"|"reason"} by As its rates are. @returns {Marking} */
export function marking({ reasons, changes, rates }, by) {
  const series = new Map(rates.series.map(({ name }, index) => [name, index]));
  const changing = new Set(changes);
  return {
    /** In the colours of the legend. */
    colour(mark, c) {
      if (by === "type") return mark[3] ? c.warning : c.normal;
      const name = reasons[mark[6]];
      const index = series.get(name);
      return index === undefined ? c.faint : seriesColour(name, index, c);
    },
    form: (mark) => (mark[3] ? "warning" : changing.has(mark[6]) ? "change" : "normal"),
    /** Its reason and number, to write beside it. */
    words(mark) {
      const [, , , , occurrences, events, reason] = mark;
      const often = events > 1 ? `${events}` : occurrences > 1 ? `×${occurrences}` : "";
      return [reasons[reason], often].filter(Boolean).join(" ");
    },
  };
}
