/**
 * Draws what models found: masks, areas, maps of depth and boxes, on canvases of the picture's size.
 *
 * @typedef {import("./looks.js").Values} Values
 * @typedef {import("./looks.js").FoundObject} FoundObject
 */
import { UserError } from "../../shared/protocol.js";

/** A pixel of ImageData, in the order of bytes that all browsers' processors have. @param {number[]} colour red, green, blue @param {number} [opacity] */
const pixelOf = ([red, green, blue], opacity = 255) => ((opacity << 24) | (blue << 16) | (green << 8) | red) >>> 0;

const OUTSIDE = pixelOf([12, 14, 13], 150); // darkens what is not cut out
const EDGE = pixelOf([255, 205, 40]);
/** Colours of a map of depth, from far to near. */
const DEPTH = [[48, 18, 59], [65, 88, 202], [40, 160, 246], [30, 212, 172], [128, 247, 87], [215, 226, 50], [253, 160, 43], [228, 78, 16], [122, 4, 3]];

/** A canvas and its context. @param {number} width @param {number} height */
function fresh(width, height) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  if (!context) throw new UserError("There is not enough memory for this picture.", { hint: "Make it smaller, or close other tabs." });
  return { canvas, context };
}

/** The number of every pixel, row by row. @param {Values} values @returns {Uint16Array} */
function numbersOf({ runs = [], size: [height, width] = [0, 0] }) {
  const numbers = new Uint16Array(height * width);
  let at = 0;
  for (const [number, count] of runs) numbers.fill(number, at, (at += count));
  return numbers;
}

/**
 * A canvas whose pixels have the colours of their numbers.
 * @param {Values} values @param {(number: number, at: number, numbers: Uint16Array) => number} pixelFor as pixelOf; 0: transparent
 */
function coloured(values, pixelFor) {
  const [height, width] = values.size ?? [1, 1];
  const { canvas, context } = fresh(width, height);
  const pixels = context.createImageData(width, height);
  const all = new Uint32Array(pixels.data.buffer);
  const numbers = numbersOf(values);
  for (let i = 0; i < numbers.length; i += 1) all[i] = pixelFor(numbers[i], i, numbers);
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Darkens what is outside of a mask, and draws its edge. @param {Values} values */
export function drawMask(values) {
  const [height, width] = values.size ?? [1, 1];
  const reach = Math.max(1, Math.round(Math.max(height, width) / 500)); // of the edge, in pixels
  return coloured(values, (number, i, numbers) => {
    if (number) return 0;
    const [x, y] = [i % width, Math.floor(i / width)];
    const near = (x >= reach && numbers[i - reach]) || (x + reach < width && numbers[i + reach]) || (y >= reach && numbers[i - reach * width]) || (y + reach < height && numbers[i + reach * width]);
    return near ? EDGE : OUTSIDE;
  });
}

/** What a mask cuts out of a picture: transparent around it, without empty margins. @param {HTMLCanvasElement} picture @param {Values} values @returns {HTMLCanvasElement | null} null: nothing is inside */
export function cutOut(picture, values) {
  const { width, height } = picture;
  const numbers = numbersOf(values);
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let i = 0; i < numbers.length; i += 1) {
    if (!numbers[i]) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  }
  if (right < 0) return null;
  const { canvas, context } = fresh(right - left + 1, bottom - top + 1);
  context.drawImage(picture, -left, -top);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let y = 0; y < canvas.height; y += 1) {
    for (let x = 0; x < canvas.width; x += 1) if (!numbers[(y + top) * width + x + left]) pixels.data[(y * canvas.width + x) * 4 + 3] = 0;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** The colour of an area: neighbours in the list have hues that are far apart. @param {number} number @returns {number[]} red, green, blue */
export function colourOf(number) {
  const [hue, light] = [(number * 137.508 + 20) % 360, 0.42 + (number % 3) * 0.1];
  const channel = (/** @type {number} */ n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - 0.7 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** Areas in their colours. @param {Values} values @param {number | null} only the number of the one area that is shown; null: all */
export function drawAreas(values, only = null) {
  const pixels = new Map((values.segments ?? []).map(({ number }) => [number, pixelOf(colourOf(number))]));
  return coloured(values, (number) => (only === null || only === number ? pixels.get(number) ?? 0 : 0));
}

/** The bytes of the PNG file of a map of depth. @param {Values} values */
export const depthFile = ({ png = "" }) => new Blob([Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0))], { type: "image/png" });

/** A map of depth in colours, what is near in the warm ones. @param {Values} values */
export async function drawDepth(values) {
  const bitmap = await createImageBitmap(depthFile(values)); // 8 of its 16 bits
  const { canvas, context } = fresh(bitmap.width, bitmap.height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  const table = Array.from({ length: 256 }, (_, grey) => pixelOf(depthColour(values.metric ? 1 - grey / 255 : grey / 255))); // metres grow with the distance
  const all = new Uint32Array(pixels.data.buffer);
  for (let i = 0; i < all.length; i += 1) all[i] = table[all[i] & 255];
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** @param {number} near from 0 to 1 @returns {number[]} red, green, blue */
function depthColour(near) {
  const place = near * (DEPTH.length - 1);
  const [low, high] = [DEPTH[Math.floor(place)], DEPTH[Math.ceil(place)]];
  return low.map((value, i) => Math.round(value + (high[i] - value) * (place % 1)));
}

/** As CSS has it, from far to near. */
export const DEPTH_GRADIENT = `linear-gradient(to right, ${DEPTH.map((colour) => `rgb(${colour.join(" ")})`).join(", ")})`;

/** A copy of a picture with boxes and names. @param {HTMLCanvasElement} picture @param {FoundObject[]} objects */
export function withBoxes(picture, objects) {
  const { canvas, context } = fresh(picture.width, picture.height);
  context.drawImage(picture, 0, 0);
  const size = Math.max(12, Math.round(Math.max(canvas.width, canvas.height) / 50));
  Object.assign(context, { lineWidth: Math.max(2, size / 6), font: `600 ${size}px sans-serif`, textBaseline: "top" });
  for (const { label, score, box: [left, top, right, bottom], corners } of [...objects].reverse()) { // the most probable one on top
    const text = `${label} ${Math.round(score * 100)} %`;
    const outline = corners ?? [[left, top], [right, top], [right, bottom], [left, bottom]];
    context.strokeStyle = context.fillStyle = boxColour(label);
    context.beginPath();
    for (const [x, y] of outline) context.lineTo(x, y);
    context.closePath();
    context.stroke();
    const [x, y] = outline.reduce((highest, corner) => (corner[1] < highest[1] ? corner : highest)); // where the name stands
    const place = { x: Math.max(0, x), y: Math.max(0, y - size * 1.3) };
    context.fillRect(place.x, place.y, context.measureText(text).width + size * 0.6, size * 1.3);
    context.fillStyle = "#fff";
    context.fillText(text, place.x + size * 0.3, place.y + size * 0.18);
  }
  return canvas;
}

/** A turned box: its middle and its sides in pixels, and the angle in radians by which its name still stands upright. @param {number[][]} corners four [x, y], one after the other */
export function turnedBox([first, second, third, fourth]) {
  const [right, down] = [[second[0] - first[0], second[1] - first[1]], [third[0] - second[0], third[1] - second[1]]];
  const angle = Math.atan2(right[1], right[0]);
  const [x, y] = [0, 1].map((axis) => (first[axis] + second[axis] + third[axis] + fourth[axis]) / 4);
  return { x, y, width: Math.hypot(...right), height: Math.hypot(...down), angle: Math.abs(angle) > Math.PI / 2 ? angle - Math.sign(angle) * Math.PI : angle };
}

/** The colour of the boxes of a label: dark enough for white letters. @param {string} label */
export function boxColour(label) {
  let hash = 7;
  for (const letter of label) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 360;
  return `hsl(${hash} 75% 26%)`;
}

/** @param {HTMLCanvasElement} canvas @returns {Promise<Blob>} a PNG file */
export function pngOf(canvas) {
  return new Promise((resolve, reject) => canvas.toBlob((blob) => {
    if (blob) resolve(blob);
    else reject(new UserError("This browser could not write the picture.", { hint: "Close other tabs, then try again." }));
  }, "image/png"));
}
