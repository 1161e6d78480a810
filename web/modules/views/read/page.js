/**
 * A page of the queue: where its picture is, and what was read in it.
 *
 * @typedef {{text: string, confidence: number, box: number[], corners: number[][], words: Word[], cell?: number}} Line
 * @typedef {{text: string, confidence: number, box: number[], corners: number[][]}} Word
 * @typedef {{row: number, column: number, row_span: number, column_span: number, text: string, box: number[], corners: number[][]}} Cell
 * @typedef {{kind: "text" | "table", box: number[], corners: number[][], lines: Line[], rows?: number, columns?: number, cells?: Cell[]}} Region
 * @typedef {{text: string, layout: string, regions: Region[], width: number, height: number, angle: number}} Values of an item of the task "read"
 * @typedef {{region: number, line?: number, cell?: number, text: string}} Edit what an edit replaced, and where
 * @typedef {"waiting" | "reading" | "done" | "stopped" | "failed"} State "stopped": a part of it was read
 */
import { eventFromError } from "../../shared/protocol.js";
import { isPdf } from "./page-source.js";

export class Page {
  /** @param {File} file @param {number} number of the page in a PDF, from 1 @param {number} count of pages that the file has */
  constructor(file, number, count) {
    this.file = file;
    this.number = number;
    this.count = count;
    this.turns = 0; // quarters to the right
    /** @type {State} */
    this.state = "waiting";
    /** @type {Values | null} */
    this.values = null;
    /** Why it could not be read. @type {import("../../shared/protocol.js").ErrorEvent | null} */
    this.error = null;
    /** The title of the model that read it. @type {string | null} */
    this.model = null;
    /** @type {Edit[]} */
    this.edits = [];
    /** Whether a hand has changed the text. */
    this.edited = false;
    /** The text that a hand had changed before the page was read again. @type {{values: Values, model: string | null, turns: number} | null} */
    this.earlier = null;
    /** Whether a smaller copy was read. */
    this.smaller = false;
  }

  /** What users call it. */
  get name() {
    return isPdf(this.file) && this.count > 1 ? `${this.file.name}, page ${this.number}` : this.file.name;
  }

  /** Whether there is something to save. */
  get read() {
    return this.values !== null && (this.state === "done" || this.state === "stopped");
  }

  /** @param {unknown} error why it could not be read */
  fail(error) {
    this.state = "failed";
    this.error = /** @type {import("../../shared/protocol.js").ErrorEvent} */ (eventFromError(error)); // that can be stored
  }

  /** Forgets what was read, but not what a hand has changed: that stays as the earlier text. */
  forget() {
    if (this.values && this.edited) this.earlier = { values: this.values, model: this.model, turns: this.turns };
    this.state = "waiting";
    this.values = this.error = this.model = null;
    this.edits = [];
    this.edited = false;
  }

  /** Brings the earlier text back. Where the present one was edited too, they change places. */
  goBack() {
    if (!this.earlier) return;
    const { values, model, turns } = this;
    const earlier = values && this.edited ? { values, model, turns } : null;
    Object.assign(this, this.earlier, { earlier, edits: [], edited: true, state: "done", error: null });
  }

  /** Changes the text of a line or a cell. @param {Edit} edit with the new text */
  edit(edit) {
    const place = this.#placeOf(edit);
    if (!place || place.text === edit.text) return false;
    const last = this.edits.at(-1);
    const same = last && last.region === edit.region && last.line === edit.line && last.cell === edit.cell;
    if (!same) this.edits.push({ ...edit, text: place.text });
    place.text = edit.text;
    this.edited = true;
    return true;
  }

  /** Takes the last edit back. @returns {Edit | undefined} where */
  undo() {
    const edit = this.edits.pop();
    const place = edit && this.#placeOf(edit);
    if (place) place.text = edit.text;
    return edit;
  }

  /** @param {Edit} edit @returns {{text: string} | undefined} */
  #placeOf({ region, line, cell }) {
    const found = this.values?.regions[region];
    return cell === undefined ? found?.lines[line ?? -1] : found?.cells?.[cell];
  }

  /** Figures of what was read. */
  figures() {
    const regions = this.values?.regions ?? [];
    const lines = regions.flatMap((region) => region.lines);
    const texts = regions.flatMap((region) => (region.cells ?? region.lines).map(({ text }) => text));
    const words = lines.flatMap((line) => line.words);
    return {
      words: texts.join(" ").split(/\s+/).filter(Boolean).length,
      lines: lines.length,
      tables: regions.filter(({ kind }) => kind === "table").length,
      confidence: words.length ? words.reduce((sum, word) => sum + word.confidence, 0) / words.length : null,
    };
  }
}

/** What arrives while a page is read: the regions, then their lines in any order. */
export class Arriving {
  /** @param {HTMLCanvasElement} canvas @param {string} layout */
  constructor({ width, height }, layout) {
    this.about = { width, height, layout };
    /** @type {(Omit<Region, "lines"> & {lines: (Line | undefined)[]})[]} */
    this.regions = [];
  }

  /** @param {import("../../shared/protocol.js").RegionEvent} event */
  region({ region, kind, box, corners, rows, columns, cells }) {
    this.regions[region] = { kind, box, corners, lines: [], ...(kind === "table" ? { rows, columns, cells: (cells ?? []).map((cell) => ({ ...cell, text: "" })) } : {}) };
  }

  /** @param {import("../../shared/protocol.js").LineEvent} event */
  line({ region, line, text, confidence, box, corners, words, cell }) {
    const found = this.regions[region];
    found.lines[line] = { text, confidence, box, corners, words: /** @type {Word[]} */ (words), ...(cell === undefined || cell === null ? {} : { cell }) };
    const own = found.cells?.[cell ?? -1];
    if (own) own.text = found.lines.flatMap((one) => (one?.cell === cell ? [one?.text ?? ""] : [])).join(" ");
  }

  /** What is there. @returns {Values} */
  get values() {
    const regions = this.regions.map((region) => ({ ...region, lines: /** @type {Line[]} */ (region.lines.filter(Boolean)) })).filter(({ lines }) => lines.length);
    return { ...this.about, angle: 0, text: "", regions };
  }

  /** All regions, also those whose lines are not read yet. @returns {Region[]} */
  get found() {
    return this.regions.map((region) => ({ ...region, lines: /** @type {Line[]} */ (region.lines.filter(Boolean)) }));
  }
}
