/**
 * The picture of a page, with its regions, lines and cells drawn over it. Fires "mark" (detail: the key of a line or cell).
 */
import { byId } from "../../page/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const STEP = 1.5; // of the zoom
const LARGEST = 8;

export class PagePicture extends EventTarget {
  constructor() {
    super();
    this.box = byId("read-box");
    this.stage = byId("read-stage");
    this.overlay = document.createElementNS(SVG, "svg");
    this.overlay.setAttribute("class", "read-overlay");
    this.overlay.setAttribute("aria-hidden", "true"); // the text beside it says the same
    this.overlay.addEventListener("click", ({ target }) => {
      const { key } = /** @type {SVGElement} */ (target).dataset;
      if (key) this.dispatchEvent(new CustomEvent("mark", { detail: key }));
    });
    this.zoom = 1;
    byId("read-larger").addEventListener("click", () => this.#scale(this.zoom * STEP));
    byId("read-smaller").addEventListener("click", () => this.#scale(this.zoom / STEP));
    byId("read-fit").addEventListener("click", () => this.#scale(1));
  }

  /** @param {HTMLCanvasElement | null} canvas null: there is no picture @param {string} [name] */
  show(canvas, name = "") {
    this.stage.replaceChildren();
    this.overlay.replaceChildren();
    if (!canvas) return;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Picture of ${name}`);
    this.overlay.setAttribute("viewBox", `0 0 ${canvas.width} ${canvas.height}`);
    this.stage.append(canvas, this.overlay);
    this.#scale(1);
    this.box.scrollTo(0, 0);
  }

  /** @param {number} zoom 1: as wide as its place */
  #scale(zoom) {
    this.zoom = Math.min(LARGEST, Math.max(1 / STEP, zoom));
    this.stage.style.width = `${this.zoom * 100}%`;
  }

  /** Draws what was found. @param {import("./page.js").Region[]} regions */
  draw(regions) {
    this.overlay.replaceChildren(...regions.flatMap((region, number) => [
      polygon(region.corners, `region ${region.kind}`),
      ...(region.cells
        ? region.cells.map((cell, i) => polygon(cell.corners, "cell", `${number}/cell/${i}`))
        : region.lines.map((line, i) => polygon(line.corners, "line", `${number}/line/${i}`))),
    ]));
  }

  /** Marks words, and scrolls the picture there. @param {number[][][]} words the corners of each */
  markWords(words) {
    for (const old of this.overlay.querySelectorAll(".answer")) old.remove();
    this.overlay.append(...words.map((corners) => polygon(corners, "answer marked")));
    const first = this.overlay.querySelector(".answer");
    if (first) this.#bring(first);
  }

  /** Marks a line or a cell. @param {string | null} key @param {boolean} scroll whether the picture is scrolled there */
  mark(key, scroll) {
    this.markWords([]);
    this.overlay.querySelector(".marked")?.classList.remove("marked");
    const found = key === null ? null : this.overlay.querySelector(`[data-key="${key}"]`);
    if (!found) return;
    found.classList.add("marked");
    if (scroll) this.#bring(found);
  }

  /** Scrolls the picture to what is drawn over it. @param {Element} found */
  #bring(found) {
    const [place, box] = [found.getBoundingClientRect(), this.box.getBoundingClientRect()];
    if (place.top < box.top || place.bottom > box.bottom) this.box.scrollTop += (place.top + place.bottom - box.top - box.bottom) / 2;
    if (place.left < box.left || place.right > box.right) this.box.scrollLeft += Math.min(place.left - box.left - 16, (place.left + place.right - box.left - box.right) / 2);
  }
}

/** @param {number[][]} corners @param {string} kind @param {string} [key] */
function polygon(corners, kind, key) {
  const found = document.createElementNS(SVG, "polygon");
  found.setAttribute("points", corners.map((corner) => corner.join(",")).join(" "));
  found.setAttribute("class", kind);
  if (key !== undefined) found.dataset.key = key;
  return found;
}
