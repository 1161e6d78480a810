/**
 * The translate view: a text, and what a model writes for each of its parts: a translation or a summary. Loaded when it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {{start: number, end: number, text: string}} Part characters of the source, and what was written for them
 * @typedef {{source: string, parts: Part[], reason: string, model: string, language: string}} Translation what is kept; `language`: the code of the written one, or ""
 */
import { HistoryStore } from "../../history/history-store.js";
import { byId, copyText, showRows, tabMemory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { listenButton } from "../../page/listen-button.js";
import { hubRow } from "../../page/offer-row.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { saveFile } from "../../page/save-file.js";
import { isShown } from "../../page/shell.js";
import { TextField } from "../../page/text-field.js";
import { WorkingView } from "../../page/working-view.js";
import { loadStyle } from "../../shared/site-parts.js";
import { counted, titleOf } from "../../shared/words.js";
import { buildTranslate } from "./translate-parts.js";

const SHOWN = "translate-shown"; // the translation that a reload of this tab shows again
const MODEL_FILES = /\.(safetensors|gguf|bin|spm|model)$|^(config|tokenizer|vocab)\.json$/i;
/** @type {Record<string, any>} */
const INITIAL = { division: "sentences" };
/** Models of the hub; their sizes are about those of the weights. */
const OFFERED = [
  { name: "Helsinki-NLP/opus-mt-en-de", about: "English to German", size: "300 MB" },
  { name: "Helsinki-NLP/opus-mt-en-fr", about: "English to French", size: "300 MB" },
  { name: "Helsinki-NLP/opus-mt-en-es", about: "English to Spanish", size: "310 MB" },
  { name: "Helsinki-NLP/opus-mt-mul-en", about: "many languages to English", size: "310 MB" },
  { name: "google-t5/t5-small", about: "several tasks", size: "240 MB" },
  { name: "facebook/m2m100_418M", about: "100 languages", size: "1.9 GB" },
];
/** By the reason of the end. @type {Record<string, string>} */
const ENDINGS = { complete: "", cancelled: "You stopped it here.", failed: "It ended here, before the end of the text." };

/**
 * @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models
 * @param {HTMLElement} view an empty section @returns {Promise<TranslateView>} the view with its style
 */
export async function openTranslate(app, models, view) {
  await loadStyle("css/translate.css");
  return new TranslateView(app, models, view);
}

class TranslateView extends WorkingView {
  /** As openTranslate. @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildTranslate(view);
    super(app, models, view, "translate", "run", "Translating");
    this.field = new TextField("translate");
    this.prefix = byId("translate-prefix");
    this.settings = new RememberedFields("translate-settings", { division: byId("translate-division") }, INITIAL);
    this.store = new HistoryStore("translation");
    /** The entry of what is shown. @type {import("../../history/history-store.js").HistoryEntry | null} */
    this.entry = null;
    /** What is shown. @type {Translation | null} */
    this.translation = null;
    /** The model that is loaded, by id. @type {string | null} */
    this.loaded = null;
    /** When it is loaded. @type {Promise<void>} */
    this.prepared = Promise.resolve();
    this.card = this.historyCard(this.store, {
      name: "translations",
      open: (item) => this.open(item),
      renamed: (id, title) => this.entry?.id === id && (this.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.#save(),
      filesOf: async ({ content }) => [textFile("translation.txt", written(content)), textFile("text.txt", content.source)],
    });
    this.showModel();
    this.#listen();
    this.ready = this.#restore();
  }

  get choice() {
    return this.app.choices.translate;
  }

  #listen() {
    byId("translate-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.translate();
    });
    const { values } = this.settings;
    this.prefix.addEventListener("change", () => {
      if (this.prefix.value) byId("translate-note").replaceChildren();
      values.prefixes = { ...values.prefixes, [this.choice.model?.id ?? ""]: this.prefix.value };
      this.settings.store();
    });
    for (const name of /** @type {const} */ (["from", "to"])) {
      byId(`translate-${name}`).addEventListener("change", ({ target }) => {
        values[name] = plainCode(/** @type {HTMLSelectElement} */ (target).value);
        this.settings.store();
      });
    }
    byId("translate-copy").addEventListener("click", () => copyText(byId("translate-copy"), this.text, byId("translate-output")));
    byId("translate-save").addEventListener("click", () => saveFile("translation.txt", textFile("", this.text).blob));
    byId("translate-actions").append(listenButton(this.app, this.models, this.slot, () => this.text, "Listen to the translation"));
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.#save());
    addEventListener("beforeunload", (event) => {
      if (this.store.loses(this.entry)) event.preventDefault(); // the browser asks whether to leave
    });
  }

  /** What was written. */
  get text() {
    return this.translation ? written(this.translation) : "";
  }

  // -- the model

  offer() {
    byId("translate-offer").hidden = this.choice.model !== null;
    showRows(byId("translate-offer-list"), OFFERED.map((model) => hubRow(model, this.choice, this.models)));
  }

  /** Loads the chosen model before it is needed, and shows the languages that it knows. */
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
    this.prefix.value = this.settings.values.prefixes?.[model.id] ?? "";
    try {
      const onEvent = (/** @type {TaskEvent} */ event) => event.type === "progress" && this.progress.show(`${event.what}…`, event.done, event.total);
      const known = await this.engine.call("translate.load", { model: model.id }, { onEvent });
      const { languages = [], prefixes = [] } = /** @type {{languages?: string[], prefixes?: string[]}} */ (known);
      if (!this.choice.uses(model)) return;
      this.#showLanguages(languages);
      byId("translate-prefixes").replaceChildren(...prefixes.map((prefix) => new Option(prefix, prefix)));
      const untold = prefixes.length > 0 && !this.prefix.value;
      byId("translate-note").textContent = untold ? `This model is told what to do. Write it in the settings, “Before each part”, such as “${prefixes.at(-1)}”.` : "";
    } catch (error) {
      if (this.loaded === model.id) this.loaded = null;
      if (this.choice.uses(model)) showError(this.slot, error, this.actions);
    } finally {
      if (!this.button.running) this.progress.hide();
    }
  }

  /** @param {string[]} codes none: the model is for one pair of languages, or is told in words */
  #showLanguages(codes) {
    const named = codes.map((code) => ({ code, name: nameOf(code) })).sort((a, b) => a.name.localeCompare(b.name, "en"));
    const { from = "en", to = navigator.language.split("-")[0] } = this.settings.values;
    for (const [name, wanted] of [["from", from], ["to", to === from ? "de" : to]]) {
      const select = /** @type {HTMLSelectElement} */ (byId(`translate-${name}`));
      select.replaceChildren(...named.map(({ code, name: label }) => new Option(label, code)));
      const code = codes.find((one) => plainCode(one) === wanted) ?? codes.find((one) => sameLanguage(one, wanted));
      if (code) select.value = code;
    }
    byId("translate-languages").hidden = codes.length === 0;
  }

  // -- the work

  /** The options of tasks.translate_text. */
  get options() {
    const options = { division: this.settings.values.division, prefix: this.prefix.value };
    if (byId("translate-languages").hidden) return options;
    return { ...options, source: byId("translate-from").value, target: byId("translate-to").value };
  }

  /** Translates what is in the field. */
  async translate() {
    const source = this.field.value;
    if (!source.trim()) return this.field.focus();
    const below = byId("translate-foot").contains(document.activeElement); // it is hidden until the first part
    if (below) this.button.button.focus();
    this.over = this.button.run(async (signal) => {
      await this.app.listed(signal);
      const model = this.choice.present;
      if (this.loaded !== model.id) this.prepared = this.#load(model);
      await this.prepared;
      if (this.loaded !== model.id) return; // the error is shown
      signal.throwIfAborted();
      const { options } = this;
      /** @type {Translation} */
      const translation = { source, parts: [], reason: "cancelled", model: model.title, language: "target" in options ? plainCode(options.target) : "" };
      this.#begin(translation);
      try {
        const onEvent = (/** @type {TaskEvent} */ event) => this.#event(translation, event);
        const { reason = "complete" } = await this.engine.call("translate", { model: model.id, text: source, options }, { signal, onEvent });
        translation.reason = reason;
      } catch (error) {
        translation.reason = signal.aborted ? "cancelled" : "failed";
        throw error;
      } finally {
        if (this.translation === translation) this.#show(translation, false);
        await this.#save();
      }
      const { parts, reason } = translation;
      this.announcer.say(reason === "complete" ? `Finished. ${counted(parts.length, "part")} written.` : `Stopped. ${counted(parts.length, "part")} written.`);
    }, { fail: () => {}, retry: () => this.translate() });
    await this.over;
    this.progress.hide();
    this.load(); // another model may have been chosen meanwhile
  }

  /** @param {Translation} translation a new one */
  #begin(translation) {
    this.translation = translation;
    this.entry = this.store.begin("");
    byId("translate-note").replaceChildren();
    this.#show(translation, true);
    this.progress.show("Reading the text…");
    this.announcer.say("Writing.");
  }

  /** @param {Translation} translation @param {TaskEvent} event */
  #event(translation, event) {
    if (event.type === "item") {
      const { start, end, text } = /** @type {any} */ (event);
      translation.parts.push({ start, end, text });
      if (this.translation === translation) this.#show(translation, true);
    } else if (event.type === "progress") {
      this.progress.show(event.what === "parts" ? `Part ${event.done.toLocaleString("en")} of ${(event.total ?? 0).toLocaleString("en")} is written` : `${event.what}…`, event.done, event.total);
    } else if (event.type === "notice") byId("translate-note").replaceChildren(`${event.what.charAt(0).toUpperCase()}${event.what.slice(1)}.${event.hint ? ` ${event.hint}.` : ""}`);
  }

  /** @param {Translation} translation @param {boolean} running more of it is being written */
  #show(translation, running) {
    const text = written(translation);
    const output = byId("translate-output");
    output.textContent = text;
    output.lang = translation.language;
    output.hidden = !text;
    byId("translate-empty").hidden = text !== "" || running;
    byId("translate-sheet").dataset.state = text ? "done" : "empty";
    byId("translate-foot").hidden = !text;
    byId("translate-ending").textContent = running ? "" : ENDINGS[translation.reason] ?? "";
  }

  // -- what is kept

  /** Stores what is shown. */
  async #save() {
    const { translation, entry } = this;
    if (!translation?.parts.length || !entry) return;
    entry.title ||= titleOf(translation.source);
    entry.about = counted(translation.parts.length, "part");
    try {
      await this.store.put(entry, translation);
      if (this.entry === entry) tabMemory.set(SHOWN, entry.id);
      await this.card.refresh(this.entry?.id ?? null);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** Shows an entry of the history. @param {import("../../history/history-store.js").HistoryItem} item */
  async open({ entry, content }) {
    await this.button.interrupt();
    [this.entry, this.translation] = [entry, content];
    tabMemory.set(SHOWN, entry.id);
    this.field.type(content.source);
    clearError(this.slot);
    this.#show(content, false);
    await this.card.refresh(entry.id);
  }

  /** @param {string} id of an entry that was deleted */
  async #removed(id) {
    if (this.entry?.id !== id) return;
    await this.button.interrupt();
    [this.entry, this.translation] = [null, null];
    tabMemory.set(SHOWN, null);
    this.#show({ source: "", parts: [], reason: "", model: "", language: "" }, false);
  }

  /** Shows what this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get(SHOWN);
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (!item || this.translation || this.button.running) return;
    const typed = this.field.value;
    await this.open(item);
    if (typed && typed !== item.content.source) this.field.type(typed);
  }

  /** What was dropped on the page: a text, or the files of a model. @param {File[]} files @param {string} [folder] */
  async drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.attempt(() => this.field.take(files[0]));
  }
}

/** What was written, with the spaces and lines between the parts of the source. @param {Translation} translation */
function written({ source, parts }) {
  return parts.map(({ start, text }, i) => (i ? source.slice(parts[i - 1].end, start) || " " : "") + text).join("");
}

/** @param {string} name @param {string} text */
const textFile = (name, text) => ({ name, blob: new Blob([`${text}\n`], { type: "text/plain" }) });

/** The code in the token of a language: "de" of "__de__" and "de_DE", "deu-Latn" of "deu_Latn". @param {string} token */
const plainCode = (token) => token.replace(/^__|__$/g, "").replace(/^([a-z]{2})_[A-Z]{2}$/, "$1").replace("_", "-");

/** Whether a token is of a language, whose code has two or three letters. @param {string} token @param {string} wanted */
const sameLanguage = (token, wanted) => new Intl.Locale(plainCode(token)).language === new Intl.Locale(wanted).language;

/** The name of a language in English. @param {string} token */
function nameOf(token) {
  const code = plainCode(token);
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code) ?? code;
  } catch {
    return code; // no code of a language
  }
}
