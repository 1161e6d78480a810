/**
 * A view that makes something of a text: the field, the model, the run, what is kept of it. What it makes is the view's own.
 *
 * @typedef {import("../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("./model-choice.js").ListedModel} ListedModel
 * @typedef {{reason: string}} Result what is kept; `reason`: of its end
 */
import { HistoryStore } from "../history/history-store.js";
import { titleOf } from "../shared/words.js";
import { byId, showRows, tabMemory } from "./dom.js";
import { clearError, showError } from "./errors.js";
import { hubRow } from "./offer-row.js";
import { isShown } from "./shell.js";
import { TextField } from "./text-field.js";
import { WorkingView } from "./working-view.js";

/** By the reason of the end. @type {Record<string, string>} */
export const ENDINGS = { complete: "", cancelled: "You stopped it here.", failed: "It ended here, before the end of the text." };

/** @template {Result} R */
export class TextView extends WorkingView {
  /**
   * Its elements are there, with `name` at the beginning of their ids; so are tasks of the engine, `name` and `name.load`.
   * @param {import("./app.js").App} app @param {import("./models.js").Models} models @param {HTMLElement} view
   * @param {"translate" | "speak" | "forecast"} name @param {string} status as RunButton has it
   * @param {string} kind of what is kept @param {string} several of it, in words
   * @param {{files: RegExp, offered: import("./offer-row.js").HubModel[]}} model the names of a model's files, and models of the hub
   */
  constructor(app, models, view, name, status, kind, several, model) {
    super(app, models, view, name, "run", status);
    this.model = model;
    this.field = new TextField(name);
    this.store = new HistoryStore(kind);
    /** The entry of what is shown. @type {import("../history/history-store.js").HistoryEntry | null} */
    this.entry = null;
    /** What is shown. @type {R | null} */
    this.result = null;
    /** What is kept beside it. @type {import("../history/history-store.js").KeptFile[]} */
    this.files = [];
    /** The model that is loaded, by id. @type {string | null} */
    this.loaded = null;
    /** When it is loaded. @type {Promise<void>} */
    this.prepared = Promise.resolve();
    this.card = this.historyCard(this.store, {
      name: several,
      open: (item) => this.open(item),
      renamed: (id, title) => this.entry?.id === id && (this.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.#save(),
      filesOf: async (item) => this.filesOf(item),
    });
  }

  /** Begins, when the view has what it needs. */
  start() {
    this.showModel();
    byId(`${this.name}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.run();
    });
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.#save());
    addEventListener("beforeunload", (event) => {
      if (this.store.loses(this.entry)) event.preventDefault(); // the browser asks whether to leave
    });
    this.ready = this.#restore();
  }

  // -- what a view says

  /** A model is being loaded. @param {ListedModel} _model */
  loading(_model) {}

  /** What the engine knows of the loaded model. @param {ListedModel} _model @param {any} _known */
  knows(_model, _known) {}

  /** The text that a result was made of. @param {R} _result @returns {string} */
  textOf(_result) {
    throw new TypeError("A view says what a result was made of.");
  }

  /** The title of what is kept. @param {R} result @returns {string} */
  titleOf(result) {
    return titleOf(this.textOf(result));
  }

  /** What is done first, in words. */
  get beginning() {
    return "Reading the text…";
  }

  /** How much there is of a result, in words; "": nothing to keep. @param {R} _result @returns {string} */
  aboutOf(_result) {
    throw new TypeError("A view says how much there is of a result.");
  }

  /** The files that are exported. @param {import("../history/history-store.js").HistoryItem} _item @returns {import("../history/history-store.js").KeptFile[]} */
  filesOf(_item) {
    throw new TypeError("A view says which files it exports.");
  }

  /** Makes something of a text: it calls `make`. @param {ListedModel} _model @param {string} _text @param {AbortSignal} _signal @returns {Promise<void>} */
  async work(_model, _text, _signal) {
    throw new TypeError("A view makes something of a text.");
  }

  /** @param {R | null} _result @param {boolean} _running more of it is being made */
  show(_result, _running) {
    throw new TypeError("A view shows a result.");
  }

  // -- the model

  get choice() {
    return this.app.choices[/** @type {"translate" | "speak" | "forecast"} */ (this.name)];
  }

  offer() {
    byId(`${this.name}-offer`).hidden = this.choice.model !== null;
    showRows(byId(`${this.name}-offer-list`), this.model.offered.map((model) => hubRow(model, this.choice, this.models)));
  }

  /** Loads the chosen model before it is needed, and shows what it can. */
  load() {
    const { model } = this.choice;
    if (!model) this.loaded = null;
    if (!model || !isShown(this.view) || this.loaded === model.id || this.button.running || !this.engine.about) return;
    clearError(this.slot);
    this.prepared = this.#load(model);
  }

  /** @param {ListedModel} model */
  async #load(model) {
    this.loaded = model.id;
    this.loading(model);
    try {
      const onEvent = (/** @type {TaskEvent} */ event) => event.type === "progress" && this.progress.show(`${event.what}…`, event.done, event.total);
      const known = await this.engine.call(`${this.name}.load`, { model: model.id }, { onEvent });
      if (this.choice.uses(model)) this.knows(model, known);
    } catch (error) {
      if (this.loaded === model.id) this.loaded = null;
      if (this.choice.uses(model)) showError(this.slot, error, this.actions);
    } finally {
      if (!this.button.running) this.progress.hide();
    }
  }

  // -- the work

  /** Makes something of what is in the field. */
  async run() {
    const text = this.field.value;
    if (!text.trim()) return this.field.focus();
    const below = byId(`${this.name}-foot`).contains(document.activeElement); // it is hidden until there is something
    if (below) this.button.button.focus();
    this.over = this.button.run(async (signal) => {
      await this.app.listed(signal);
      const model = this.choice.present;
      if (this.loaded !== model.id) this.prepared = this.#load(model);
      await this.prepared;
      if (this.loaded !== model.id) return; // the error is shown
      signal.throwIfAborted();
      await this.work(model, text, signal);
    }, { fail: () => this.announcer.stop(), retry: () => this.run() });
    await this.over;
    this.progress.hide();
    this.load(); // another model may have been chosen meanwhile
  }

  /**
   * Runs the engine's task, which fills `result`, and keeps it. @param {R} result a new one @param {object} params of the task
   * @param {(event: TaskEvent) => unknown} onEvent @param {AbortSignal} signal @param {() => void} [ended] before it is shown at last
   */
  async make(result, params, onEvent, signal, ended = () => {}) {
    [this.result, this.files, this.entry] = [result, [], this.store.begin("")];
    byId(`${this.name}-note`).replaceChildren();
    this.show(result, true);
    this.progress.show(this.beginning);
    try {
      const { reason = "complete" } = await this.engine.call(this.name, params, { signal, onEvent });
      result.reason = reason;
    } catch (error) {
      result.reason = signal.aborted ? "cancelled" : "failed";
      throw error;
    } finally {
      if (this.result === result) {
        ended();
        this.show(result, false);
      }
      await this.#save();
    }
  }

  /** Shows an event that is no part of a result. @param {TaskEvent} event @param {string} what progress counts @param {string} unit of it, and what became of it */
  tell(event, what, unit) {
    const note = byId(`${this.name}-note`);
    if (event.type === "progress") {
      const counts = `${event.done.toLocaleString("en")} of ${(event.total ?? 0).toLocaleString("en")}`;
      this.progress.show(event.what === what ? unit.replace("%", counts) : `${event.what}…`, event.done, event.total);
    } else if (event.type === "notice") note.replaceChildren(`${event.what.charAt(0).toUpperCase()}${event.what.slice(1)}.${event.hint ? ` ${event.hint}.` : ""}`);
  }

  /** Shows whether there is something, and how it ended. @param {boolean} some @param {boolean} running @param {string} reason */
  showState(some, running, reason) {
    byId(`${this.name}-empty`).hidden = some || running;
    byId(`${this.name}-sheet`).dataset.state = some ? "done" : "empty";
    byId(`${this.name}-foot`).hidden = !some;
    byId(`${this.name}-ending`).textContent = running ? "" : ENDINGS[reason] ?? "";
  }

  // -- what is kept

  get #shown() {
    return `${this.name}-shown`; // what a reload of this tab shows again
  }

  /** Stores what is shown. */
  async #save() {
    const { result, entry, files } = this;
    const about = result ? this.aboutOf(result) : "";
    if (!result || !entry || !about) return;
    entry.title ||= this.titleOf(result);
    entry.about = about;
    try {
      await this.store.put(entry, result, entry.revision ? { allFiles: files } : { files });
      if (this.entry === entry) tabMemory.set(this.#shown, entry.id);
      await this.card.refresh(this.entry?.id ?? null);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** Shows an entry of the history. @param {import("../history/history-store.js").HistoryItem} item */
  async open({ entry, content, files = [] }) {
    await this.button.interrupt();
    [this.entry, this.result, this.files] = [entry, content, files];
    tabMemory.set(this.#shown, entry.id);
    this.field.type(this.textOf(content));
    clearError(this.slot);
    this.show(content, false);
    await this.card.refresh(entry.id);
  }

  /** @param {string} id of an entry that was deleted */
  async #removed(id) {
    if (this.entry?.id !== id) return;
    await this.button.interrupt();
    [this.entry, this.result, this.files] = [null, null, []];
    tabMemory.set(this.#shown, null);
    this.show(null, false);
  }

  /** Shows what this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get(this.#shown);
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (!item || this.result || this.button.running) return;
    const typed = this.field.value;
    await this.open(item);
    if (typed && typed !== this.textOf(item.content)) this.field.type(typed);
  }

  /** What was dropped on the page: a text, or the files of a model. @param {File[]} files @param {string} [folder] */
  async drop(files, folder) {
    if (files.some(({ name }) => this.model.files.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.attempt(() => this.field.take(files[0]));
  }
}
