/**
 * The field for the text of a view: what is typed stays over a reload, Control and Enter submit it, a text file takes its place.
 */
import { UserError, megabytes } from "../shared/protocol.js";
import { byId, h, tabMemory } from "./dom.js";
import { encodingNote, readText } from "./encoding-note.js";
import { insertText } from "./insert-text.js";
import { fitting, limitText } from "./text-limit.js";

const LARGEST_FILE = 32e6; // bytes

export class TextField {
  /** @param {"translate" | "speak" | "forecast"} name of the view: the ids of the field, its form and its note begin with it */
  constructor(name) {
    this.name = name;
    this.field = byId(`${name}-text`);
    this.note = byId(`${name}-note`);
    const form = byId(`${name}-form`);
    const typed = `${name}-typed`;
    this.field.value = tabMemory.get(typed) ?? "";
    this.field.addEventListener("input", () => {
      this.note.replaceChildren();
      tabMemory.set(typed, this.field.value);
    });
    /** Lines that are not wrapped are laid out one by one, however many there are. */
    this.limited = this.field.wrap !== "off";
    if (this.limited) limitText(this.field, (message) => this.tell(message));
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!event.repeat) form.requestSubmit();
    });
  }

  get value() {
    return this.field.value;
  }

  focus() {
    this.field.focus();
  }

  /** Says something of the text, beside what is said already. @param {string} message */
  tell(message) {
    this.note.querySelector("p")?.remove(); // the last one
    this.note.append(h("p", {}, message));
  }

  /** Puts a text in place of what is in the field, which can undo it. The focus stays where it is. @param {string} text */
  type(text) {
    if (this.limited) text = fitting(text, (message) => this.tell(message));
    if (this.field.value === text) return;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    this.field.focus({ preventScroll: true });
    this.field.select();
    insertText(this.field, text);
    if (focused !== this.field) focused?.focus({ preventScroll: true });
  }

  /** Puts a text file in place of what is in the field. @param {File} file */
  async take(file) {
    this.note.querySelector("p")?.remove(); // of the text before
    if (file.size > LARGEST_FILE) throw new UserError(`This file has ${megabytes(file.size)}: the page reads texts up to ${megabytes(LARGEST_FILE)}.`, { where: file.name, hint: `Divide it, then drop a part to ${this.name}.` });
    const { text, assumed } = await readText(file, { empty: `Drop a text to ${this.name}.` });
    this.type(text);
    this.focus();
    this.note.replaceChildren(...(assumed ? [encodingNote([file.name], async () => {
      await this.take(file);
      this.note.querySelector("select")?.focus(); // where the reader was
    })] : []));
  }
}
