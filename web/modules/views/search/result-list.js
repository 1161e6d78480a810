/**
 * The passages that were found, in their texts: the nearest first, with the best sentence marked.
 *
 * @typedef {import("./collection.js").Passage & {score: number, best?: {start: number, end: number}}} Result `best`: its best
 *   sentence, in characters of the passage
 */
import { byId, h } from "../../page/dom.js";

const CONTEXT = 160; // characters before and after a passage
const WIDE = 1200; // of a passage that was opened

export class ResultList {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    host.addEventListener("keydown", (event) => this.#key(event));
  }

  clear() {
    this.host.replaceChildren();
  }

  /** @param {import("./collection.js").Collection} collection @param {Result[]} results */
  show(collection, results) {
    const opened = new Set([...this.host.querySelectorAll('[aria-expanded="true"]')].map((one) => one.getAttribute("data-key") ?? ""));
    const focused = this.host.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : null;
    this.host.replaceChildren(...results.map((result) => this.#item(collection, result, opened)));
    if (focused) this.#focus(`[data-key="${CSS.escape(focused)}"]`);
  }

  /** @param {import("./collection.js").Collection} collection @param {Result} result @param {Set<string>} opened */
  #item(collection, result, opened) {
    const { text, start, end, score, best } = result;
    const key = `${text} ${start}`;
    const part = (/** @type {number} */ from, /** @type {number} */ to) => collection.slice(text, from, to);
    const body = h("blockquote", { class: "result-text", dir: "auto" });
    const show = (/** @type {boolean} */ wide) => {
      const around = wide ? WIDE : CONTEXT;
      const passage = best
        ? [part(start, start + best.start), h("mark", {}, part(start + best.start, start + best.end)), part(start + best.end, end)]
        : [part(start, end)];
      body.replaceChildren(
        h("span", { class: "result-context" }, start > around ? `… ${wordsAfter(part(start - around, start))}` : part(0, start)), ...passage,
        h("span", { class: "result-context" }, part(end + around, end + around + 1) ? `${wordsBefore(part(end, end + around))} …` : part(end, end + around)));
    };
    const open = h("button", { type: "button", class: "quiet", "data-key": key, "aria-expanded": String(opened.has(key)), onclick: () => {
      const wide = open.getAttribute("aria-expanded") !== "true";
      open.setAttribute("aria-expanded", String(wide));
      open.textContent = wide ? "Less of the text" : "More of the text";
      show(wide);
    } }, opened.has(key) ? "Less of the text" : "More of the text");
    show(opened.has(key));
    const percent = Math.round(Math.max(0, score) * 100);
    return h("li", { class: "result card" },
      h("p", { class: "result-head" }, h("strong", { dir: "auto" }, collection.texts[text].name),
        h("span", { class: "result-score", title: `cosine ${score.toFixed(3)}` },
          h("meter", { min: 0, max: 1, value: Math.max(0, score), "aria-hidden": "true" }), `${percent} % alike`)),
      body, h("p", { class: "result-foot" }, open));
  }

  /** Arrow keys go from result to result. @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...this.host.querySelectorAll("button")];
    const at = buttons.findIndex((button) => button === document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    if (at + step < 0) byId("search-question").focus();
    else buttons[Math.min(at + step, buttons.length - 1)].focus();
  }

  focusFirst() {
    this.#focus("[aria-expanded]");
  }

  /** @param {string} selector */
  #focus(selector) {
    /** @type {HTMLElement | null} */ (this.host.querySelector(selector))?.focus();
  }
}

/** A cut text from its first whole word on, if it has words. @param {string} text */
const wordsAfter = (text) => text.replace(/^\S{0,30}\s+/, "");

/** A cut text up to its last whole word. @param {string} text */
const wordsBefore = (text) => text.replace(/\s+\S{0,30}$/, "");
