/**
 * Announces texts to screen readers, in whole sentences and at a limited rate.
 */
const INTERVAL = 4000;

export class Announcer {
  /** @param {HTMLElement} region a polite live region */
  constructor(region) {
    this.region = region;
    this.waiting = "";
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** Announces a text now, and discards waiting ones. @param {string} text */
  say(text) {
    this.stop();
    this.region.textContent = text;
  }

  /** Announces new text of a growing story, by sentences. @param {string} text */
  add(text) {
    this.waiting += text;
    this.timer ??= setTimeout(() => this.#speak(), INTERVAL);
  }

  #speak() {
    this.timer = undefined;
    const end = Math.max(...[".", "!", "?", "\n"].map((mark) => this.waiting.lastIndexOf(mark))) + 1;
    if (end === 0) return;
    this.region.textContent = this.waiting.slice(0, end).trim();
    this.waiting = this.waiting.slice(end);
  }

  /** Announces nothing more, as when an error does. */
  stop() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.waiting = "";
    this.region.textContent = "";
  }
}
