/**
 * A line that shows progress. It appears after a delay, because most work takes less.
 */
import { h } from "./dom.js";

const PATIENCE = 150; // ms

export class ProgressLine {
  /** @param {HTMLElement} host an empty element, hidden */
  constructor(host) {
    this.host = host;
    this.text = h("span", { class: "progress-text", id: `${host.id}-text` });
    this.bar = h("progress", { id: `${host.id}-bar`, "aria-labelledby": `${host.id}-text` });
    host.append(this.text, this.bar);
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** @param {string} what @param {number} [done] @param {number | null} [total] */
  show(what, done = 0, total = null) {
    this.timer ??= setTimeout(() => (this.host.hidden = false), PATIENCE);
    this.text.textContent = what;
    if (total) [this.bar.max, this.bar.value] = [total, Math.min(done, total)];
    else this.bar.removeAttribute("value");
  }

  hide() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.host.hidden = true;
  }
}
