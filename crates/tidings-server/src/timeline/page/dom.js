// Elements made without HTML: text is always text, whatever an event says.

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * An element with properties, attributes (`aria-…`, `data-…`, `role`, `for`, `colspan`), listeners
 * (`onclick`) and children.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [options]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = String(value);
    else if (name.startsWith("on") && typeof value === "function") {
      node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else node.setAttribute(name, value === true ? "" : isRead(name) ? visible(String(value))
      : String(value));
  }
  append(node, ...children);
  return node;
}

/** Whether people read the text of an attribute. @param {string} name */
function isRead(name) {
  return ["title", "aria-label", "placeholder"].includes(name);
}

/** @param {Node} node @param {...Child} children */
export function append(node, ...children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    node.appendChild(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

/** Empties a node and fills it. @param {Node} node @param {...Child} children */
export function fill(node, ...children) {
  while (node.lastChild) node.lastChild.remove();
  append(node, ...children);
}

/** Makes these the children of a node. Those in their place stay: a node that is inserted again has
 * to be laid out again. @param {Node} node @param {Node[]} children */
export function arrange(node, children) {
  const kept = new Set(children);
  for (const child of [...node.childNodes]) if (!kept.has(child)) node.removeChild(child);
  let at = node.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else node.insertBefore(child, at);
  }
}

/** The element of index.html with an id.
 * @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`index.html has no #${id}`);
  return /** @type {T} */ (node);
}

/** What has no look of its own and could make text look like another: control characters but for
 * tabs and line ends, changes of direction, characters without a width, separators of lines. */
export const HIDDEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\p{Cf}"
  + "\\u2028\\u2029]", "gu");

/** The text, with hidden characters as U+ numbers. @param {string|number} text */
export function visible(text) {
  return String(text).replace(HIDDEN, (c) =>
    `\u2039U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}\u203a`);
}

/** Whether part of the node is selected, for example to be copied. @param {Node} node */
export function isSelected(node) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(node, true);
}

/** Whether a field receives the typed keys. @param {EventTarget|null} target */
export function isField(target) {
  return target instanceof HTMLElement
    && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

/** Copies text; without permission, by a selection. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Saves a file made here. @param {string} name @param {Blob} content */
export function save(name, content) {
  const url = URL.createObjectURL(content);
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
