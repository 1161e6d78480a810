/**
 * Keeps what the transcribe view shows in the history: the sound, and the versions of its transcript.
 *
 * A version begins with a transcription. It is stored while its text arrives, and when it is edited. Versions that were
 * edited are never replaced.
 *
 * @typedef {import("./transcript.js").Segment} Segment
 * @typedef {{made: number, model: string, task: string, language: string | null, guess: number | null, edited: boolean,
 *   complete: boolean, reached: number, segments: Segment[], live?: boolean, again?: number}} Version
 *   `live`: heard piece by piece; `again`: the seconds that reading the whole takes; `made` in milliseconds; `reached`: seconds of the recording that it covers; `guess`: the share of its text that may be one
 * @typedef {{name: string, live: boolean, overview: import("./transcript-sheet.js").Overview | null, versions: Version[], current: number,
 *   moments?: import("./moment-labels.js").LabelledMoments}} KeptTranscript
 *   `live`: while it is recorded its files are pieces of samples
 */
import { tabMemory } from "../../page/dom.js";
import { present } from "../../shared/present.js";
import { clock } from "./times.js";

const SOON = 500; // ms from an edit until it is stored
const SOONEST = 2000; // ms between two saves while text arrives
const PART_OF_TIME = 20; // and this many times as long as the last one took
const LARGE = 100e6; // bytes: of a larger file the sound alone is kept, if that is less
const SHOWN = "transcript-shown"; // what a reload of this tab shows again

export class TranscriptKeeper {
  /**
   * @param {import("../../history/history-store.js").HistoryStore} store
   * @param {{stored: (id: string) => void, fail: (error: unknown) => void}} listeners
   */
  constructor(store, { stored, fail }) {
    this.store = store;
    this.stored = stored;
    this.fail = fail;
    /** @type {import("../../history/history-store.js").HistoryEntry | null} */
    this.entry = null;
    /** @type {KeptTranscript | null} */
    this.content = null;
    /** @type {import("../../history/history-store.js").KeptFile[] | null} not stored yet */
    this.files = null;
    /** Stored or not. @type {import("../../history/history-store.js").KeptFile[]} */
    this.allFiles = [];
    /** @type {number | undefined} until the next save */
    this.timer = undefined;
    this.took = 0;
    /** Of the live recording. */
    this.pieces = 0;
  }

  /** The version that is shown. @returns {Version | null} */
  get version() {
    return this.content?.versions[this.content.current] ?? null;
  }

  /** The id of what a reload of this tab shows again. */
  static get lastShown() {
    return tabMemory.get(SHOWN);
  }

  /** Whether something is not stored. */
  get unsaved() {
    return this.timer !== undefined || this.store.loses(this.entry);
  }

  /** A new entry. @param {string} name @param {boolean} live */
  begin(name, live) {
    this.entry = this.store.begin(name);
    this.content = { name, live, overview: null, versions: [], current: -1 };
    this.files = this.allFiles = [];
    this.pieces = 0;
    tabMemory.set(SHOWN, this.entry.id);
  }

  /** @param {import("./transcript-sheet.js").Recording} recording */
  setSound({ name, wav, original, overview }) {
    const content = present(this.content, "the transcript");
    content.overview = overview;
    content.live = false;
    this.files = this.allFiles = [wav && original.size > LARGE && wav.size < original.size ? { name: `${stem(name)}.wav`, blob: wav } : { name: nameOf(original, name), blob: original }];
  }

  /** Adds a piece of a live recording. @param {Blob} piece */
  addPiece(piece) {
    const number = String((this.pieces += 1)).padStart(6, "0");
    this.store.addFile(present(this.entry, "the transcript").id, `piece-${number}`, piece).catch((error) => this.fail(error));
  }

  /** Shows an entry of the history. @param {import("../../history/history-store.js").HistoryItem} item */
  adopt({ entry, content, files }) {
    this.entry = entry;
    this.content = content;
    this.files = null;
    this.allFiles = files;
    tabMemory.set(SHOWN, entry.id);
  }

  /** Nothing is shown any more. */
  forget() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.entry = this.content = this.files = null;
    this.allFiles = [];
    tabMemory.set(SHOWN, null);
  }

  /** Begins a version. @param {{model: string, task: string, segments: Segment[], live?: boolean}} what @returns {Version} */
  beginVersion({ model, task, segments, live = false }) {
    /** @type {Version} */
    const version = { made: Date.now(), model, task, language: null, guess: null, edited: false, complete: false, reached: 0, segments, live };
    const content = present(this.content, "the transcript");
    content.versions.push(version);
    content.current = content.versions.length - 1;
    return version;
  }

  /** Ends a version: it replaces those of the same model and task that were not edited. @param {Version} version */
  endVersion(version) {
    const { content } = this;
    if (!content?.versions.includes(version)) return;
    const { model, task } = version;
    const nothing = !version.complete && version.segments.length === 0;
    content.versions = content.versions.filter((other) => (other === version
      ? !nothing
      : nothing || other.edited || other.model !== model || other.task !== task || (other.complete && !version.complete)));
    content.current = nothing ? content.versions.length - 1 : content.versions.indexOf(version);
  }

  /** Stores it within a few seconds: later if that takes long, unless the user made it. @param {boolean} [own] */
  saveSoon(own = false) {
    if (!this.content) return;
    if (own) clearTimeout(this.timer);
    if (own || this.timer === undefined) this.timer = setTimeout(() => this.save(), own ? SOON : Math.max(SOONEST, PART_OF_TIME * this.took));
  }

  /** Stores it now. */
  async save() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { entry, content, files, allFiles } = this;
    if (!entry || !content) return;
    const began = performance.now();
    const length = content.overview ? clock(content.overview.duration) : "";
    const edited = content.versions.some((version) => version.edited) ? "edited" : "";
    const { version } = this;
    const state = version && !version.complete ? "not finished" : "";
    entry.about = [length, edited, state].filter(Boolean).join(", ");
    this.files = null;
    try {
      await this.store.put(entry, content, { files: files ?? undefined, allFiles });
      if (this.entry === entry) tabMemory.set(SHOWN, entry.id); // a new one, if another tab changed it
      this.took = performance.now() - began;
      this.stored(entry.id);
    } catch (error) {
      if (this.entry === entry) this.files ??= files;
      this.fail(error);
    }
  }
}

/** A file's name without its ending. @param {string} name */
export const stem = (name) => name.replace(/\.[^.]{1,5}$/, "") || "transcript";

/** @param {Blob} blob @param {string} fallback */
const nameOf = (blob, fallback) => (blob instanceof File ? blob.name : fallback);
