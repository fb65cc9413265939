// The label of a lane. It is kept from one picture to the next, and only what the next one says
// otherwise is changed: of a pan or zoom that is often the counts alone.

import { el, fill, visible } from "./dom.js";
import { shortKind } from "./kinds.js";
import { isStem } from "./shown.js";
import { counted, number } from "./time.js";

/** @typedef {import("./types.js").Lane} Lane */

/** Letters at the end of a long name that are always shown. */
const TAIL = 12;

export class Label {
  constructor() {
    this.node = el("div", { role: "treeitem", "aria-selected": "false" });
    this.counts = el("span", { class: "counts" });
    /** The node's text about its object; the title adds the counts. */
    this.object = "";
    this.title = "";
    this.selected = false;
  }

  /** @param {Lane} lane @param {Lane|undefined} owner
   * @param {{parent: boolean, clusters: boolean, sampled: boolean, reason?: boolean}} of Whether
   *   it has other lanes below it, names include the cluster, there may be more events, and it is a
   *   row of one reason. */
  show(lane, owner, { parent, clusters, sampled, reason }) {
    const where = [clusters && lane.cluster, lane.namespace].filter(Boolean).join(" · ");
    const uid = lane.apart ? `uid ${lane.uid ? `${lane.uid.slice(0, 8)}…` : "unknown"}` : "";
    const isSilent = lane.events === 0;
    const object = [lane.depth, lane.gone, isSilent, parent, owner?.name, clusters, uid].join("\n");
    if (object !== this.object) {
      this.object = object;
      this.node.className = reason ? "lane reason" : lane.gone ? "lane gone"
        : isSilent ? "lane silent" : "lane";
      this.node.ariaLevel = String(lane.depth + 1);
      this.node.style.paddingLeft = `${4 + Math.min(lane.depth, 6) * 14}px`;
      fill(this.node,
        el("span", { class: parent ? "fold" : "fold leaf", "aria-hidden": "true" }),
        lane.kind && el("span", { class: "kind" }, shortKind(lane.kind)),
        ...nameOf(lane, owner?.name ?? ""),
        uid && el("span", { class: "where" }, uid),
        lane.depth === 0 && where && el("span", { class: "where" }, where),
        lane.gone && el("span", { class: "tag" }, "✕"),
        this.counts);
    }
    const about = sampled ? "≈ " : "";
    const below = lane.family.objects - lane.objects;
    const what = reason ? "reason" : isStem(lane) ? "objects named after"
      : lane.kind || "object";
    const title = [
      `${what} ${lane.name}`, uid,
      where && `in ${where}`,
      lane.gone && "deleted",
      isSilent ? "none of the events shown" : about + inWords(lane),
      below > 0 && `with ${counted(below, "object")} below: ${about}${inWords(lane.family)}`,
    ].filter(Boolean).join(", ");
    if (title !== this.title) {
      this.title = title;
      this.node.title = visible(title);
      const { warnings, often } = countsOf(lane);
      fill(this.counts, about, warnings && el("b", {}, warnings), ` ${often}`);
    }
  }

  /** @param {boolean} is Shown in the panel. */
  select(is) {
    if (is === this.selected) return;
    this.selected = is;
    this.node.ariaSelected = String(is);
  }
}

/** What is beside a lane, of its object and all below it: warnings, and how often events happened.
 * @param {Lane} lane */
export function countsOf({ family: { warnings, events, occurrences } }) {
  return {
    warnings: warnings > 0 ? `◆ ${number(warnings)}` : "",
    often: occurrences > events ? `×${number(occurrences)}` : number(events),
  };
}

/** @param {import("./types.js").Sums|Lane} sums */
const inWords = ({ events, warnings, occurrences }) => [
  counted(events, "event"), warnings > 0 && counted(warnings, "warning"),
  occurrences > events && counted(occurrences, "occurrence"),
].filter(Boolean).join(", ");

/** A name in two parts: where there is no room, the end is kept, which tells siblings apart; what
 * is common with the owner is faint. @param {Lane} lane @param {string} owner */
function nameOf(lane, owner) {
  const name = lane.name || "(no name)";
  const owned = owner !== "" && name.startsWith(`${owner}-`);
  const cut = owned ? owner.length : name.length > 2 * TAIL ? name.length - TAIL : 0;
  if (cut === 0) return [el("span", { class: "name" }, name)];
  return [el("span", { class: owned ? "name head common" : "name head" }, name.slice(0, cut)),
    el("span", { class: "name own" }, name.slice(cut))];
}
