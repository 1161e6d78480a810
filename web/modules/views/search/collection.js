/**
 * A collection: texts, their passages, and the vector of each passage. And its file: JSON, vectors as base64.
 *
 * @typedef {{text: number, start: number, end: number}} Passage `text` is an index; the others count characters (code points)
 * @typedef {{name: string, text: string, rest?: number}} KeptText `rest`: the character from which on it has to be embedded yet; none: it is whole
 * @typedef {{texts: KeptText[], passages: Passage[], dimensions: number, by: EmbeddedBy | null}} CollectionContent what
 *   is stored beside the entry of the history; the vectors are a file
 * @typedef {CollectionContent & {id: string, name: string, created: number, updated: number, vectors: Float32Array}} CollectionRecord
 * @typedef {import("../../history/history-store.js").HistoryEntry} HistoryEntry
 * @typedef {import("../../history/history-store.js").HistoryItem} HistoryItem
 * @typedef {{title: string, probe: string}} EmbeddedBy the model's title, and its vector of a fixed text as base64 float32
 */
import { UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";

const FORMAT = "pyapp.search";
const VERSION = 1;
const SAME_MODEL = 0.995; // cosine of two models' vectors of the same text; quantised forms of one model are above

export class Collection {
  /** @param {HistoryEntry} entry @param {Partial<CollectionContent>} [content] @param {Float32Array} [vectors] */
  constructor(entry, { texts = [], passages = [], dimensions = 0, by = null } = {}, vectors = new Float32Array()) {
    this.entry = entry;
    /** @type {KeptText[]} */ this.texts = texts;
    /** @type {Passage[]} */ this.passages = passages;
    /** Of all passages, one after the other. @type {Float32Array} */ this.vectors = vectors;
    /** @type {number} */ this.dimensions = dimensions;
    /** @type {EmbeddedBy | null} */ this.by = by;
    /** @type {Map<number, string[]>} the characters of texts, by index */
    this.characters = new Map();
  }

  /** @param {HistoryItem} item that is stored */
  static async of({ entry, content, files }) {
    return new Collection(entry, content, await vectorsOf(files));
  }

  get id() {
    return this.entry.id;
  }

  get name() {
    return this.entry.title;
  }

  /** What is stored beside the entry. @returns {CollectionContent} */
  get content() {
    const { texts, passages, dimensions, by } = this;
    return { texts, passages, dimensions, by };
  }

  /** @returns {import("../../history/history-store.js").KeptFile[]} */
  get files() {
    return filesOf(this.vectors);
  }

  get empty() {
    return this.texts.length === 0;
  }

  /** Whether a model's vectors can be compared with those here. @param {string} probe */
  fits(probe) {
    return !this.by || cosine(floats(this.by.probe), floats(probe)) > SAME_MODEL;
  }

  /** The texts that are not embedded to their end. */
  get unfinished() {
    return this.texts.filter(({ rest }) => rest !== undefined);
  }

  /** Whether there are texts, and nothing of them is embedded yet. */
  get waits() {
    return !this.by && this.unfinished.length > 0;
  }

  /** Adds those of the texts that are not here; their passages are to come. @param {KeptText[]} texts */
  add(texts) {
    const fresh = texts.filter((one) => !this.texts.includes(one));
    for (const one of fresh) if (one.text.trim()) one.rest = 0;
    this.texts = [...this.texts, ...fresh];
  }

  /**
   * Adds passages, in their order; the last may be followed by more of its text. Those of a model that does not fit are dropped.
   * @param {KeptText[]} texts of this collection, which the passages count @param {(Passage & {embedding: string})[]} items @param {EmbeddedBy} by
   */
  extend(texts, items, by) {
    if (!items.length) return;
    if (!this.fits(by.probe)) {
      Object.assign(this, { passages: [], vectors: new Float32Array(), dimensions: 0 });
      for (const one of this.texts) if (one.text.trim()) one.rest = 0;
    }
    const places = texts.map((one) => this.texts.indexOf(one));
    const found = items.map((item) => ({ ...item, text: places[item.text] }));
    // What goes on begins with the last passage that is here.
    if (this.passages.some(({ text, start }) => text === found[0].text && start === found[0].start)) found.shift();
    const last = items[items.length - 1];
    texts.slice(0, last.text).forEach(finish);
    texts[last.text].rest = last.start;
    this.by = by;
    if (!found.length) return;
    this.dimensions = floats(found[0].embedding).length;
    const vectors = new Float32Array(this.vectors.length + found.length * this.dimensions);
    vectors.set(this.vectors);
    found.forEach(({ embedding }, i) => vectors.set(floats(embedding), this.vectors.length + i * this.dimensions));
    this.vectors = vectors;
    this.passages = [...this.passages, ...found.map(({ text, start, end }) => ({ text, start, end }))];
  }

  /** Removes a text with its passages. @param {number} index @returns {() => number} brings it back, and says where it is */
  remove(index) {
    const { by, dimensions } = this;
    const [one, own] = [this.texts[index], this.passages.map((passage, from) => ({ passage, from })).filter(({ passage }) => passage.text === index)];
    const ownVectors = own.map(({ from }) => this.vectors.slice(from * dimensions, (from + 1) * dimensions));
    const kept = this.passages.map((passage, from) => ({ passage, from })).filter(({ passage }) => passage.text !== index);
    const vectors = new Float32Array(kept.length * this.dimensions);
    kept.forEach(({ from }, i) => vectors.set(this.vectors.subarray(from * this.dimensions, (from + 1) * this.dimensions), i * this.dimensions));
    this.passages = kept.map(({ passage }) => ({ ...passage, text: passage.text - (passage.text > index ? 1 : 0) }));
    this.vectors = vectors;
    this.texts = this.texts.filter((_, i) => i !== index);
    this.characters.clear();
    return () => {
      const at = Math.min(index, this.texts.length);
      this.texts = [...this.texts.slice(0, at), one, ...this.texts.slice(at)];
      this.passages = this.passages.map((passage) => ({ ...passage, text: passage.text + (passage.text >= at ? 1 : 0) }));
      this.characters.clear();
      if (by !== this.by) { // another model has made the vectors meanwhile
        if (one.text.trim()) one.rest = 0;
        return at;
      }
      this.passages.push(...own.map(({ passage }) => ({ ...passage, text: at })));
      const vectors = new Float32Array(this.passages.length * dimensions);
      vectors.set(this.vectors);
      ownVectors.forEach((vector, i) => vectors.set(vector, this.vectors.length + i * dimensions));
      this.vectors = vectors;
      return at;
    };
  }

  /** All passages with their cosine to a vector of length 1, the nearest first. @param {Float32Array} question */
  ranked(question) {
    const { dimensions, vectors } = this;
    const found = this.passages.map((passage, i) => {
      let score = 0;
      for (let d = 0, at = i * dimensions; d < dimensions; d += 1) score += question[d] * vectors[at + d];
      return { ...passage, score };
    });
    return found.sort((a, b) => b.score - a.score);
  }

  /**
   * A part of a text. Python counts characters, JavaScript half of those beyond U+FFFF twice.
   * @param {number} text @param {number} start @param {number} end
   */
  slice(text, start, end) {
    const characters = this.characters.get(text) ?? Array.from(this.texts[text].text);
    this.characters.set(text, characters);
    return characters.slice(Math.max(0, start), end).join("");
  }
}

const VECTORS = "vectors"; // float32, of all passages

/** @param {Float32Array} vectors */
const filesOf = (vectors) => [{ name: VECTORS, blob: new Blob([/** @type {Float32Array<ArrayBuffer>} */ (vectors)]) }];

/** @param {import("../../history/history-store.js").KeptFile[]} files */
async function vectorsOf(files) {
  const file = files.find(({ name }) => name === VECTORS);
  return new Float32Array(file ? await file.blob.arrayBuffer() : new ArrayBuffer(0));
}

/** @param {number} passages */
export const aboutOf = (passages) => counted(passages, "passage");

/** Notes that all passages of a text are here. @param {KeptText} one */
export function finish(one) {
  delete one.rest;
}

/** What a user would miss. @param {CollectionContent} content */
export const textOf = ({ texts, passages, by }) => JSON.stringify([texts, passages, by]);

/** @param {CollectionRecord} record of a file, or of an earlier version of the page @returns {HistoryItem} */
export function itemOf({ id, name, created, updated, texts, passages, vectors, dimensions, by }) {
  const entry = { id, kind: "collection", title: name, about: aboutOf(passages.length), created, updated, bytes: 0, revision: 0 };
  return { entry, content: { texts, passages, dimensions, by }, files: filesOf(vectors) };
}

/** @param {HistoryItem} item @returns {Promise<CollectionRecord>} */
export async function recordOf({ entry: { id, title, created, updated }, content, files }) {
  return { id, name: title, created, updated, ...content, vectors: await vectorsOf(files) };
}

/** @param {string} base64 of float32 numbers @returns {Float32Array} */
export function floats(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return new Float32Array(bytes.buffer, 0, bytes.length >> 2);
}

/** @param {Float32Array} a @param {Float32Array} b both of length 1 */
export const cosine = (a, b) => (a.length === b.length ? a.reduce((sum, x, i) => sum + x * b[i], 0) : 0);

/** @param {Float32Array} numbers */
function base64Of(numbers) {
  const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  let letters = "";
  for (let i = 0; i < bytes.length; i += 0x8000) letters += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(letters);
}

/** @param {CollectionRecord[]} records @returns {string} JSON */
export function exported(records) {
  const collections = records.map((record) => ({ ...record, vectors: base64Of(record.vectors) }));
  return JSON.stringify({ format: FORMAT, version: VERSION, collections });
}

/** The records in a file. UserError for anything else. @param {string} json @param {string} where @returns {CollectionRecord[]} */
export function imported(json, where) {
  let document;
  try {
    document = JSON.parse(json);
  } catch {
    throw new UserError("This file is not JSON.", { where, hint: "Choose a file that was exported here." });
  }
  if (document?.format !== FORMAT || !Array.isArray(document.collections)) {
    throw new UserError("This file has no collections.", { where, hint: "Choose a file that was exported here." });
  }
  if (!Number.isInteger(document.version) || document.version > VERSION) throw new UserError("This file was written by a newer version.", { where, hint: "Reload the page to get that version." });
  return document.collections.map((/** @type {unknown} */ record, /** @type {number} */ i) => checked(record, `${where}, collection ${i + 1}`));
}

/** A record with sound fields only. @param {any} record @param {string} where @returns {CollectionRecord} */
function checked(record, where) {
  const wrong = (/** @type {string} */ what) => new UserError(`This collection is damaged: ${what}.`, { where, hint: "Export it again." });
  const { id, name, created, updated, texts, passages, dimensions, by } = record ?? {};
  if (typeof id !== "string" || typeof name !== "string") throw wrong("it has no name");
  if (!Array.isArray(texts) || texts.some((one) => typeof one?.name !== "string" || typeof one?.text !== "string")) throw wrong("its texts are missing");
  const sizes = texts.map(({ text }) => Array.from(text).length);
  /** @param {unknown} value @returns {value is number} */
  const isCount = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
  const sound = (/** @type {Partial<Passage> | null} */ passage) => {
    const { text, start, end } = passage ?? {};
    return isCount(text) && text < texts.length && isCount(start) && isCount(end) && start < end && end <= sizes[text];
  };
  if (texts.some(({ rest }, i) => rest !== undefined && !(isCount(rest) && rest < sizes[i]))) throw wrong("the rest of a text is not in it");
  if (!Array.isArray(passages) || !passages.every(sound)) throw wrong("a passage is not in its text");
  let vectors;
  try {
    vectors = floats(record.vectors).slice();
  } catch {
    throw wrong("its vectors are missing");
  }
  if (!isCount(dimensions) || vectors.length !== passages.length * dimensions || !vectors.every(Number.isFinite)) throw wrong("its vectors do not fit its passages");
  const fits = by === null || (typeof by?.title === "string" && typeof by?.probe === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(by.probe));
  if (!fits) throw wrong("it does not say which model made it");
  const time = (/** @type {number} */ value) => (Number.isFinite(value) ? value : Date.now());
  return {
    id, name, created: time(created), updated: time(updated), texts: texts.map(({ name, text, rest }) => ({ name, text, ...(rest === undefined ? {} : { rest }) })),
    passages: passages.map(({ text, start, end }) => ({ text, start, end })), vectors, dimensions, by: by && { title: by.title, probe: by.probe },
  };
}
