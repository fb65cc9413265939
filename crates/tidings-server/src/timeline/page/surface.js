// What a picture is drawn on: a canvas, or an SVG document with the same calls, so that an export
// is the picture and not another one.

import { visible } from "./dom.js";

/**
 * @typedef {object} Surface
 * @property {(x: number, y: number, w: number, h: number, fill: string, alpha?: number,
 *   round?: number) => void} rect
 * @property {(x: number, y: number, r: number, fill: string, edge?: string) => void} circle
 * @property {(x: number, y: number, r: number, fill: string, edge?: string) => void} diamond
 * @property {(x: number, y: number, r: number, fill: string, edge?: string) => void} triangle
 * @property {(x0: number, y0: number, x1: number, y1: number, colour: string, width?: number,
 *   dash?: number[]) => void} line
 * @property {(x: number, y: number, w: number, h: number, colour: string) => void} hatch
 * @property {(text: string, x: number, y: number, colour: string,
 *   options?: {size?: number, weight?: number, align?: "start"|"center"|"end",
 *   most?: number}) => void} text
 */

/** Pixels between the lines of a hatch. */
const HATCH = 7;

/** Draws on a canvas whose context is already scaled to CSS pixels.
 * @param {CanvasRenderingContext2D} ctx @param {string} font @returns {Surface} */
export function canvasSurface(ctx, font) {
  /** @param {string} fill @param {string} [edge] */
  const ink = (fill, edge) => {
    ctx.fillStyle = fill;
    ctx.fill();
    if (edge) {
      ctx.strokeStyle = edge;
      ctx.lineWidth = 1;
      ctx.stroke();
    }
  };
  return {
    rect(x, y, w, h, fill, alpha = 1, round = 0) {
      ctx.globalAlpha = alpha;
      ctx.beginPath();
      ctx.roundRect(x, y, w, h, Math.min(round, w / 2, h / 2));
      ink(fill);
      ctx.globalAlpha = 1;
    },
    circle(x, y, r, fill, edge) {
      ctx.beginPath();
      ctx.arc(x, y, r, 0, 2 * Math.PI);
      ink(fill, edge);
    },
    diamond(x, y, r, fill, edge) {
      ctx.beginPath();
      ctx.moveTo(x, y - r);
      ctx.lineTo(x + r, y);
      ctx.lineTo(x, y + r);
      ctx.lineTo(x - r, y);
      ctx.closePath();
      ink(fill, edge);
    },
    triangle(x, y, r, fill, edge) {
      ctx.beginPath();
      ctx.moveTo(x, y - r);
      ctx.lineTo(x + r, y + r * 0.8);
      ctx.lineTo(x - r, y + r * 0.8);
      ctx.closePath();
      ink(fill, edge);
    },
    line(x0, y0, x1, y1, colour, width = 1, dash = []) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = width;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
      ctx.setLineDash([]);
    },
    hatch(x, y, w, h, colour) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, w, h);
      ctx.clip();
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (const [x0, x1] of hatchLines(x, w, h)) {
        ctx.moveTo(x0, y + h);
        ctx.lineTo(x1, y);
      }
      ctx.stroke();
      ctx.restore();
    },
    text(text, x, y, colour, { size = 11, weight = 400, align = "start", most } = {}) {
      ctx.font = `${weight} ${size}px ${font}`;
      ctx.textAlign = align;
      ctx.textBaseline = "middle";
      ctx.fillStyle = colour;
      ctx.fillText(shorten(text, size, most), x, y);
    },
  };
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Makes an SVG document of its own. The parser of XML is never given text: nodes are made one by
 * one and serialized, so names and messages cannot become elements.
 * @param {number} width @param {number} height @param {string} font
 * @returns {{surface: Surface, text: () => string, clip: (top: number) => void}}
 */
export function svgSurface(width, height, font) {
  const file = document.implementation.createDocument(SVG, "svg");
  const root = file.documentElement;
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`,
    "font-family": font })) root.setAttribute(key, String(value));
  let into = /** @type {Element} */ (root);
  let clips = 0;
  /** @param {string} name @param {Record<string, string|number|undefined>} attributes
   * @param {Element} [parent] */
  const add = (name, attributes, parent = into) => {
    const node = file.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === undefined) continue;
      const n = typeof value === "number" ? Math.round(value * 100) / 100 : value;
      node.setAttribute(key, String(n));
    }
    parent.append(node);
    return node;
  };
  /** @param {number[][]} points @param {string} fill @param {string} [stroke] */
  const polygon = (points, fill, stroke) => {
    const text = points.map((p) => p.map((n) => n.toFixed(1)).join(",")).join(" ");
    add("polygon", { points: text, fill, stroke });
  };
  return {
    surface: {
      rect(x, y, w, h, fill, alpha, round) {
        add("rect", { x, y, width: w, height: h, fill, "fill-opacity": alpha, rx: round });
      },
      circle: (x, y, r, fill, stroke) => void add("circle", { cx: x, cy: y, r, fill, stroke }),
      diamond(x, y, r, fill, stroke) {
        polygon([[x, y - r], [x + r, y], [x, y + r], [x - r, y]], fill, stroke);
      },
      triangle(x, y, r, fill, stroke) {
        polygon([[x, y - r], [x + r, y + r * 0.8], [x - r, y + r * 0.8]], fill, stroke);
      },
      line(x0, y0, x1, y1, stroke, width, dash) {
        add("line", { x1: x0, y1: y0, x2: x1, y2: y1, stroke, "stroke-width": width,
          "stroke-dasharray": dash?.join(" ") });
      },
      hatch(x, y, w, h, stroke) {
        clips += 1;
        add("rect", { x, y, width: w, height: h }, add("clipPath", { id: `c${clips}` }));
        const d = hatchLines(x, w, h)
          .map(([a, b]) => `M${a.toFixed(1)} ${y + h}L${b.toFixed(1)} ${y}`).join("");
        add("path", { d, stroke, "clip-path": `url(#c${clips})` });
      },
      text(text, x, y, fill, { size = 11, weight, align = "start", most } = {}) {
        const node = add("text", { x, y, fill, "font-size": size, "font-weight": weight,
          "text-anchor": align === "center" ? "middle" : align,
          "dominant-baseline": "central" });
        node.textContent = shorten(text, size, most);
      },
    },
    /** Draws what follows only right of x, in its own group. */
    clip(x) {
      clips += 1;
      const shape = add("clipPath", { id: `c${clips}` }, root);
      add("rect", { x, y: 0, width: width - x, height }, shape);
      into = add("g", { "clip-path": `url(#c${clips})` }, root);
    },
    text: () => new XMLSerializer().serializeToString(file),
  };
}

/** Slanted lines that fill a width. @param {number} x @param {number} w @param {number} h */
function hatchLines(x, w, h) {
  const lines = [];
  const step = Math.max(HATCH, w / 400); // bounded, however wide
  for (let at = -h; at < w && lines.length < 2000; at += step) lines.push([x + at, x + at + h]);
  return lines;
}

/** The visible text, cut to about `most` pixels. The end is kept, which tells siblings apart.
 * @param {string} said @param {number} size @param {number} [most] */
function shorten(said, size, most) {
  const text = visible(said);
  if (most === undefined) return text;
  const letters = Math.max(1, Math.floor(most / (size * 0.55)));
  if (text.length <= letters) return text;
  const tail = Math.min(12, Math.floor(letters / 2));
  return `${text.slice(0, letters - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** Gives a canvas its size in CSS pixels, sharp on any display. Setting a size clears it, so it is
 * only set if it changed. @param {HTMLCanvasElement} canvas
 * @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
export function fit(canvas, context, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
}
