/**
 * The picture, and over it what was found: a map of its size, boxes, and the points of a cut-out, which are set by clicks or keys.
 *
 * Fires "point" (detail: a Point that is wanted), "unpoint" (the last one is to go), "place" (detail: a text, where the cross is now).
 * @typedef {import("./looks.js").Point} Point
 * @typedef {import("./looks.js").FoundObject} FoundObject
 */
import { byId, h } from "../../page/dom.js";
import { boxColour, turnedBox } from "./drawing.js";

const STEP = 0.02; // of the sides, by which an arrow key moves the cross
const LARGE_STEP = 0.1; // with Shift
const ZOOM = 1.5;
const LARGEST = 8;

export class PictureStage extends EventTarget {
  constructor() {
    super();
    this.box = byId("look-box");
    this.stage = byId("look-stage");
    this.map = h("div", { class: "look-map", "aria-hidden": "true" });
    this.boxes = h("div", { class: "look-boxes", "aria-hidden": "true" }); // the list beside it says the same
    this.marks = h("div", { class: "look-marks", "aria-hidden": "true" });
    this.cross = h("span", { class: "look-cross", hidden: true });
    /** @type {HTMLCanvasElement | null} */
    this.canvas = null;
    /** Whether points can be set. */
    this.pointing = false;
    /** The label of the points that are set: 0 where the user leaves parts out. @type {0 | 1} */
    this.label = 1;
    /** Where the keyboard's cross is, in parts of the sides. */
    this.place = { x: 0.5, y: 0.5 };
    this.zoom = 1;
    this.stage.addEventListener("click", (event) => this.#clicked(event));
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.box.addEventListener("blur", () => (this.cross.hidden = true));
    byId("look-larger").addEventListener("click", () => this.#scale(this.zoom * ZOOM));
    byId("look-smaller").addEventListener("click", () => this.#scale(this.zoom / ZOOM));
    byId("look-fit").addEventListener("click", () => this.#scale(1));
  }

  /** @param {HTMLCanvasElement | null} canvas null: there is no picture @param {string} [name] */
  show(canvas, name = "") {
    this.canvas = canvas;
    this.place = { x: 0.5, y: 0.5 };
    this.showMap(null);
    this.showBoxes([], "");
    this.showPoints([]);
    this.stage.replaceChildren();
    if (!canvas) return;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Picture: ${name}`);
    this.stage.append(canvas, this.map, this.boxes, this.marks, this.cross);
    this.#scale(1);
    this.box.scrollTo(0, 0);
  }

  /** @param {number} zoom 1: as large as fits */
  #scale(zoom) {
    this.zoom = Math.min(LARGEST, Math.max(1 / ZOOM, zoom));
    const ratio = this.canvas ? this.canvas.width / this.canvas.height : 1;
    // A picture that is higher than its place is narrower than it.
    this.stage.style.width = `min(${this.zoom * 100}%, ${(ratio * this.zoom).toFixed(4)} * var(--look-height))`;
  }

  /** Whether clicks and keys set points. @param {boolean} pointing */
  allowPoints(pointing) {
    this.pointing = pointing;
    this.box.dataset.pointing = String(pointing);
    this.box.setAttribute("role", pointing ? "application" : "group"); // else screen readers keep the arrow keys for themselves
    this.box.setAttribute("aria-label", pointing ? "The picture: choose what to cut out" : "The picture");
    if (pointing) this.box.setAttribute("aria-describedby", "look-keys");
    else this.box.removeAttribute("aria-describedby");
    this.cross.hidden = true;
  }

  /** @param {HTMLCanvasElement | null} canvas a map of the picture's size; null: none @param {number} [opacity] from 0 to 1 */
  showMap(canvas, opacity = 1) {
    this.map.replaceChildren(...(canvas ? [canvas] : []));
    this.map.style.opacity = String(opacity);
  }

  /** @param {FoundObject[]} objects @param {string} marked the key of the one that is marked */
  showBoxes(objects, marked) {
    const { width = 1, height = 1 } = this.canvas ?? {};
    const part = (/** @type {number} */ value, /** @type {number} */ side) => Math.min(1, Math.max(0, value / side)) * 100;
    this.boxes.replaceChildren(...objects.map(({ label, box: [left, top, right, bottom], corners }, i) => {
      const box = h("div", { class: `look-found${marked === String(i) ? " marked" : ""}` }, h("span", { dir: "auto" }, label));
      const [x, y] = [part(left, width), part(top, height)];
      if (corners) {
        const turned = turnedBox(corners);
        const [wide, high] = [turned.width / width, turned.height / height];
        Object.assign(box.style, { left: `${(turned.x / width - wide / 2) * 100}%`, top: `${(turned.y / height - high / 2) * 100}%`, width: `${wide * 100}%`, height: `${high * 100}%`, transform: `rotate(${turned.angle}rad)` });
      } else Object.assign(box.style, { left: `${x}%`, top: `${y}%`, width: `${part(right, width) - x}%`, height: `${part(bottom, height) - y}%` });
      box.style.setProperty("--box", boxColour(label));
      return box;
    }).reverse()); // the most probable one on top
  }

  /** @param {Point[]} points */
  showPoints(points) {
    const { width = 1, height = 1 } = this.canvas ?? {};
    this.marks.replaceChildren(...points.map(({ x, y, label }) => {
      const mark = h("span", { class: "look-mark", "data-label": label }, label ? "+" : "−");
      Object.assign(mark.style, { left: `${(x / width) * 100}%`, top: `${(y / height) * 100}%` });
      return mark;
    }));
  }

  /** @param {MouseEvent} event */
  #clicked({ clientX, clientY, shiftKey, altKey, detail }) {
    if (!this.pointing || !this.canvas || detail > 1) return; // the second half of a double click is no other point
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    this.place = { x: clamped((clientX - left) / width), y: clamped((clientY - top) / height) };
    this.#point(shiftKey || altKey ? 0 : this.label);
  }

  /** @param {0 | 1} label */
  #point(label) {
    if (!this.canvas) return;
    const { width, height } = this.canvas;
    const detail = { x: Math.min(width - 1, Math.floor(this.place.x * width)), y: Math.min(height - 1, Math.floor(this.place.y * height)), label };
    this.dispatchEvent(new CustomEvent("point", { detail }));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { key, shiftKey, altKey, ctrlKey, metaKey, repeat } = event;
    if (!this.pointing || !this.canvas || ctrlKey || metaKey || event.target !== this.box) return;
    const ways = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] });
    if (Object.hasOwn(ways, key)) this.#move(ways[key], shiftKey ? LARGE_STEP : STEP);
    else if (["Enter", " ", "+", "-"].includes(key)) {
      if (!repeat) this.#point(key === "-" || shiftKey && key !== "+" || altKey ? 0 : this.label);
    } else if (key === "Backspace" || key === "Delete") this.dispatchEvent(new Event("unpoint"));
    else return;
    event.preventDefault();
  }

  /** @param {[number, number]} way @param {number} step */
  #move([x, y], step) {
    this.place = { x: clamped(this.place.x + x * step), y: clamped(this.place.y + y * step) };
    Object.assign(this.cross.style, { left: `${this.place.x * 100}%`, top: `${this.place.y * 100}%` });
    this.cross.hidden = false;
    this.cross.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.dispatchEvent(new CustomEvent("place", { detail: placeOf(this.place) }));
  }
}

/** @param {number} part */
const clamped = (part) => Math.min(1, Math.max(0, part));

/** In words. @param {{x: number, y: number}} place in parts of the sides */
export const placeOf = ({ x, y }) => `${Math.round(x * 100)} % across, ${Math.round(y * 100)} % down`;
