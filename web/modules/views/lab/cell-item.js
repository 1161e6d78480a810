/**
 * A cell on the page: its editor, or its text, and its outputs.
 *
 * @typedef {{run: (cell: CellItem) => void, runAndGoOn: (cell: CellItem) => void, changed: () => void, move: (cell: CellItem, by: number) => void,
 *   remove: (cell: CellItem) => void, addBelow: (cell: CellItem, kind: "code" | "text") => void, go: (cell: CellItem, by: number) => void,
 *   drawn: (field: string, pixels: number[], answers: OutputList, cell: CellItem) => void, open: (output: import("./output-list.js").Output) => void,
 *   complete: import("./editor.js").EditorActions["complete"], signature: import("./editor.js").EditorActions["signature"]}} CellActions
 */
import { find, h, single } from "../../page/dom.js";
import { nextFrame } from "../../page/next-frame.js";
import { present } from "../../shared/present.js";
import { MarkdownText } from "../chat/markdown.js";
import { Editor } from "./editor.js";
import { OutputList } from "./output-list.js";

/** In place of the number of a cell that has not ended, by its state. @type {Record<string, string>} */
const SIGNS = { waiting: "[…]", running: "[✱]" };
const NEAR = "100% 0px"; // of the window's height above and below it: there, cells of code get their editors

/** Cells of code that wait for their editors, by the elements that are observed. @type {Map<Element, CellItem>} */
const waiting = new Map();
/** Those that are near the window. @type {Set<CellItem>} */
const coming = new Set();

const observer = new IntersectionObserver((entries) => {
  const some = coming.size > 0;
  for (const { target, isIntersecting } of entries) {
    const cell = waiting.get(target);
    if (cell && isIntersecting) coming.add(cell);
  }
  if (!some) openComing();
}, { rootMargin: NEAR });

/** Makes one editor in each frame: it takes some milliseconds, and as many again when it is measured and drawn. */
async function openComing() {
  for (const cell of coming) {
    await nextFrame();
    if (coming.has(cell)) cell.open(); // else it was opened by hand, or deleted, meanwhile
    coming.delete(cell);
  }
}

export class CellItem {
  /** @param {import("./notebook-files.js").CellData} data @param {CellActions} actions */
  constructor(data, actions) {
    this.kind = data.kind;
    /** From 1; 0: it has no place yet. */
    this.position = 0;
    this.source = data.source;
    /** The number of its last run in this Python; null: not run. */
    this.count = data.count ?? null;
    this.actions = actions;
    this.number = h("span", { class: "cell-number" });
    this.time = h("span", { class: "cell-time" });
    this.host = h("div", { class: "cell-editor", dir: "ltr", translate: "no" });
    this.shown = h("div", { class: "cell-shown", dir: "auto" });
    this.output = h("div", { class: "cell-outputs", translate: "no" });
    this.outputs = new OutputList(this.output, { drawn: (field, pixels, answers) => actions.drawn(field, pixels, answers, this), open: actions.open });
    this.runButton = this.#button(data.kind === "code" ? "Run" : "Edit", "▶", () => (this.kind === "code" ? actions.run(this) : this.edit()));
    if (data.kind === "text") present(this.runButton.firstChild, "the button's sign").textContent = "✎";
    this.buttons = [
      this.#button("Move up", "↑", () => actions.move(this, -1)), this.#button("Move down", "↓", () => actions.move(this, 1)),
      this.#button("Delete", "×", single(() => actions.remove(this))),
    ];
    const head = h("div", { class: "cell-head" }, this.runButton, this.number, this.time, h("span", { class: "cell-buttons" }, ...this.buttons));
    const add = h("div", { class: "cell-add" },
      h("button", { type: "button", class: "quiet", onclick: single(() => actions.addBelow(this, "code")) }, "+ Code"),
      h("button", { type: "button", class: "quiet", onclick: single(() => actions.addBelow(this, "text")) }, "+ Text"));
    this.element = h("li", { class: `cell cell-${data.kind}`, tabindex: "-1" }, head, this.host, this.shown, this.output, add);
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (this.editor?.passed && !this.element.contains(/** @type {Node | null} */ (relatedTarget))) this.editor.pass(false);
    });
    this.shown.addEventListener("dblclick", () => this.edit());
    if (data.outputs?.length) this.outputs.restore(data.outputs);
    /** Null: a text that is shown, or code that is not near the window yet. @type {Editor | null} */
    this.editor = null;
    /** The line of an error, from 1. @type {number | null} */
    this.wrongLine = null;
    /** The code, until there is an editor. @type {HTMLElement | null} */
    this.plain = null;
    if (this.kind === "code" && this.source.trim()) this.#wait();
    else if (this.source.trim()) this.#render();
    else this.open();
    this.state = "";
    this.place(1);
  }

  /** @param {string} label @param {string} sign @param {(event: MouseEvent) => void} onclick */
  #button(label, sign, onclick) {
    return h("button", { type: "button", class: "cell-button", title: label, onclick }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "visually-hidden cell-label" }, label));
  }

  /** Shows the code without an editor, which comes when the cell comes near the window, or is to be edited. */
  #wait() {
    const plain = h("pre", { class: "cell-source", tabindex: "0", role: "textbox", "aria-multiline": "true", "aria-label": this.#label(), onfocus: () => this.edit() }, this.source);
    this.plain = plain;
    this.host.append(plain);
    waiting.set(plain, this);
    observer.observe(plain);
  }

  #endWaiting() {
    if (!this.plain) return;
    observer.unobserve(this.plain);
    waiting.delete(this.plain);
    coming.delete(this);
    this.plain.remove();
    this.plain = null;
  }

  /** The editor, which is made if there is none. @returns {Editor} */
  open() {
    if (this.editor) return this.editor;
    this.#endWaiting();
    this.host.hidden = false;
    this.shown.hidden = true;
    this.editor = new Editor(this.host, this.source, this.kind === "code", this.#label(), {
      changed: (text) => {
        this.source = text;
        this.actions.changed();
      },
      run: () => this.runOrShow(),
      runAndGoOn: () => {
        if (this.kind === "text") this.#render();
        this.actions.runAndGoOn(this);
      },
      leave: () => {
        this.element.focus();
        if (this.kind === "text") this.#render();
        else this.editor?.pass(true);
      },
      complete: this.actions.complete,
      signature: this.actions.signature,
    });
    if (this.wrongLine !== null) this.editor.markLine(this.wrongLine);
    return this.editor;
  }

  /** Marks the line of an error. @param {number | null} line from 1; null: none */
  markLine(line) {
    this.wrongLine = line;
    this.editor?.markLine(line);
  }

  /** Ctrl+Enter: runs code, shows a text. */
  runOrShow() {
    if (this.kind === "code") return this.actions.run(this);
    this.#render();
    this.element.focus();
  }

  /** Shows a text cell as Markdown. */
  #render() {
    if (!this.source.trim()) return;
    this.editor?.destroy();
    this.editor = null;
    this.host.shadowRoot?.replaceChildren();
    this.host.hidden = true;
    this.shown.hidden = false;
    this.shown.replaceChildren();
    new MarkdownText(this.shown, "notebook").show(this.source);
  }

  /** Puts the cursor into the cell. */
  edit() {
    this.open().focus();
  }

  #label() {
    return `${this.kind === "code" ? "Code" : "Text"} of cell ${this.position || 1}`;
  }

  /** @param {number} position from 1 */
  place(position) {
    if (this.position === position) return;
    this.position = position;
    this.element.setAttribute("aria-label", `Cell ${position}`);
    for (const button of [this.runButton, ...this.buttons]) find(button, ".cell-label").textContent = `${button.title} cell ${position}`;
    this.editor?.rename(this.#label());
    this.plain?.setAttribute("aria-label", this.#label());
    this.show();
  }

  /** @param {"" | "waiting" | "running" | "failed" | "done" | "stopped"} [state] @param {string} [time] */
  show(state = /** @type {any} */ (this.state), time = this.state in SIGNS ? "" : this.time.textContent) {
    this.state = state;
    this.element.dataset.state = state;
    if (this.kind === "text") return;
    const sign = SIGNS[state] ?? (this.count === null ? "[ ]" : `[${this.count}]`);
    this.number.textContent = sign;
    this.time.textContent = state in SIGNS ? state : time;
  }

  /** Keys of the cell while its editor is not used. @param {KeyboardEvent} event */
  #key(event) {
    if (event.target !== this.element) return;
    if (event.key === "Enter" && event.shiftKey) this.actions.runAndGoOn(this);
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.runOrShow();
    else if (event.key === "Enter") this.edit();
    else if (event.key === "ArrowUp") this.actions.go(this, -1);
    else if (event.key === "ArrowDown") this.actions.go(this, 1);
    else return;
    event.preventDefault();
  }

  /** @returns {import("./notebook-files.js").CellData} */
  data() {
    return { kind: this.kind, source: this.source, outputs: this.outputs.stored(), count: this.count };
  }

  destroy() {
    this.#endWaiting();
    this.editor?.destroy();
    this.outputs.clear();
  }
}
