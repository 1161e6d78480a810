/**
 * A drawing of curves: uPlot on a canvas, in the page's colours. Curves differ in their dashes too.
 *
 * @typedef {{name: string, y: (number | null)[]}} Curve
 */
import uPlot from "uplot";
import { h } from "../../page/dom.js";

const HEIGHT = 240; // CSS pixels
const NARROWEST = 200;
const DASHES = [[], [7, 4], [2, 3], [10, 4, 2, 4]];
const COLOURS = ["--curve-1", "--curve-2", "--curve-3", "--curve-4", "--curve-5", "--curve-6"];

export class CurvesDrawing {
  /** @param {import("./notebook-files.js").Output} output */
  constructor(output) {
    this.canvas = h("div", { class: "curves-canvas" });
    this.element = h("figure", { class: "curves" }, this.canvas);
    this.output = output;
    /** @type {uPlot | null} */
    this.plot = null;
    this.resized = new ResizeObserver(() => this.#fit());
    this.resized.observe(this.canvas);
    this.themed = new MutationObserver(() => this.#draw());
    this.themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  /** @param {import("./notebook-files.js").Output} output newer curves */
  update(output) {
    const names = (/** @type {import("./notebook-files.js").Output} */ one) => JSON.stringify([one.curves?.map((/** @type {Curve} */ { name }) => name), one.title]);
    const same = names(output) === names(this.output);
    this.output = output;
    this.#describe();
    if (same && this.plot) this.plot.setData(this.#data());
    else this.#draw();
  }

  #data() {
    const { x = [], curves = [] } = this.output;
    return /** @type {any} */ ([x, ...curves.map((/** @type {Curve} */ { y }) => y)]);
  }

  #describe() {
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", this.output.text ?? "Curves");
  }

  #width() {
    return Math.max(NARROWEST, Math.floor(this.canvas.clientWidth));
  }

  #fit() {
    if (!this.plot) return this.#draw();
    const width = this.#width();
    if (Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }

  #draw() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.canvas.clientWidth) return; // not shown: drawn when it has a size
    this.#describe();
    const style = getComputedStyle(this.element);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim() || "CanvasText";
    const { title, x_label: xLabel, y_label: yLabel, curves = [], points } = this.output;
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui" };
    this.plot = new uPlot({
      width: this.#width(), height: HEIGHT, title: title || undefined,
      scales: { x: { time: false } },
      axes: [{ ...axis, label: xLabel || undefined, labelFont: "12px system-ui", labelSize: 22 }, { ...axis, size: 58, label: yLabel || undefined, labelFont: "12px system-ui", labelSize: 22 }],
      series: [{ label: xLabel || "x" }, ...curves.map((/** @type {Curve} */ { name }, /** @type {number} */ index) => ({
        label: name || "y", stroke: colour(COLOURS[index % COLOURS.length]), width: 2, dash: DASHES[index % DASHES.length],
        ...(points ? { paths: /** @returns {null} */ () => null, points: { show: true, size: 6 } } : { points: { show: (/** @type {uPlot} */ plot) => plot.data[0].length < 40, size: 5 } }),
        spanGaps: true,
      }))],
      cursor: { drag: { x: false, y: false } },
    }, this.#data(), this.canvas);
  }

  destroy() {
    this.resized.disconnect();
    this.themed.disconnect();
    this.plot?.destroy();
  }
}
