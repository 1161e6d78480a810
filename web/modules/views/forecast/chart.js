/**
 * The chart of a series and its forecast with the band between two quantiles, drawn as SVG at the width that it has. A slider
 * over it reads one value after the other, with keys and for screen readers too.
 *
 * @typedef {{past: number[], forecast: number[], low: number[], high: number[], label: (index: number) => string, tell: (index: number) => string}} Drawn
 *   `label`: of a value on the axis, `tell`: a sentence with its number; both count from the first value of `past`
 */
import { h } from "../../page/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [TOP, BOTTOM, LEFT, RIGHT] = [12, 26, 52, 14]; // pixels around the drawing
const LETTER = 7; // pixels of a letter on the axis below, at most

/** @param {string} name @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

export class Chart {
  /** @param {HTMLElement} host an empty element */
  constructor(host) {
    this.svg = draw("svg", { role: "img", class: "forecast-drawing" });
    this.cursor = h("input", { type: "range", class: "forecast-cursor", min: 0, step: 1, "aria-label": "Value to read" });
    this.told = h("p", { class: "forecast-told", "aria-hidden": "true" }); // the slider says it
    this.plot = h("div", { class: "forecast-plot" });
    this.plot.append(this.svg, this.cursor);
    host.append(this.plot, this.told);
    /** @type {Drawn | null} */
    this.drawn = null;
    this.cursor.addEventListener("input", () => this.#point());
    this.plot.addEventListener("pointermove", (event) => {
      if (event.buttons || !this.drawn) return; // the slider follows a press itself
      const share = (event.clientX - this.plot.getBoundingClientRect().left - LEFT) / Math.max(this.#width() - LEFT - RIGHT, 1);
      const value = String(Math.min(Math.max(Math.round(share * Number(this.cursor.max)), 0), Number(this.cursor.max)));
      if (value === this.cursor.value) return;
      this.cursor.value = value;
      this.#point();
    });
    new ResizeObserver(() => this.#draw()).observe(this.plot);
  }

  /** @param {Drawn} drawn @param {string} title what it shows, in a sentence */
  show(drawn, title) {
    this.drawn = drawn;
    this.svg.setAttribute("aria-label", title);
    this.cursor.max = String(drawn.past.length + drawn.forecast.length - 1);
    this.cursor.value = this.cursor.max;
    this.#draw();
  }

  #width() {
    return Math.max(this.plot.clientWidth, 200);
  }

  #draw() {
    if (!this.drawn || !this.plot.clientWidth) return;
    const { past, forecast, low, high, label } = this.drawn;
    const [width, height] = [this.#width(), this.plot.clientHeight];
    const count = past.length + forecast.length;
    const all = [...past, ...forecast, ...low, ...high];
    const ticks = ticksOf(all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b)), Math.max(Math.floor(height / 60), 2));
    const [least, most] = [ticks[0], ticks[ticks.length - 1]];
    this.x = (/** @type {number} */ index) => LEFT + (index / Math.max(count - 1, 1)) * (width - LEFT - RIGHT);
    this.y = (/** @type {number} */ value) => TOP + (1 - (value - least) / (most - least)) * (height - TOP - BOTTOM);
    const { x, y } = this;
    const line = (/** @type {number[]} */ values, /** @type {number} */ first) => values.map((value, i) => `${x(first + i).toFixed(1)},${y(value).toFixed(1)}`);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const grid = ticks.flatMap((tick) => [
      draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, shortNumber(tick, ticks[1] - ticks[0])),
    ]);
    const needed = 1.5 * LETTER * Math.max(label(0).length, label(count - 1).length, 4) + 12; // those at the ends reach inwards
    const labels = Math.max(Math.min(Math.floor((width - LEFT - RIGHT) / needed), count - 1), 1);
    const below = Array.from({ length: labels + 1 }, (_, i) => Math.round((i * (count - 1)) / labels)).map((index, i) =>
      draw("text", { class: "tick", x: x(index), y: height - 6, "text-anchor": i === 0 ? "start" : i === labels ? "end" : "middle" }, label(index)));
    const joined = [past[past.length - 1], ...forecast]; // the forecast begins where the past ends
    const begin = past.length - 1;
    const parts = [...grid, ...below, draw("polyline", { class: "past", points: line(past, 0).join(" ") })];
    if (forecast.length) {
      const now = (x(begin) + x(begin + 1)) / 2;
      parts.push(draw("line", { class: "now", x1: now, x2: now, y1: TOP, y2: height - BOTTOM }));
      if (low.length) parts.unshift(draw("polygon", { class: "band", points: [...line([joined[0], ...high], begin), ...line([joined[0], ...low], begin).reverse()].join(" ") }));
      parts.push(draw("polyline", { class: "next", points: line(joined, begin).join(" ") }));
    }
    this.mark = draw("g", { class: "mark" }, draw("line", { y1: TOP, y2: height - BOTTOM }), draw("circle", { r: 4 }));
    this.svg.replaceChildren(...parts, this.mark);
    this.#point();
  }

  /** Shows the value at the slider. */
  #point() {
    if (!this.drawn || !this.x || !this.y || !this.mark) return;
    const { past, forecast, tell } = this.drawn;
    const index = Math.min(Number(this.cursor.value), past.length + forecast.length - 1);
    const value = index < past.length ? past[index] : forecast[index - past.length];
    const [line, circle] = this.mark.children;
    for (const side of ["x1", "x2"]) line.setAttribute(side, String(this.x(index)));
    circle.setAttribute("cx", String(this.x(index)));
    circle.setAttribute("cy", String(this.y(value)));
    this.told.textContent = tell(index);
    this.cursor.setAttribute("aria-valuetext", tell(index));
  }
}

/** Round numbers from below `least` to above `most`, about so many. @param {number} least @param {number} most @param {number} wanted */
function ticksOf(least, most, wanted) {
  const span = most - least || Math.abs(most) || 1;
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const first = Math.floor(least / step);
  const last = Math.max(Math.ceil(most / step), first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/** A number at a tick, as short as its step permits. @param {number} value @param {number} step */
function shortNumber(value, step) {
  if (Math.abs(value) >= 1e5 || (value && Math.abs(step) < 1e-4)) return value.toLocaleString("en", { notation: Math.abs(value) >= 1e5 && Math.abs(value) < 1e15 ? "compact" : "scientific", maximumFractionDigits: 2 });
  const digits = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
  return value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: Math.min(digits + 1, 6) });
}
