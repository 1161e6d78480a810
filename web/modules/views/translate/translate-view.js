/**
 * The translate view: a text, and what a model writes for each of its parts: a translation or a summary. Loaded when it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {{start: number, end: number, text: string}} Part characters of the source, and what was written for them
 * @typedef {{source: string, parts: Part[], reason: string, model: string, language: string}} Translation what is kept; `language`: the code of the written one, or ""
 */
import { byId, copyText } from "../../page/dom.js";
import { listenButton } from "../../page/listen-button.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { saveFile } from "../../page/save-file.js";
import { TextView } from "../../page/text-view.js";
import { counted } from "../../shared/words.js";
import { buildTranslate } from "./translate-parts.js";

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

/** @extends {TextView<Translation>} */
export default class TranslateView extends TextView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildTranslate(view);
    super(app, models, view, "translate", "Translating", "translation", "translations", { files: MODEL_FILES, offered: OFFERED });
    this.prefix = byId("translate-prefix");
    this.settings = new RememberedFields("translate-settings", { division: byId("translate-division") }, INITIAL);
    this.#listen();
    this.start();
  }

  #listen() {
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
  }

  /** What was written. */
  get text() {
    return this.result ? written(this.result) : "";
  }

  // -- the model

  /** @param {ListedModel} model */
  loading({ id }) {
    this.prefix.value = this.settings.values.prefixes?.[id] ?? "";
  }

  /** Shows its languages. @param {ListedModel} _model @param {{languages?: string[], prefixes?: string[]}} known */
  knows(_model, { languages = [], prefixes = [] }) {
    this.#showLanguages(languages);
    byId("translate-prefixes").replaceChildren(...prefixes.map((prefix) => new Option(prefix, prefix)));
    const untold = prefixes.length > 0 && !this.prefix.value;
    byId("translate-note").textContent = untold ? `This model is told what to do. Write it in the settings, “Before each part”, such as “${prefixes.at(-1)}”.` : "";
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

  /** @param {ListedModel} model @param {string} source @param {AbortSignal} signal */
  async work(model, source, signal) {
    const { options } = this;
    /** @type {Translation} */
    const translation = { source, parts: [], reason: "cancelled", model: model.title, language: "target" in options ? plainCode(options.target) : "" };
    this.announcer.say("Writing.");
    await this.make(translation, { model: model.id, text: source, options }, (event) => this.#event(translation, event), signal);
    const { parts, reason } = translation;
    this.announcer.say(reason === "complete" ? `Finished. ${counted(parts.length, "part")} written.` : `Stopped. ${counted(parts.length, "part")} written.`);
  }

  /** @param {Translation} translation @param {TaskEvent} event */
  #event(translation, event) {
    if (event.type !== "item") return this.tell(event, "parts", "% parts are written");
    const { start, end, text } = /** @type {any} */ (event);
    translation.parts.push({ start, end, text });
    if (this.result === translation) this.show(translation, true);
  }

  /** @param {Translation | null} translation @param {boolean} running more of it is being written */
  show(translation, running) {
    const text = translation ? written(translation) : "";
    const output = byId("translate-output");
    output.textContent = text;
    output.lang = translation?.language ?? "";
    output.hidden = !text;
    this.showState(text !== "", running, translation?.reason ?? "");
  }

  // -- what is kept

  /** @param {Translation} translation */
  textOf({ source }) {
    return source;
  }

  /** @param {Translation} translation */
  aboutOf({ parts }) {
    return parts.length ? counted(parts.length, "part") : "";
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  filesOf({ content }) {
    return [textFile("translation.txt", written(content)), textFile("text.txt", content.source)];
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
