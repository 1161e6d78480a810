/**
 * The search view: texts, their passages and vectors, questions, the passages found, model and settings. Loaded when it is
 * first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {import("./collection.js").KeptText} KeptText
 */
import { present } from "../../shared/present.js";
import { UserError, throwIfCancelled } from "../../shared/protocol.js";
import { beginningOf, counted } from "../../shared/words.js";
import { byId, find, h, replaceRows, showRows, single, tabMemory } from "../../page/dom.js";
import { assumedEncoding, encodingNote } from "../../page/encoding-note.js";
import { clearError, showError } from "../../page/errors.js";
import { modelRow } from "../../page/offer-row.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { isShown } from "../../page/shell.js";
import { limitText } from "../../page/text-limit.js";
import { WorkingView } from "../../page/working-view.js";
import { HistoryStore } from "../../history/history-store.js";
import { Collection, aboutOf, cosine, exported, finish, floats, imported, itemOf, recordOf, textOf } from "./collection.js";
import { ResultList } from "./result-list.js";
import { buildSearch } from "./search-parts.js";
import { readTexts } from "./text-files.js";

const PAGE = 10; // results at a time
const PASTED = "search-paste"; // the field for a pasted text
const TYPED = [PASTED, "search-question", "compare-one", "compare-two"]; // fields that a reload does not empty
const MODEL_FILES = /\.(gguf|safetensors)$|^(config|tokenizer)\.json$/i;
/** @type {Record<string, number>} */
const INITIAL = { size: 200, overlap: 40 }; // tokens
/** The names under which models keep the prompt of passages. */
const PASSAGE_PROMPTS = ["passage", "document", "corpus"];

const GROUP = 100000; // characters of the texts in one request; a longer text has its own
const PATIENCE = 3000; // ms until the time that is left can be told
const SAVE_EVERY = 10000; // ms between two times that a growing collection is stored

export default class SearchView extends WorkingView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildSearch(view);
    super(app, models, view, "search", "find", "Searching");
    this.settings = new RememberedFields("search-settings", { size: byId("search-size"), overlap: byId("search-overlap") }, INITIAL);
    this.prompts = { query: byId("search-query-prompt"), passage: byId("search-passage-prompt") };
    this.results = new ResultList(byId("search-list"));
    this.store = new HistoryStore("collection", { database: "pyapp-search", table: "collections", itemOf, textOf });
    this.collection = this.#fresh();
    /** The model that is being loaded. @type {ListedModel | null} */
    this.loading = null;
    /** What the loaded model says of itself. @type {{model: string, longest: number, probe: string, prompts: Record<string, string>} | null} */
    this.known = null;
    /** All passages of the last search, the nearest first. @type {import("./result-list.js").Result[]} */
    this.found = [];
    this.texts = h("ul", { class: "text-list", id: "text-list", "aria-label": "Texts of this collection", hidden: true });
    this.shown = PAGE;
    /** Texts that were removed from the shown collection, the last one at the end. @type {{name: string, back: () => number}[]} */
    this.removed = [];
    /** To which texts are being added. @type {Collection | null} */
    this.growing = null;
    /** What is to be added as soon as the model is there. @type {{collection: Collection, texts: KeptText[]} | null} */
    this.awaited = null;
    /** Over when the files that were given last are read, and their texts are being added. @type {Promise<unknown>} */
    this.reading = Promise.resolve();
    this.card = this.historyCard(this.store, {
      name: "collections",
      open: (item) => this.open(item),
      renamed: (id, title) => id === this.collection.id && (this.collection.entry.title = title),
      removed: (id) => this.#removed(id),
      begin: { label: "New collection", run: () => this.begin() },
      oneFile: {
        to: async (items) => new Blob([exported(await Promise.all(items.map(recordOf)))], { type: "application/json" }),
        from: async (file) => imported(await file.text(), file.name).map(itemOf),
        textOf,
      },
    }, "Collections");
    this.card.details.append(this.texts);
    this.#rememberPrompts();
    this.showModel();
    this.#listen();
    this.ready = this.#restore();
  }

  get choice() {
    return this.app.choices.embed;
  }

  /** Adds what an exported file has. @param {File} file */
  async importFile(file) {
    await this.ready;
    await this.card.importFile(file);
  }

  #listen() {
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.find();
    });
    byId("search-question").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      this.results.focusFirst();
    });
    for (const input of [byId("search-files"), byId("search-folder")]) {
      input.addEventListener("change", () => {
        const files = [...(input.files ?? [])];
        input.value = "";
        if (files.length) this.addFiles(files);
      });
    }
    byId("search-add").addEventListener("click", () => this.addPasted());
    for (const name of TYPED) limitText(/** @type {HTMLTextAreaElement} */ (byId(name)), (message) => this.#tell(name === PASTED ? `${message} A file may be longer.` : message));
    for (const name of TYPED) {
      const field = /** @type {HTMLInputElement} */ (byId(name));
      field.value = tabMemory.get(name) ?? "";
      field.addEventListener("input", () => tabMemory.set(name, field.value));
    }
    byId("search-more").addEventListener("click", () => this.#showResults(this.shown + PAGE));
    addEventListener("beforeunload", (event) => {
      if (!this.collection.empty && this.store.loses(this.collection.entry)) event.preventDefault(); // the browser asks whether to leave
    });
    byId("compare").addEventListener("click", () => this.compare());
  }

  /** The prompts that the user writes are remembered, too, for each model. */
  #rememberPrompts() {
    const { values } = this.settings;
    for (const [name, field] of Object.entries(this.prompts)) {
      field.addEventListener("change", () => {
        const id = this.choice.model?.id ?? "";
        values.prompts = { ...values.prompts, [id]: { ...values.prompts?.[id], [name]: field.value } };
        this.settings.store();
      });
    }
  }

  get options() {
    const { size, overlap } = this.settings.values;
    return { size, overlap: Math.min(overlap, Math.floor(size / 2)) };
  }

  /** What is put before a text. @param {"query" | "passage"} name */
  prompt(name) {
    return this.prompts[name].value;
  }

  async #restore() {
    try {
      await this.store.moved;
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
    try {
      const [last] = await this.store.list();
      const item = last && (await this.store.read(last.id));
      this.#show(item ? await Collection.of(item) : this.#fresh());
      await this.card.refresh(this.collection.id);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
    if (!this.store.keeps) this.#tell("This browser keeps nothing for this page (a private window, perhaps): collections are gone when it is closed. Export them to keep them.");
  }

  /** @param {string} text @param {...Node} buttons */
  #tell(text, ...buttons) {
    byId("search-note").replaceChildren(text, ...buttons);
    byId("search-note").hidden = !text && !buttons.length;
  }

  /** Buttons for the models of the hub, as long as there is no model. */
  offer() {
    const { model, models } = this.choice;
    byId("search-offer").hidden = model !== null;
    showRows(byId("search-offer"), models.filter(({ kind }) => kind === "hub").map((other) => modelRow(other, this.choice, this.models)));
    this.#showEmpty();
  }

  /** Loads the chosen model before it is needed. */
  load() {
    const { model } = this.choice;
    if (!model) this.known = null;
    if (!model || this.loading?.id === model.id || this.button.running || !isShown(this.view)) return;
    if (this.known?.model === model.id) return;
    this.loading = model;
    this.prepared = this.#load(model);
  }

  /** @param {ListedModel} model */
  async #load(model) {
    clearError(this.slot);
    this.known = null;
    try {
      const onEvent = (/** @type {TaskEvent} */ event) => event.type === "progress" && this.progress.show(`${event.what}…`, event.done, event.total);
      const known = await this.engine.call("search.load", { model: model.id }, { onEvent });
      if (this.choice.model?.id !== model.id) return;
      const { longest, probe, prompts: own } = /** @type {any} */ (known);
      this.known = { longest, probe, prompts: own, model: model.id };
      const prompts = { ...own, ...model.prompts, ...this.settings.values.prompts?.[model.id] };
      this.prompts.query.value = prompts.query ?? "";
      this.prompts.passage.value = PASSAGE_PROMPTS.map((name) => prompts[name]).find((text) => text !== undefined) ?? "";
      byId("search-size").max = String(longest);
      this.#checkModel();
    } catch (error) {
      if (this.choice.uses(model)) showError(this.slot, error, this.actions);
    } finally {
      if (this.loading?.id === model.id) this.loading = null;
      if (!this.button.running) this.progress.hide();
    }
    const { collection } = this;
    if (this.known && collection.waits) this.#addTo(collection, collection.unfinished); // they waited for a model
  }

  /** Says if the collection was made by another model than the one in use. @returns {boolean} whether it can be searched */
  #checkModel() {
    const { by } = this.collection;
    if (!this.known || !by || this.collection.fits(this.known.probe)) {
      this.#tellRest(this.collection);
      return true;
    }
    const again = h("button", { type: "button", class: "quiet", onclick: () => this.embedAgain() }, `Embed again with ${this.choice.model?.title ?? "the model in use"}`);
    this.#tell(`This collection was made with ${by.title}. Vectors of two models cannot be compared: choose that model again, or `, again);
    return false;
  }

  /** Offers to embed what was not, because it was stopped, failed, or the page was closed. @param {Collection} collection */
  #tellRest(collection) {
    const { unfinished } = collection;
    if (!unfinished.length || this.growing === collection || (collection.waits && !this.choice.model)) return this.#tell("");
    const [{ name, text, rest = 0 }] = unfinished;
    const what = unfinished.length > 1 ? `${counted(unfinished.length, "text")} are only in part in the collection`
      : `${name} is only in part in the collection (${Math.floor((100 * rest) / text.length)} %)`;
    const add = h("button", { type: "button", class: "quiet", onclick: () => this.#addTo(collection, unfinished) }, "Add the rest");
    this.#tell(`${what}: what is missing cannot be found. `, add);
  }

  #fresh() {
    return new Collection(this.store.begin("Texts"));
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async open(item) {
    await this.#change(await Collection.of(item));
    this.announcer.say(`${this.collection.name}: ${aboutOf(this.collection.passages.length)}.`);
  }

  async begin() {
    await this.#change(this.#fresh());
    this.announcer.say("A new collection.");
  }

  /** @param {string} id of a collection that was deleted: what is being added to it would store it again */
  #removed(id) {
    if (id === this.growing?.id) {
      this.growing = null;
      this.button.stop();
    }
    if (id === this.collection.id) this.#show(this.#fresh());
  }

  /** @param {Collection} collection that is shown from now on */
  async #change(collection) {
    await this.button.interrupt();
    clearError(this.slot);
    this.#show(collection);
    await this.card.refresh(this.collection.id);
  }

  /** @param {Collection} collection */
  #show(collection) {
    if (collection !== this.collection) this.removed = [];
    this.collection = collection;
    this.found = [];
    this.results.clear();
    byId("search-more").hidden = true;
    this.card.current = collection.id;
    this.#showTexts();
    this.#checkModel();
    this.#showEmpty();
  }

  /** The texts of the collection, each with a button that removes it. */
  #showTexts() {
    const { texts } = this.collection;
    this.texts.hidden = texts.length === 0;
    replaceRows(this.texts, texts.map(({ name }, i) => h("li", {}, h("span", { class: "text-name", dir: "auto" }, name),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, title: "Remove", onclick: single(() => this.removeText(i)) }, "×"))), byId("search-files"));
  }

  #showEmpty() {
    const { collection } = this;
    const empty = byId("search-empty");
    empty.hidden = this.found.length > 0;
    if (collection.waits && !this.choice.model) empty.textContent = `${counted(collection.unfinished.length, "text")} can be searched as soon as there is a model. None comes with the page: choose one, it is downloaded once.`;
    else if (!collection.empty) empty.textContent = `${counted(collection.texts.length, "text")} in ${counted(collection.passages.length, "passage")}. Ask for what you look for.`;
    else if (this.choice.model) empty.textContent = "Add texts, then ask for what you look for: passages are found by their meaning, not by their words.";
    else empty.textContent = "Passages are found by their meaning, not by their words. No model for this comes with the page: choose one first, it is downloaded once. Then add texts.";
  }

  /** What was dropped on the page: texts, or the files of a model. @param {File[]} files @param {string} [folder] */
  drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.addFiles(files);
  }

  /** @param {File[]} files */
  async addFiles(files) {
    const before = this.reading;
    let begun = () => {};
    this.reading = new Promise((resolve) => (begun = () => resolve(undefined)));
    try {
      clearError(this.slot);
      const read = await this.#read(files);
      if (!read) return;
      await before;
      const { texts: given, skipped, assumed } = read;
      const texts = given.filter((one) => !this.#has(one));
      skipped.push(...given.filter((one) => !texts.includes(one)).map(({ name }) => `${name} (already here)`));
      const added = texts.length > 0 && this.addTexts(texts);
      begun();
      if (added && !(await added)) return;
      const left = skipped.length ? `Left out: ${skipped.slice(0, 5).join(", ")}${skipped.length > 5 ? ` and ${skipped.length - 5} more` : ""}. ` : "";
      if (assumed.length) this.#tell(left, encodingNote(assumed.map(({ file }) => file.name), () => this.#readAgain(assumed)));
      else if (left) this.#tell(left);
    } catch (error) {
      showError(this.slot, error, this.actions);
    } finally {
      begun();
    }
  }

  /**
   * The texts in files. While other work runs, its Stop and its progress stay what they are.
   * @param {File[]} files @returns {Promise<Awaited<ReturnType<typeof readTexts>> | null>} null: it was stopped, or has failed
   */
  async #read(files) {
    if (this.button.running) return readTexts(files, assumedEncoding());
    /** @type {Awaited<ReturnType<typeof readTexts>> | null} */
    let found = null;
    this.over = this.button.run(async (signal) => {
      signal.addEventListener("abort", () => this.announcer.say("Stopped. Nothing was added."));
      const onProgress = (/** @type {string} */ what, /** @type {number} */ done, /** @type {number} */ total) => this.progress.show(what, done, total);
      found = await readTexts(files, assumedEncoding(), { signal, onProgress });
    }, { fail: () => {}, retry: () => this.addFiles(files) });
    await this.over;
    this.progress.hide();
    return found;
  }

  /** Replaces texts by the same files in another encoding. @param {{file: File, texts: KeptText[]}[]} read */
  async #readAgain(read) {
    await this.button.interrupt();
    const old = read.flatMap(({ texts }) => texts);
    for (const one of old) if (this.collection.texts.includes(one)) this.collection.remove(this.collection.texts.indexOf(one));
    await this.addFiles(read.map(({ file }) => file));
  }

  async addPasted() {
    const field = byId("search-paste");
    const text = field.value;
    if (!text.trim()) return field.focus();
    if (this.#has({ text })) return this.#tell("This text is already in the collection.");
    const name = beginningOf(text.trim().split("\n")[0], 40);
    const one = { name, text };
    if (!(await this.addTexts([one])) && !this.collection.texts.includes(one)) return;
    if (field.value !== text) return; // the next one is being written
    field.value = "";
    tabMemory.set(PASTED, null);
  }

  /** Whether a text is in the collection. @param {{text: string}} one */
  #has({ text }) {
    return this.collection.texts.some((other) => other.text === text);
  }

  /** Splits texts, embeds the passages, and stores them. @param {import("./text-files.js").NamedText[]} texts @returns {Promise<boolean>} */
  addTexts(texts) {
    return this.#addTo(this.collection, texts);
  }

  /**
   * Embeds texts of a collection, or such that it gets. What is done stays when it stops, fails, or the page is loaded again.
   * @param {Collection} collection @param {KeptText[]} texts @param {boolean} [replace] the vectors of another model
   * @returns {Promise<boolean>} whether all is done
   */
  async #addTo(collection, texts, replace = false) {
    if (!this.choice.model) { // they wait for one in the collection
      clearError(this.slot);
      if (collection.empty) collection.entry.title = titleOf(texts);
      collection.add(texts);
      await this.#changed(collection);
      if (!this.slot.firstChild) showError(this.slot, this.#noModel(), this.actions);
      return true;
    }
    const begun = [...(this.growing === collection ? collection.unfinished : []), ...(this.awaited?.collection === collection ? this.awaited.texts : [])];
    texts = [...new Set([...begun, ...texts])]; // what is being added goes on
    const awaited = (this.awaited = { collection, texts });
    await this.button.interrupt();
    let whole = false;
    this.over = this.button.run(async (signal) => {
      const { model, known } = await this.#model(signal);
      const by = { title: model.title, probe: known.probe };
      const fits = collection.fits(by.probe);
      if (!fits && !replace) {
        throw new UserError(`This collection was made with ${collection.by?.title}.`, { hint: "Begin a new collection, or choose that model again." });
      }
      const before = fits ? collection.passages.length : 0;
      if (collection.empty) collection.entry.title = titleOf(texts);
      collection.add(texts);
      this.awaited = null;
      this.growing = collection;
      if (collection === this.collection) {
        this.#showTexts();
        this.#showEmpty();
        this.#tell("");
      }
      try {
        await this.#save(collection);
        await this.card.refresh(this.collection.id);
        whole = await this.#index(model, collection, fits ? texts.filter(({ rest }) => rest !== undefined) : collection.texts.filter(({ text }) => text.trim()), by, signal);
      } finally {
        if (this.growing === collection) await this.#save(collection);
        this.growing = null;
      }
      if (whole) this.announcer.say(`${counted(texts.length, "text")} added, ${counted(collection.passages.length - before, "passage")}.`);
    }, { fail: () => {}, retry: () => this.#addTo(collection, texts, replace) });
    await this.over;
    if (this.awaited === awaited) this.awaited = null;
    this.progress.hide();
    if (collection === this.collection) {
      this.#show(collection);
      if (!whole && collection.unfinished.length && !this.slot.firstChild) this.announcer.say(`Stopped. ${byId("search-note").firstChild?.textContent}`);
    }
    await this.card.refresh(this.collection.id);
    return whole;
  }

  /**
   * Splits texts of a collection and embeds their passages, from where each has them.
   * @param {ListedModel} model @param {Collection} collection @param {KeptText[]} texts @param {import("./collection.js").EmbeddedBy} by @param {AbortSignal} signal
   * @returns {Promise<boolean>} false: it was stopped
   */
  async #index(model, collection, texts, by, signal) {
    const total = lengthOf(texts);
    const begun = performance.now();
    let [done, number, saved] = [0, 1, begun];
    /** @type {number | null} */
    let started = null;
    for (const group of groupsOf(texts)) {
      const [which, length] = [texts.length > 1 ? ` text ${number} of ${texts.length.toLocaleString("en")}` : "", lengthOf(group)];
      /** @type {any[]} */
      const items = [];
      const keep = () => collection.extend(group, items.splice(0), by);
      const onEvent = (/** @type {TaskEvent} */ event) => {
        if (event.type === "progress" && event.what === "embedding") {
          const now = done + (length * event.done) / (event.total ?? 1);
          started ??= now; // of a text that goes on
          this.progress.show(`Embedding${which}${timeLeft(performance.now() - begun, (now - started) / (total - started))}`, now, total);
        } else if (event.type === "progress") this.progress.show(`${event.what}…`, event.done, event.total);
        if (event.type !== "item") return;
        items.push(event);
        if (performance.now() - saved < SAVE_EVERY || this.growing !== collection) return;
        keep();
        this.#save(collection);
        saved = performance.now();
      };
      const start = collection.fits(by.probe) ? group[0].rest ?? 0 : 0;
      const params = { model: model.id, arguments: [group.map(({ text }) => text)], options: { ...this.options, prompt: this.prompt("passage"), start } };
      try {
        const { reason } = await this.engine.call("search.index", params, { signal, onEvent });
        if (reason === "cancelled") return false;
      } finally {
        keep();
      }
      group.forEach(finish);
      [done, number] = [done + length, number + group.length];
    }
    return true;
  }

  /** All texts of the collection by the model in use. */
  embedAgain() {
    return this.#addTo(this.collection, this.collection.texts, true);
  }

  /** @param {number} index */
  async removeText(index) {
    await this.button.interrupt();
    const { collection } = this;
    const { name } = collection.texts[index];
    this.removed.push({ name, back: collection.remove(index) });
    await this.#changed(collection);
    this.#offerUndo();
  }

  /** @param {Collection} collection whose texts have changed */
  async #changed(collection) {
    await this.#save(collection);
    this.#show(collection);
    await this.card.refresh(this.collection.id);
  }

  /** Offers to bring back the text that was removed last, behind what else there is to say. */
  #offerUndo() {
    const last = this.removed.at(-1);
    if (!last) return;
    const undo = h("button", { type: "button", class: "quiet", onclick: async () => {
      await this.button.interrupt();
      const at = present(this.removed.pop(), "the removed text").back();
      await this.#changed(this.collection);
      find(this.texts.children[at], "button").focus(); // the button that was pressed goes away
      this.announcer.say(`${last.name} is back.`);
      this.#offerUndo();
    } }, "Undo");
    byId("search-note").append(` “${last.name}” is removed. `, undo);
    byId("search-note").hidden = false;
  }

  /** @param {Collection} collection */
  async #save(collection) {
    collection.entry.about = aboutOf(collection.passages.length);
    try {
      await this.store.put(collection.entry, collection.content, { files: collection.files });
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  #noModel() {
    return new UserError("There is no model to compare texts with.", { hint: "Choose one: it is downloaded once, then stored here.", action: "models" });
  }

  /** Waits until the chosen model is loaded. @param {AbortSignal} signal */
  async #model(signal) {
    await this.app.listed(signal);
    const { model } = this.choice;
    if (!model) throw this.#noModel();
    if (this.known?.model !== model.id) {
      if (!this.loading) this.prepared = this.#load((this.loading = model));
      await Promise.race([this.prepared, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    }
    throwIfCancelled(signal);
    const { known } = this;
    if (known?.model !== model.id) throw new UserError("The model could not be loaded.", { where: model.title, hint: "Choose another one.", action: "models" });
    return { model, known };
  }

  /** @param {string[]} texts @param {string} prompt @param {AbortSignal} signal */
  async #embed(texts, prompt, signal) {
    const { model } = await this.#model(signal);
    /** @type {Float32Array[]} */
    const vectors = [];
    const onEvent = (/** @type {TaskEvent} */ event) => event.type === "item" && (vectors[event.index] = floats(event.embedding));
    await this.engine.call("search.embed", { model: model.id, arguments: [texts], options: { prompt } }, { signal, onEvent });
    throwIfCancelled(signal);
    return vectors;
  }

  /** Finds the passages that are nearest to the question, then the best sentence of each. */
  async find() {
    const question = byId("search-question").value.trim();
    if (!question) return byId("search-question").focus();
    const { collection } = this;
    this.over = this.button.run(async (signal) => {
      if (!collection.passages.length && !collection.unfinished.length) throw new UserError("There is no text to search.", { hint: "Add texts first." });
      await this.#model(signal);
      if (!collection.passages.length) throw new UserError("The texts cannot be searched yet.", { hint: "Press “Add the rest” first." });
      if (!this.#checkModel()) throw new UserError(`This collection was made with ${collection.by?.title ?? "another model"}.`, { hint: "Choose that model again, or embed the texts again." });
      const [vector] = await this.#embed([question], this.prompt("query"), signal);
      this.question = question;
      this.found = collection.ranked(vector);
      this.#showEmpty();
      this.#showResults(PAGE);
      this.announcer.say(`${counted(Math.min(PAGE, this.found.length), "passage")} found.`);
      await this.#mark(signal);
    }, { fail: () => {}, retry: () => this.find() });
    await this.over;
  }

  /** @param {number} number */
  #showResults(number) {
    this.shown = Math.min(number, this.found.length);
    this.results.show(this.collection, this.found.slice(0, this.shown));
    byId("search-more").hidden = this.shown >= this.found.length;
    const unmarked = this.found.slice(0, this.shown).some(({ best }) => !best);
    if (unmarked && !this.button.running) this.over = this.button.run((signal) => this.#mark(signal), { fail: () => {}, retry: () => this.#showResults(number) });
  }

  /** Marks the sentence of each shown passage that is nearest to the question. @param {AbortSignal} signal */
  async #mark(signal) {
    const { collection, found } = this;
    const wanted = found.slice(0, this.shown).filter(({ best }) => !best);
    const texts = wanted.map(({ text, start, end }) => collection.slice(text, start, end));
    const onEvent = (/** @type {TaskEvent} */ event) => event.type === "item" && (wanted[event.index].best = { start: event.start, end: event.end });
    const options = { query_prompt: this.prompt("query"), prompt: this.prompt("passage") };
    await this.engine.call("search.sentences", { model: this.choice.present.id, arguments: [this.question, texts], options }, { signal, onEvent });
    if (this.found === found && this.collection === collection) this.results.show(collection, found.slice(0, this.shown));
  }

  /** The similarity of two texts. */
  async compare() {
    const fields = [byId("compare-one"), byId("compare-two")];
    const empty = fields.find(({ value }) => !value.trim());
    if (empty) return empty.focus();
    const texts = fields.map(({ value }) => value.trim());
    const result = byId("compare-result");
    result.textContent = "";
    if (this.button.running) return void (result.textContent = "The model is at work. Compare when it is done, or press Stop first.");
    this.over = this.button.run(async (signal) => {
      const [one, two] = await this.#embed(texts, this.prompt("passage"), signal);
      const score = cosine(one, two);
      result.textContent = `${Math.round(score * 100)} % alike (cosine ${score.toFixed(3)}; 1 is the same meaning, 0 nothing in common).`;
    }, { fail: () => {}, retry: () => this.compare() });
    await this.over;
  }
}

/** A collection's first name, of its first text or folder. @param {KeptText[]} texts */
function titleOf(texts) {
  const [first] = texts[0].name.split("/");
  const others = texts.filter(({ name }) => name.split("/")[0] !== first).length;
  return `${beginningOf(first, 60) || "Texts"}${others ? ` and ${others.toLocaleString("en")} more` : ""}`;
}

/** How long work takes yet, once that can be told. @param {number} spent ms @param {number} share that is done */
function timeLeft(spent, share) {
  if (spent < PATIENCE || !(share > 0)) return "";
  const seconds = (spent * (1 - share)) / share / 1000;
  if (seconds < 10) return "";
  return `, about ${seconds < 90 ? `${Math.ceil(seconds / 10) * 10} s` : `${Math.round(seconds / 60)} min`} left`;
}

/** @param {KeptText[]} texts */
const lengthOf = (texts) => texts.reduce((sum, { text }) => sum + text.length, 0);

/** Texts in groups for one request each; one of which a part is embedded comes first. @param {KeptText[]} texts @returns {KeptText[][]} */
function groupsOf(texts) {
  /** @type {KeptText[][]} */
  const groups = [];
  let characters = Infinity;
  for (const one of texts) {
    const { length } = one.text;
    if (characters + length > GROUP || one.rest) {
      groups.push([]);
      characters = 0;
    }
    groups[groups.length - 1].push(one);
    characters += length;
  }
  return groups;
}
