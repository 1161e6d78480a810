/**
 * A field to draw in with the mouse, a pen or a finger; with the keyboard, arrow keys move a pen that the space key sets down
 * and lifts. Strokes are kept as lines, so the pixels that Python gets have the same pen at any size of the field.
 */
import { h } from "../../page/dom.js";

const SIDE = 224; // CSS pixels of the field
const FINE = 4; // parts of a pixel in each direction, whose mean is its value
const PEN = 0.9; // width in Python's pixels
const STEP = 1 / 16; // of the side, for an arrow key
/** @type {Record<string, number[]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @typedef {[number, number][]} Stroke points from 0 to 1 */

export class DrawingField {
  /** @param {import("./notebook-files.js").Output} output @param {(pixels: number[]) => void} drawn runs after each stroke */
  constructor(output, drawn) {
    this.size = Math.min(64, Math.max(4, Number(output.size) || 28));
    this.drawn = drawn;
    /** @type {Stroke[]} */
    this.strokes = [];
    /** @type {[number, number] | null} where the keyboard's pen is */
    this.pen = null;
    this.down = false;
    this.canvas = h("canvas", { class: "drawing-canvas", width: SIDE * 2, height: SIDE * 2, tabindex: "0", role: "application",
      "aria-roledescription": "field to draw in", "aria-label": `${output.label || "Draw here"}. Arrow keys move the pen, Space sets it down and lifts it.` });
    const clear = h("button", { type: "button", class: "quiet", onclick: () => this.clear() }, "Clear");
    this.answer = h("div", { class: "drawing-answer", role: "status" });
    this.element = h("div", { class: "drawing" }, h("div", { class: "drawing-side" }, this.canvas, h("div", { class: "drawing-foot" }, h("span", {}, output.label || "Draw here"), clear)), this.answer);
    this.#listen();
    this.themed = new MutationObserver(() => this.#paint());
    this.themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    queueMicrotask(() => this.#paint());
  }

  #listen() {
    const { canvas } = this;
    const place = (/** @type {PointerEvent} */ event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      return /** @type {[number, number]} */ ([Math.min(1, Math.max(0, (event.clientX - left) / width)), Math.min(1, Math.max(0, (event.clientY - top) / height))]);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      this.drawing = event.pointerId;
      this.pen = null;
      this.strokes.push([place(event)]);
      this.#paint();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerId !== this.drawing) return;
      this.strokes.at(-1)?.push(place(event)); // none: it was cleared meanwhile
      this.#paint();
    });
    const end = (/** @type {PointerEvent} */ event) => {
      if (event.pointerId !== this.drawing) return;
      this.drawing = null;
      this.drawn(this.pixels());
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const arrow = ARROWS[event.key];
    if (!arrow && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    this.pen ??= [0.5, 0.5];
    if (arrow) {
      this.pen = [Math.min(1, Math.max(0, this.pen[0] + arrow[0] * STEP)), Math.min(1, Math.max(0, this.pen[1] + arrow[1] * STEP))];
      if (this.down) this.strokes.at(-1)?.push(this.pen);
    } else {
      this.down = !this.down;
      if (this.down) this.strokes.push([this.pen]);
      else this.drawn(this.pixels());
    }
    this.#paint();
  }

  clear() {
    this.strokes = [];
    this.down = false;
    this.answer.replaceChildren();
    this.#paint();
  }

  #paint() {
    const context = this.canvas.getContext("2d");
    if (!context) return; // the browser has no memory left for another canvas
    const { width } = this.canvas;
    const style = getComputedStyle(this.canvas);
    context.clearRect(0, 0, width, width);
    trace(context, this.strokes, ([x, y]) => [x * width, y * width], width * PEN / this.size, style.color);
    if (this.pen) {
      context.lineWidth = 3;
      context.beginPath();
      context.arc(this.pen[0] * width, this.pen[1] * width, this.down ? 6 : 12, 0, 7);
      context.stroke();
    }
  }

  /**
   * The drawing in Python's pixels, row by row, from 0 to 1: moved to the middle and scaled to the height or width of the
   * field, as in data sets of digits and letters. @returns {number[]}
   */
  pixels() {
    const side = this.size * FINE;
    const points = this.strokes.flat();
    const canvas = new OffscreenCanvas(side, side);
    const context = /** @type {any} */ (canvas.getContext("2d", { willReadFrequently: true }));
    const [left, right] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
    const [top, bottom] = [Math.min(...points.map(([, y]) => y)), Math.max(...points.map(([, y]) => y))];
    const pen = PEN * FINE;
    const scale = (side - pen) / Math.max(right - left, bottom - top, 0.05);
    const put = (/** @type {number[]} */ [x, y]) => [side / 2 + (x - (left + right) / 2) * scale, side / 2 + (y - (top + bottom) / 2) * scale];
    trace(context, this.strokes, put, pen, "black");
    const { data } = context.getImageData(0, 0, side, side);
    const pixels = new Array(this.size * this.size).fill(0);
    for (let y = 0; y < side; y += 1) {
      for (let x = 0; x < side; x += 1) pixels[Math.floor(y / FINE) * this.size + Math.floor(x / FINE)] += data[(y * side + x) * 4 + 3] / 255 / FINE ** 2;
    }
    return pixels;
  }

  destroy() {
    this.themed.disconnect();
  }
}

/** @param {any} context @param {Stroke[]} strokes @param {(point: [number, number]) => number[]} put @param {number} width @param {string} colour */
function trace(context, strokes, put, width, colour) {
  Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: "round", lineJoin: "round" });
  for (const stroke of strokes) {
    context.beginPath();
    const points = stroke.map(put);
    context.moveTo(points[0][0], points[0][1]);
    for (const [x, y] of points.length > 1 ? points.slice(1) : [[points[0][0] + 0.01, points[0][1]]]) context.lineTo(x, y);
    context.stroke();
  }
}
