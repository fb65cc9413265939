// Shapes of what the server answers and of the page's own state. Only types: no code at run time.

/**
 * @typedef {{kind: string, namespace: string, name: string, uid?: string}} ObjectRef
 * @typedef {{cluster: string, namespace: string, name: string, uid: string, type: string,
 *   reason: string, message: string, first: number, last: number, count: number,
 *   object: ObjectRef, source: string, host: string, action: string}} Item
 * @typedef {{events: number|null, versions: number, bytes: number, since: number|null}} Kept
 * @typedef {{name: string, from: number|null, to: number|null, fromIsExact?: boolean,
 *   events: number|null, kept: Kept|null, live: boolean, namespaces: string[]|null}} Cluster
 * @typedef {{version: string, now: number, user: string, login: "token"|"code",
 *   clusters: Cluster[]}} Overview
 * @typedef {{cluster: string, live: boolean, state: string|null, why?: string,
 *   kept?: Kept}} Following
 * @typedef {{objects: number, events: number, warnings: number, occurrences: number,
 *   first: number, last: number}} Sums
 * @typedef {{cluster: string, namespace: string, name: string, reason: string, kind: string,
 *   objectNamespace: string, object: string, first: number, last: number,
 *   count: number}} FirstWarning
 * @typedef {{cluster: string, namespace: string, kind: string, name: string, uid: string|null,
 *   apart: boolean, parent: number, depth: number, gone: boolean, objects: number, events: number,
 *   warnings: number, occurrences: number, first: number, last: number, family: Sums}} Lane
 * @typedef {[lane: number, from: number, to: number, warning: number, occurrences: number,
 *   events: number, reason: number, event: number]} Mark
 * @typedef {{cluster: string, from: number, to: number, cause: string}} Gap
 * @typedef {{step: number, start: number, estimated: boolean,
 *   series: {name: string, values: number[]}[]}} Rates
 * @typedef {{from: number, to: number, now: number, position: string, read: number,
 *   complete: boolean, total: number|null,
 *   firsts: {exact: boolean, warnings: FirstWarning[]}, rates: Rates, gaps: Gap[],
 *   counted: "occurrences"|"events"|"versions",
 *   following?: Following[],
 *   lanes: Lane[],
 *   marks: Mark[], mixed: boolean, reasons: string[], changes: number[],
 *   events: {namespace: string, name: string, message?: string}[],
 *   unasked: {clusters: string[], others: number},
 *   more: {next: number, lanes: number, events: number}}} Picture
 * @typedef {{items: Item[], continue: string|null, complete: boolean}} ItemPage
 * @typedef {{name: string, kind: string, namespace: string, cluster: string, occurrences: number,
 *   warnings: number, objects: number|null, first: number|null, last: number|null,
 *   byHour: boolean, going: boolean, estimated: boolean, beforeEstimated: boolean,
 *   partsEstimated: boolean, before: number, parts: number[], uid?: string}} TopRow
 * @typedef {{from: number, to: number, now: number, counted: "occurrences"|"events"|"versions",
 *   complete: boolean, read: number|null, occurrences: number, events: number,
 *   laterComplete: boolean,
 *   before: {from: number, to: number, occurrences: number, known: boolean,
 *     complete: boolean}|null,
 *   rows: TopRow[], more: number}} Top
 * @typedef {{sentence: string, items: Item[],
 *   summary: (Omit<Sums, "objects"> & {complete: boolean})|null,
 *   family: (ObjectRef & {relation: "owner"|"self"|"owned"})[]}} ObjectDetail
 * @typedef {{observed: number|null, last: number, count: number, message?: string,
 *   resourceVersion?: string}} Version
 * @typedef {{from: number, to: number, bins: number[], begun: number, versions: number,
 *   more: boolean}} Repeats
 * @typedef {{item: Item, raw: unknown, sentence: string, versions: Version[],
 *   versionsMore: boolean, repeats?: Repeats, began: number, before: Neighbour[],
 *   same: {objects: number, more: boolean, items: Item[]}}} EventDetail
 * @typedef {{item: Item, why: string, at: number, birth: boolean,
 *   reasons: {namespace: string, name: string, reason: string, warning: boolean, count: number,
 *   first: number, last: number}[]}} Neighbour
 * @typedef {{position: string, items: Item[], more: number, gone: number}} Change
 */

/**
 * @typedef {"cluster"|"namespace"|"kind"|"object"|"reason"|"type"|"source"|"host"
 *   |"text"} FilterKey
 * @typedef {"reason"|"object"|"namespace"|"node"|"source"} By
 * @typedef {"events"|By} Below
 * @typedef {{is: "object", cluster: string, kind: string, namespace: string, name: string,
 *   span?: [number, number]}
 *   | {is: "event", cluster: string, namespace: string, name: string}} Shown
 */

/**
 * The whole state of the view; all of it is in the address.
 * `below` is what the reader chose to see below the lanes; `against`: beside the range before.
 * `last` is the length of a moving range that ends now; without it, `from` and `to` are the range.
 * @typedef {{last: number|null, from: number, to: number, by: "type"|"reason",
 *   count: "occurrences"|"events",
 *   sort: "trouble"|"first"|"latest"|"name", group: "owner"|"namespace"|"node",
 *   filters: string[], below: Below|null, against: boolean,
 *   shown: Shown|null, utc: boolean, skip: number}} View
 */

/**
 * What is used of uPlot, which is a script of its own.
 * @typedef {{width: number, over: HTMLElement,
 *   scales: Record<string, {min?: number|null, max?: number|null}>,
 *   select: {left: number, top: number, width: number, height: number},
 *   setData(data: number[][], resetScales: boolean): void,
 *   setScale(key: string, limits: {min: number, max: number}): void,
 *   setSize(size: {width: number, height: number}): void,
 *   setSelect(select: {left: number, top: number, width: number, height: number},
 *     fire: boolean): void,
 *   posToVal(position: number, scale: string): number, destroy(): void}} Plot
 * @typedef {{[key: string]: unknown,
 *   scales: Record<string, {time?: boolean, auto?: boolean,
 *     range(u: Plot, min: number, max: number): [number, number]}>,
 *   axes: {[key: string]: unknown, values?: (u: Plot, values: number[]) => string[]}[],
 *   hooks: {setSelect: ((u: Plot) => void)[]}}} PlotOptions
 * @typedef {{new (options: PlotOptions, data: number[][], target: HTMLElement): Plot,
 *   paths: {bars(options: object): unknown}}} PlotClass
 */

export {};
