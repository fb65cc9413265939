// Commands for what is in view, to be copied. Nothing of an event is a command of its own when they
// are pasted.

/** @typedef {import("./types.js").Filters} Filters */
/** @typedef {import("./types.js").FilterKey} FilterKey */
/** @typedef {import("./types.js").ObjectRef} ObjectRef */

/** Objects that one command names. */
const MOST_OBJECTS = 20;

/** A text as a shell takes it for one word, without what a terminal would act on.
 * @param {string} text */
export function quote(text) {
  const kept = text.replace(/\p{Cc}/gu, "");
  return /^[\w./:=,@-]+$/.test(kept) ? kept : `'${kept.replaceAll("'", `'\\''`)}'`;
}

/** The events of the filters; what no flag says is named behind it.
 * @param {Filters} filters @param {[number, number]} range
 * @param {string[]} known The clusters that there are. */
export function listCommand(filters, range, known) {
  /** @type {Set<FilterKey>} */
  const left = new Set();
  /** Values of one flag, which are joined by commas. @param {FilterKey} key @param {string} flag
   * @param {(value: string) => boolean} [may] */
  const joined = (key, flag, may = (value) => !value.includes(",")) => {
    const values = filters[key];
    if (!values.every(may)) left.add(key);
    return values.length > 0 && values.every(may) ? [`--${flag}=${quote(values.join(","))}`] : [];
  };
  const { cluster, namespace, kind, object } = filters;
  for (const key of /** @type {FilterKey[]} */ (["cluster", "namespace"])) {
    if (filters[key].length > 1) left.add(key);
  }
  const pairs = kind.flatMap((one) => object.map((name) => ({ kind: one, name })));
  const named = pairs.length > 0 && pairs.length <= MOST_OBJECTS && pairs.every(canBeNamed);
  if (!named && kind.length > 0) left.add("kind");
  if (!named && object.length > 0) left.add("object");
  const words = [
    "tidings events",
    namespace.length === 1 ? `--namespace=${quote(namespace[0])}` : "-A",
    ...ofCluster(cluster.length === 1 ? cluster[0] : known.length > 1 ? "all" : known[0]),
    ...(named ? pairs.map(forObject) : []),
    ...joined("type", "types", (value) => value === "Normal" || value === "Warning"),
    ...joined("reason", "reason"),
    ...joined("source", "source"),
    ...filters.text.map((text) => `--grep=${quote(text)}`),
    ...times(range),
    ...(left.size > 0 ? [`# not expressed: ${[...left].join(", ")}`] : []),
  ];
  return words.join(" ");
}

/** The events of an object. @param {ObjectRef & {cluster: string}} object
 * @param {[number, number]} range */
export function objectCommands({ cluster, kind, namespace, name }, range) {
  const selector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  return {
    tidings: canBeNamed({ kind, name }) ? [
      "tidings events", namespace ? `--namespace=${quote(namespace)}` : "-A",
      ...ofCluster(cluster), forObject({ kind, name }), ...times(range),
    ].join(" ") : "",
    kubectl: `kubectl get events ${namespace ? `--namespace=${quote(namespace)}` : "-A"} `
      + `--field-selector=${quote(selector)}`,
  };
}

/** Whether `--for` takes it. @param {{kind: string, name: string}} object */
const canBeNamed = ({ kind, name }) => /^[^/.]+$/.test(kind) && /^[^/]+$/.test(name);

/** By the whole kind: its short form may be known to this page alone.
 * @param {{kind: string, name: string}} object */
const forObject = ({ kind, name }) => `--for=${quote(`${kind.toLowerCase()}/${name}`)}`;

/** @param {string} [cluster] */
const ofCluster = (cluster) => (cluster ? [`--cluster=${quote(cluster)}`] : []);

/** Whole seconds around a range: none of its events is left out. @param {[number, number]} range */
const times = ([from, to]) => [`--since=${instant(Math.floor(from / 1000))}`,
  `--until=${instant(Math.ceil(to / 1000))}`];

/** @param {number} seconds */
const instant = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
