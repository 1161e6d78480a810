/**
 * The list of the pages that are read, one after the other. Each page keeps its row: a queue of hundreds changes with every step
 * of each page.
 */
import { h, replaceRows, single } from "../../page/dom.js";
import { counted } from "../../shared/words.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {{element: HTMLElement, open: HTMLElement, state: HTMLElement, remove: HTMLButtonElement}} Row */

export class PageQueue {
  /**
   * @param {HTMLElement} list @param {HTMLElement} otherwise gets the focus where no row can have it
   * @param {{choose: (page: Page) => void, remove: (page: Page) => Promise<void>}} actions
   */
  constructor(list, otherwise, actions) {
    this.list = list;
    this.otherwise = otherwise;
    this.actions = actions;
    /** @type {WeakMap<Page, Row>} */
    this.rows = new WeakMap();
    /** The page to which the list is scrolled. @type {Page | null} */
    this.current = null;
  }

  /** @param {Page[]} pages @param {Page | null} current the one that is shown */
  show(pages, current) {
    const { list } = this;
    const focused = document.activeElement;
    list.hidden = pages.length < 2;
    const rows = pages.map((page) => this.#row(page, page === current));
    const same = rows.length === list.children.length && rows.every((row, i) => row === list.children[i]);
    if (!same) replaceRows(list, rows, this.otherwise);
    else if (list.contains(focused) && (list.hidden || focused?.matches(":disabled"))) this.otherwise.focus();
    if (same && current === this.current) return; // who looks at other rows goes on
    this.current = current;
    if (current) this.rows.get(current)?.element.scrollIntoView({ block: "nearest" });
  }

  /** The row of a page as the page is now. @param {Page} page @param {boolean} current */
  #row(page, current) {
    const row = this.rows.get(page) ?? this.#make(page);
    const { element, open, state, remove } = row;
    const text = stateOf(page);
    if (state.textContent !== text) state.textContent = text;
    element.dataset.state = page.state;
    if (current) open.setAttribute("aria-current", "true");
    else open.removeAttribute("aria-current");
    remove.disabled = page.state === "reading";
    return element;
  }

  /** @param {Page} page @returns {Row} */
  #make(page) {
    const state = h("span", { class: "read-open-state" });
    const open = h("button", { type: "button", class: "read-open", onclick: () => this.actions.choose(page) }, h("span", { class: "read-open-name", dir: "auto" }, page.name), state);
    const remove = h("button", { type: "button", class: "quiet read-remove", "aria-label": `Remove ${page.name}`, title: "Remove", onclick: single(() => this.actions.remove(page)) }, "×");
    const row = { element: h("li", {}, open, remove), open, state, remove };
    this.rows.set(page, row);
    return row;
  }
}

/** What became of a page, in words. @param {Page} page */
function stateOf(page) {
  if (page.state === "waiting") return "waits";
  if (page.state === "reading") return "is being read";
  if (page.state === "failed") return "could not be read";
  const { words } = page.figures();
  return `${words ? counted(words, "word") : "no text"}${page.state === "stopped" ? ", stopped" : ""}`;
}
