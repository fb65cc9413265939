// A value of JSON as YAML, to be read and copied. Text is quoted if YAML could read it as another
// type.

const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./ ()-]*$/;
const TAKEN = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

/** @param {unknown} value @param {number} [depth] @returns {string} */
export function toYaml(value, depth = 0) {
  const indent = "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return value.map((item) => {
      const text = toYaml(item, depth + 1);
      const nested = isNested(item);
      return `\n${indent}- ${nested ? text.replace(/^\n\s*/, "") : text}`;
    }).join("");
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
    if (entries.length === 0) return "{}";
    return entries.map(([key, inner]) => {
      const text = toYaml(inner, depth + 1);
      return `\n${indent}${scalar(key)}:${isNested(inner) ? text : ` ${text}`}`;
    }).join("");
  }
  return scalar(value);
}

/** @param {unknown} value */
const isNested = (value) =>
  value !== null && typeof value === "object" && Object.keys(value).length > 0;

/** @param {unknown} value */
function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value) ?? "null";
  const plain = PLAIN.test(value) && !TAKEN.test(value) && !value.endsWith(" ");
  return plain ? value : JSON.stringify(value);
}
