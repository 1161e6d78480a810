/**
 * The text of a page: lines in the order of reading, tables as tables; fields instead of them while it is edited.
 *
 * The text is one tab stop: arrow keys go from line to line and from cell to cell. Fires "mark" (detail: the key of a line or
 * cell) and "edited" (detail: an Edit with the new text).
 * @typedef {import("./page.js").Region} Region
 * @typedef {import("./page.js").Line} Line
 */
import { byId, h } from "../../page/dom.js";

const UNSURE = 0.75; // a word's confidence: less is marked
const MOVES = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity });
const MOVES_BETWEEN_FIELDS = /** @type {Record<string, number>} */ ({ Enter: 1 }); // the others move within them

export class PageText extends EventTarget {
  constructor() {
    super();
    this.host = byId("read-text");
    this.editing = false;
    this.host.addEventListener("focusin", ({ target }) => this.#enter(target));
    this.host.addEventListener("click", ({ target }) => this.#enter(target));
    this.host.addEventListener("pointerover", ({ target }) => !this.host.contains(document.activeElement) && this.#tell(target));
    this.host.addEventListener("input", ({ target }) => this.#typed(/** @type {HTMLTextAreaElement} */ (target)));
    this.host.addEventListener("keydown", (event) => this.#pressed(event));
  }

  /** @param {Region[]} regions @param {boolean} editing */
  show(regions, editing) {
    this.editing = editing;
    let tables = 0;
    this.host.replaceChildren(...regions.map((region, number) => (region.cells ? this.#table(region, number, (tables += 1)) : this.#block(region, number))));
    if (editing) this.fit();
    const first = this.#stops()[0];
    if (first && !editing) first.tabIndex = 0;
  }

  /** @param {Region} region @param {number} number */
  #block({ lines }, number) {
    /** @type {HTMLElement[]} */
    const rows = [];
    for (const [i, line] of lines.entries()) {
      if (!line.text && !this.editing) continue;
      const key = `${number}/line/${i}`;
      const shown = this.editing ? this.#field(key, line.text, `Line ${i + 1} of block ${number + 1}`) : stop("span", "read-line", key, wordsOf(line));
      if (rows.length && isBeside(lines[i - 1], line)) rows[rows.length - 1].append(shown);
      else rows.push(h("p", { class: "read-row", dir: "auto" }, shown));
    }
    return h("div", { class: "read-block" }, ...rows);
  }

  /** @param {Region} region @param {number} number @param {number} place among the tables */
  #table({ rows = 0, cells = [] }, number, place) {
    const lines = Array.from({ length: rows }, () => h("tr"));
    for (const [i, cell] of cells.entries()) {
      const key = `${number}/cell/${i}`;
      const spans = { rowspan: cell.row_span > 1 ? cell.row_span : null, colspan: cell.column_span > 1 ? cell.column_span : null };
      const shown = this.editing ? this.#field(key, cell.text, `Row ${cell.row + 1}, column ${cell.column + 1} of table ${place}`) : stop("span", "read-cell", key, [cell.text]);
      lines[cell.row].append(h("td", { ...spans, dir: "auto" }, shown));
    }
    return h("div", { class: "read-table", tabindex: 0, role: "group", "aria-label": `Table ${place}` }, h("table", {}, h("tbody", {}, ...lines)));
  }

  /** @param {string} key @param {string} text @param {string} label */
  #field(key, text, label) {
    const field = h("textarea", { class: "read-field", rows: 1, cols: Math.max(3, Math.min(text.length, 40)), "data-key": key, "aria-label": label, spellcheck: "true", autocomplete: "off", dir: "auto" });
    field.value = text;
    return field;
  }

  /** Makes fields as high as their text. @param {HTMLTextAreaElement[]} [fields] by default all */
  fit(fields = [...this.host.querySelectorAll("textarea")]) {
    for (const field of fields) field.style.height = "auto";
    const heights = fields.map((field) => field.scrollHeight + field.offsetHeight - field.clientHeight);
    fields.forEach((field, i) => (field.style.height = `${heights[i]}px`));
  }

  /** The lines and cells, or their fields. @returns {HTMLElement[]} */
  #stops() {
    return [...this.host.querySelectorAll("[data-key]")].map((one) => /** @type {HTMLElement} */ (one));
  }

  /** @param {EventTarget | null} target */
  #tell(target) {
    const key = keyOf(target);
    if (key) this.dispatchEvent(new CustomEvent("mark", { detail: key }));
  }

  /** @param {EventTarget | null} target */
  #enter(target) {
    const key = keyOf(target);
    if (!key) return;
    this.#roam(key);
    this.#tell(target);
  }

  /** The line that the tab key reaches. @param {string} key */
  #roam(key) {
    if (this.editing) return;
    for (const one of this.#stops()) one.tabIndex = one.dataset.key === key ? 0 : -1;
  }

  /** @param {HTMLTextAreaElement} field */
  #typed(field) {
    this.fit([field]);
    const [region, kind, place] = String(field.dataset.key).split("/");
    this.dispatchEvent(new CustomEvent("edited", { detail: { region: Number(region), [kind]: Number(place), text: field.value } }));
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const move = (this.editing ? MOVES_BETWEEN_FIELDS : MOVES)[event.key];
    if (move === undefined || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const stops = this.#stops();
    const at = stops.findIndex((one) => one === document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    stops[Math.min(stops.length - 1, Math.max(0, at + move))].focus();
  }

  /** Marks a line or cell. @param {string} key @param {boolean} focus whether it gets the focus too */
  mark(key, focus) {
    this.host.querySelector(".marked")?.classList.remove("marked");
    const found = /** @type {HTMLElement | null} */ (this.host.querySelector(`[data-key="${key}"]`));
    if (!found) return;
    found.classList.add("marked");
    if (!focus) return;
    this.#roam(key);
    found.focus({ preventScroll: true });
    found.scrollIntoView({ block: "nearest" });
  }
}

/** @param {EventTarget | null} target */
const keyOf = (target) => /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest("[data-key]"))?.dataset.key;

/** @param {"span"} tag @param {string} kind @param {string} key @param {(Node | string)[]} children */
const stop = (tag, kind, key, children) => h(tag, { class: kind, "data-key": key, tabindex: -1 }, ...children);

/** The words of a line; those that the model is less sure of are marked. @param {Line} line @returns {(Node | string)[]} */
function wordsOf({ text, words }) {
  if (words.map((word) => word.text).join(" ") !== text) return [text]; // a hand has changed it
  return words.flatMap((word, i) => {
    const shown = word.confidence < UNSURE ? h("span", { class: "unsure", title: `${Math.round(word.confidence * 100)} % sure` }, word.text) : word.text;
    return i ? [" ", shown] : [shown];
  });
}

/** Whether a line stands in one row behind another, as pyapp/vision/page/writers.py decides it. @param {Line} one @param {Line} other */
function isBeside(one, other) {
  const [left, right, low] = [one.corners[0], one.corners[1], one.corners[3]];
  const [start, , , end] = other.corners;
  return start[0] >= right[0] && Math.abs(start[1] + end[1] - right[1] - one.corners[2][1]) < low[1] - left[1];
}
