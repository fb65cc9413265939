// Commands that show the view, to be copied. No text of an event becomes a command when they
// are pasted; nor is there a comment in them, which not every shell takes for one.

import { HIDDEN } from "./dom.js";
import { only, without } from "./terms.js";

/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */
/** @typedef {Pick<import("./known.js").Known, "clusters"|"link">} Known */

/** Quotes a text as one word of a shell, without characters that a terminal would interpret.
 * @param {string} text */
export function quote(text) {
  const kept = text.replace(/\p{Cc}/gu, "").replace(HIDDEN, "");
  return /^[\w./:=,@-]+$/.test(kept) ? kept : `'${kept.replaceAll("'", `'\\''`)}'`;
}

/** The events of the filter, and the keys of it that the command does not express.
 * @param {string[]} filters @param {[number, number]} range @param {Known} known
 * @returns {{command: string, left: FilterKey[]}} */
export function listCommand(filters, range, known) {
  /** @type {FilterKey[]} */
  const left = [];
  const cluster = only(filters, "cluster");
  const isOfClusters = without(filters, ["cluster"]).length < filters.length;
  if ((isOfClusters && !cluster) || isOfSeveral(known)) left.push("cluster");
  const namespace = only(filters, "namespace");
  const isOfNamespaces = without(filters, ["namespace"]).length < filters.length;
  const where = namespace ? [namespace] : seen(known, cluster ? [cluster] : []);
  if (!isOfNamespaces && where.length > 1) left.push("namespace");
  const all = known.clusters.length > 1 ? "all" : known.clusters[0]?.name;
  const terms = without(filters, namespace ? ["cluster", "namespace"] : ["cluster"]);
  const words = [
    "tidings events",
    ofNamespace(where),
    ...ofCluster(cluster || all, known),
    ...(terms.length > 0 ? [`--filter=${quote(terms.join(" "))}`] : []),
    ...times(range),
  ];
  return { command: words.join(" "), left };
}

/** The events of an object, in a range or at any time.
 * @param {ObjectRef & {cluster: string}} object @param {[number, number]|null} range
 * @param {Known} known */
export function objectCommands({ cluster, kind, namespace, name }, range, known) {
  const selector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  const where = ofNamespace(namespace ? [namespace] : seen(known, [cluster]));
  return {
    tidings: canBeNamed({ kind, name }) ? [
      "tidings events", where, ...ofCluster(cluster, known), forObject({ kind, name }),
      ...(range ? times(range) : []),
    ].join(" ") : "",
    kubectl: `kubectl get events ${where} --field-selector=${quote(selector)}`,
  };
}

/** The filters that the commands of an object or event do not express.
 * @param {{cluster: string, namespace: string}} shown @param {Known} known
 * @returns {FilterKey[]} */
export function leftOut({ cluster, namespace }, known) {
  /** @type {FilterKey[]} */
  const left = isOfSeveral(known) ? ["cluster"] : [];
  return namespace || seen(known, [cluster]).length < 2 ? left : [...left, "namespace"];
}

/** Whether there are several clusters, and no flag that selects one. @param {Known} known */
const isOfSeveral = ({ clusters, link }) => link && clusters.length > 1;

/** The namespaces that are seen of some clusters, or of all; an empty name stands for all of one.
 * @param {Known} known @param {string[]} of */
const seen = ({ clusters }, of) => [...new Set(clusters
  .filter(({ name }) => of.length === 0 || of.includes(name))
  .flatMap(({ namespaces }) => namespaces ?? [""]))];

/** @param {string[]} names */
const ofNamespace = (names) => (names.length === 1 && names[0] ? `--namespace=${quote(names[0])}`
  : "-A");

/** Whether `--for` can name the object. @param {{kind: string, name: string}} object */
const canBeNamed = ({ kind, name }) => /^[^/.]+$/.test(kind) && /^[^/]+$/.test(name);

/** Has the full kind, because only this page may know its short form.
 * @param {{kind: string, name: string}} object */
const forObject = ({ kind, name }) => `--for=${quote(`${kind.toLowerCase()}/${name}`)}`;

/** @param {string|undefined} cluster @param {Known} known */
const ofCluster = (cluster, { link }) => (cluster && !link ? [`--cluster=${quote(cluster)}`] : []);

/** The range extended to whole seconds, so that no event is omitted.
 * @param {[number, number]} range */
const times = ([from, to]) => [`--since=${instant(Math.floor(from / 1000))}`,
  `--until=${instant(Math.ceil(to / 1000))}`];

/** @param {number} seconds */
const instant = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
