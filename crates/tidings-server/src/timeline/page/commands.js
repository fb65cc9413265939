// Commands that show the view, to be copied. No text of an event becomes a command when they
// are pasted; nor is there a comment in them, which not every shell takes for one.

import { HIDDEN } from "./dom.js";

/** @typedef {import("./types.js").Filters} Filters */
/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */
/** @typedef {Pick<import("./known.js").Known, "clusters"|"link">} Known */

/** Maximum objects in one command. */
const MOST_OBJECTS = 20;

/** Quotes a text as one word of a shell, without characters that a terminal would interpret.
 * @param {string} text */
export function quote(text) {
  const kept = text.replace(/\p{Cc}/gu, "").replace(HIDDEN, "");
  return /^[\w./:=,@-]+$/.test(kept) ? kept : `'${kept.replaceAll("'", `'\\''`)}'`;
}

/** The events of the filters, and the filters that no flag expresses.
 * @param {Filters} filters @param {[number, number]} range @param {Known} known
 * @returns {{command: string, left: FilterKey[]}} */
export function listCommand(filters, range, known) {
  const { cluster, namespace, kind, object } = filters;
  /** @type {Set<FilterKey>} */
  const left = new Set();
  /** A flag with its values, joined by commas. @param {FilterKey} key @param {string} flag
   * @param {(value: string) => boolean} [may] */
  const joined = (key, flag, may = (value) => !value.includes(",")) => {
    const values = filters[key];
    if (!values.every(may)) left.add(key);
    return values.length > 0 && values.every(may) ? [`--${flag}=${quote(values.join(","))}`] : [];
  };
  if (cluster.length > 1 || isOfSeveral(known)) left.add("cluster");
  const where = namespace.length > 0 ? namespace : seen(known, cluster);
  if (where.length > 1) left.add("namespace");
  const pairs = kind.flatMap((one) => object.map((name) => ({ kind: one, name })));
  const named = pairs.length > 0 && pairs.length <= MOST_OBJECTS && pairs.every(canBeNamed);
  if (!named && kind.length > 0) left.add("kind");
  if (!named && object.length > 0) left.add("object");
  const all = known.clusters.length > 1 ? "all" : known.clusters[0]?.name;
  const words = [
    "tidings events",
    ofNamespace(where),
    ...ofCluster(cluster.length === 1 ? cluster[0] : all, known),
    ...(named ? pairs.map(forObject) : []),
    ...joined("type", "types", (value) => value === "Normal" || value === "Warning"),
    ...joined("reason", "reason"),
    ...joined("source", "source"),
    ...filters.text.map((text) => `--grep=${quote(text)}`),
    ...times(range),
  ];
  return { command: words.join(" "), left: [...left] };
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
