/**
 * Draws sound as bars on a canvas: a whole recording, or the last seconds of a growing one.
 */
const BAR = 3; // width of a bar, CSS pixels
const GAP = 2;

export class Waveform {
  /** @param {HTMLCanvasElement} canvas sized by the style */
  constructor(canvas) {
    this.canvas = canvas;
    /** @type {number[]} 0 to 1 */
    this.peaks = [];
    this.played = 0; // 0 to 1
    this.follow = false;
    this.frame = 0;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    const root = document.documentElement;
    new MutationObserver(() => this.redraw()).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  }

  /** Draws a whole recording. @param {number[]} peaks 0 to 1, evenly spaced */
  show(peaks) {
    const loudest = Math.max(0.02, ...peaks); // soft recordings are enlarged, silence is not
    this.peaks = peaks.map((peak) => peak / loudest);
    this.follow = false;
    this.played = 0;
    this.redraw();
  }

  /** Begins a growing recording. */
  begin() {
    this.peaks = [];
    this.follow = true;
    this.played = 1;
    this.redraw();
  }

  /** @param {number} peak 0 to 1; the newest is at the right end */
  add(peak) {
    this.peaks.push(Math.min(1, peak * 1.2));
    if (this.peaks.length > 2000) this.peaks.splice(0, 1000); // peaks that left the screen
    this.redraw();
  }

  /** @param {number} share 0 to 1 */
  mark(share) {
    this.played = share;
    this.redraw();
  }

  redraw() {
    this.frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.frame = 0;
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const pen = canvas.getContext("2d");
    if (!pen) return; // the browser has no memory left for another canvas
    const style = getComputedStyle(canvas);
    pen.scale(scale, scale);
    const count = Math.floor((width + GAP) / (BAR + GAP));
    const heights = this.follow ? this.#newest(count) : this.#whole(count);
    heights.forEach((peak, i) => {
      const tall = Math.max(BAR, peak * height);
      pen.fillStyle = (i + 0.5) / count <= this.played ? style.getPropertyValue("--accent") : style.getPropertyValue("--wave");
      pen.beginPath();
      pen.roundRect(i * (BAR + GAP), (height - tall) / 2, BAR, tall, BAR / 2);
      pen.fill();
    });
  }

  /** @param {number} count */
  #newest(count) {
    const last = this.peaks.slice(-count);
    return [...new Array(count - last.length).fill(0), ...last];
  }

  /** @param {number} count */
  #whole(count) {
    const each = this.peaks.length / count;
    return Array.from({ length: count }, (_, i) => {
      const first = Math.floor(i * each);
      return Math.max(0, ...this.peaks.slice(first, Math.max(first + 1, Math.floor((i + 1) * each))));
    });
  }
}
