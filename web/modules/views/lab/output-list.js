/**
 * The outputs of a cell: texts, values, tables, images, sound, curves, fields to draw in, buttons that open files, errors; and the
 * field for the line that a cell waits for.
 */
import { h } from "../../page/dom.js";
import { CurvesDrawing } from "./curves.js";
import { DrawingField } from "./drawing-field.js";
import { partsOfError } from "./notebook-files.js";

/** @typedef {import("./notebook-files.js").Output} Output */

const MOST = 300; // outputs of a cell
const SCROLL_DELAY = 100; // ms
const MOST_STORED = 3e6; // characters of a cell's outputs that are stored

/** @param {string} text */
const lastLine = (text) => text.slice(text.lastIndexOf("\n") + 1);

export class OutputList {
  /**
   * @param {HTMLElement} host
   * @param {{drawn: (field: string, pixels: number[], answers: OutputList) => void, open: (output: Output) => void}} actions
   */
  constructor(host, actions) {
    this.host = host;
    this.actions = actions;
    /** What is shown, as data. @type {Output[]} */
    this.outputs = [];
    /** @type {Map<string, {output: Output, node: HTMLElement, part?: any}>} those that newer ones replace */
    this.named = new Map();
    /** @type {any[]} */
    this.parts = [];
    /** The text that grows. @type {{output: Output, element: HTMLElement} | null} */
    this.text = null;
    this.left = 0;
    /** @type {number | undefined} */
    this.scroller = undefined;
  }

  clear() {
    for (const part of this.parts) part.destroy();
    [this.outputs, this.parts, this.text, this.left, this.end] = [[], [], null, 0, 0];
    this.question = null;
    this.named.clear();
    this.host.replaceChildren();
  }

  /** Shows a field for the line that a cell waits for. @param {(line: string) => void} answer @param {() => void} stop */
  ask(answer, stop) {
    this.endAsking();
    const prompt = lastLine(this.outputs.at(-1)?.text ?? "").trim();
    const field = h("input", { type: "text", class: "output-answer", "aria-label": prompt || "Input of the cell", maxlength: 16000, autocomplete: "off", spellcheck: "false" });
    field.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "c" || !event.ctrlKey || field.selectionStart !== field.selectionEnd) return;
      event.preventDefault();
      stop();
    });
    this.question = h("form", { class: "output-question", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      this.endAsking();
      answer(field.value);
    } }, field, h("button", { type: "submit", class: "secondary" }, "Enter"));
    this.host.append(this.question);
    field.focus();
  }

  /** Removes the field. */
  endAsking() {
    this.question?.remove();
    this.question = null;
  }

  /** @param {Output[]} outputs stored ones */
  restore(outputs) {
    this.clear();
    for (const output of outputs) this.add(output);
  }

  /** @param {Output} output */
  add(output) {
    if (output.kind === "text") return this.#addText(output);
    this.text = null;
    const older = output.id ? this.named.get(output.id) : null;
    if (older) {
      this.outputs[this.outputs.indexOf(older.output)] = output;
      older.output = output;
      if (older.part?.update) older.part.update(output);
      else older.node.replaceWith((older.node = this.#element(output).node));
      return;
    }
    if (this.outputs.length >= MOST) {
      this.left += 1;
      if (this.left === 1) this.host.append(h("p", { class: "output-note" }, `More than ${MOST} outputs: the others are left out.`));
      return;
    }
    const made = this.#element(output);
    this.outputs.push(output);
    if (made.part) this.parts.push(made.part);
    if (output.id) this.named.set(output.id, { output, ...made });
    this.host.append(made.node);
  }

  /** Appends to the text before it. "\r" goes back to the start of the line. @param {Output} output */
  #addText(output) {
    let growing = this.text;
    if (growing?.output.stream !== output.stream || !growing) {
      const element = h("pre", { class: `output-text ${output.stream === "stderr" ? "output-stderr" : ""}`, tabindex: "0", role: "group", "aria-label": output.stream === "stderr" ? "Messages" : "Printed" });
      this.text = growing = { output: { ...output, text: "" }, element };
      this.outputs.push(growing.output);
      this.host.append(element);
    }
    const { output: whole, element } = growing;
    for (const [i, piece] of (output.text ?? "").split("\r").entries()) {
      if (i > 0) {
        const before = whole.text ?? "";
        whole.text = before.slice(0, before.lastIndexOf("\n") + 1);
        const last = element.lastChild;
        if (last && !last.textContent?.endsWith("\n")) last.textContent = "";
      }
      if (!piece) continue;
      whole.text += piece;
      const last = element.lastChild;
      if (last && !last.textContent?.endsWith("\n")) last.textContent += piece;
      else element.append(new Text(piece));
    }
    this.scroller ??= setTimeout(() => this.#scroll(element), SCROLL_DELAY); // each look at the layout costs milliseconds
  }

  /** Shows the end of a text that grows, unless the reader has scrolled up. @param {HTMLElement} element */
  #scroll(element) {
    this.scroller = undefined;
    const { scrollHeight, scrollTop, clientHeight } = element;
    if (scrollTop >= (this.end ?? 0)) element.scrollTop = scrollHeight;
    this.end = scrollHeight - clientHeight - 60;
  }

  /** @param {Output} output @returns {{node: HTMLElement, part?: any}} */
  #element(output) {
    switch (output.kind) {
      case "plot": {
        const part = new CurvesDrawing(output);
        return { node: part.element, part };
      }
      case "drawing": {
        /** @type {DrawingField} */
        const part = new DrawingField(output, (pixels) => this.actions.drawn(String(output.id), pixels, answers));
        const answers = new OutputList(part.answer, this.actions);
        return { node: part.element, part };
      }
      case "image": return { node: imageElement(output) };
      case "sound": {
        const part = new Sound(output);
        return { node: part.element, part };
      }
      case "table": return { node: tableElement(output) };
      case "error": return { node: errorElement(output) };
      case "open": return { node: h("p", {}, h("button", { type: "button", class: "secondary output-open", onclick: () => this.actions.open(output) }, String(output.label))) };
      case "tail": {
        const pre = h("pre", { class: "output-text", tabindex: "0", role: "group", "aria-label": "The newest lines" }, output.text ?? "");
        queueMicrotask(() => (pre.scrollTop = pre.scrollHeight));
        const note = output.left_out ? h("p", { class: "output-note" }, `… ${Number(output.left_out).toLocaleString("en")} lines are left out …`) : null;
        return { node: h("div", {}, note, pre) };
      }
      case "note": return { node: h("p", { class: "output-note" }, output.text ?? "") };
      default: return { node: h("pre", { class: "output-text output-value", tabindex: "0", role: "group", "aria-label": "Value" }, String(output.text ?? "")) };
    }
  }

  /** What is stored with the notebook. @returns {Output[]} */
  stored() {
    let room = MOST_STORED;
    return this.outputs.filter((output) => (room -= lengthOf(output)) > 0);
  }
}

/** Characters of outputs that do not change: a notebook with megabytes of them is stored again and again. @type {WeakMap<Output, number>} */
const lengths = new WeakMap();

/** @param {Output} output @returns {number} characters */
function lengthOf(output) {
  if (output.kind === "text") return output.text?.length ?? 0; // it grows
  const length = lengths.get(output) ?? JSON.stringify(output).length;
  lengths.set(output, length);
  return length;
}

/** @param {string} text */
const isBase64 = (text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);

/** @param {Output} output */
function imageElement({ png = "", width, height, caption, text }) {
  const image = h("img", { class: "output-image", alt: caption || text || "An image", width, height });
  if (isBase64(png)) image.src = `data:image/png;base64,${png}`;
  return h("figure", { class: "output-figure" }, image, caption ? h("figcaption", {}, caption) : null);
}

/** A player. */
class Sound {
  /** @param {Output} output */
  constructor({ wav = "", caption, text }) {
    const data = Uint8Array.from(atob(isBase64(wav) ? wav : ""), (letter) => letter.charCodeAt(0));
    this.address = URL.createObjectURL(new Blob([data], { type: "audio/wav" }));
    const src = data.length ? this.address : null; // an empty file is an error of the network
    const player = h("audio", { controls: true, class: "output-sound", "aria-label": caption || text || "Sound", src });
    this.element = h("figure", { class: "output-figure" }, player, caption ? h("figcaption", {}, caption) : null);
  }

  destroy() {
    URL.revokeObjectURL(this.address);
  }
}

/** @param {Output} output */
function tableElement(output) {
  const { columns = [], rows = [], count = 0 } = /** @type {{columns?: string[], rows?: unknown[][], count?: number}} */ (output);
  const number = columns.map((_, i) => rows.every((row) => row[i] === "" || Number.isFinite(Number(row[i]))));
  const cell = (/** @type {"td" | "th"} */ tag, /** @type {unknown} */ text, /** @type {number} */ i) => h(tag, { class: number[i] ? "number" : null, scope: tag === "th" ? "col" : null }, String(text));
  const table = h("table", { class: "output-table" },
    h("thead", {}, h("tr", {}, ...columns.map((name, i) => cell("th", name, i)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((text, i) => cell("td", text, i))))));
  const note = count > rows.length ? h("p", { class: "output-note" }, `The first ${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")} rows.`) : null;
  return h("div", {}, h("div", { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Table" }, table), note);
}

/** @param {Output} output */
function errorElement(output) {
  const [trace, said] = partsOfError(output);
  return h("div", { class: "output-error", role: "group", "aria-label": "Error" },
    trace ? h("pre", { class: "output-trace", tabindex: "0", role: "group", "aria-label": "Where it happened" }, trace) : null,
    h("p", { class: "output-said" }, said), output.hint ? h("p", {}, output.hint) : null);
}
