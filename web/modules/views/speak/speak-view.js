/**
 * The speak view: a text, and its speech: heard while it is computed, then in a player; saved as WAV. Loaded when it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {{text: string, start: number, end: number}} Sentence times in seconds
 * @typedef {{text: string, sentences: Sentence[], rate: number, reason: string, model: string, voice: string}} Spoken what is kept, beside the sound; `rate`: samples a second
 */
import { SoundQueue, samplesOf } from "../../audio/sound-queue.js";
import { wavOf } from "../../audio/wav-writer.js";
import { HistoryStore } from "../../history/history-store.js";
import { byId, h, showRows, tabMemory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { hubRow } from "../../page/offer-row.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { saveFile } from "../../page/save-file.js";
import { isShown } from "../../page/shell.js";
import { TextField } from "../../page/text-field.js";
import { WorkingView } from "../../page/working-view.js";
import { loadStyle } from "../../shared/site-parts.js";
import { counted, titleOf } from "../../shared/words.js";
import { buildSpeak } from "./speak-parts.js";

const SHOWN = "speak-shown"; // the speech that a reload of this tab shows again
const SOUND = "speech.wav"; // the file of an entry
const MODEL_FILES = /\.(safetensors|bin|pth|pt)$|^(config|vocab|tokenizer_config)\.json$/i;
/** @type {Record<string, any>} */
const INITIAL = { rate: "1", pause: 0.2, seed: 0, play: true };
/** Models of the hub; their sizes are about those of the weights. */
const OFFERED = [
  { name: "hexgrad/Kokoro-82M", about: "English, 28 voices", size: "340 MB" },
  { name: "facebook/mms-tts-eng", about: "English", size: "145 MB" },
  { name: "facebook/mms-tts-deu", about: "German", size: "145 MB" },
  { name: "facebook/mms-tts-fra", about: "French", size: "145 MB" },
  { name: "facebook/mms-tts-spa", about: "Spanish", size: "145 MB" },
];
/** By the reason of the end. @type {Record<string, string>} */
const ENDINGS = { complete: "", cancelled: "You stopped it here.", failed: "It ended here, before the end of the text." };
/** By the first two letters of the voices of Kokoro. @type {Record<string, string>} */
const KINDS = { af: "American, female", am: "American, male", bf: "British, female", bm: "British, male" };

/**
 * @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models
 * @param {HTMLElement} view an empty section @returns {Promise<SpeakView>} the view with its style
 */
export async function openSpeak(app, models, view) {
  await loadStyle("css/speak.css");
  return new SpeakView(app, models, view);
}

class SpeakView extends WorkingView {
  /** As openSpeak. @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildSpeak(view);
    super(app, models, view, "speak", "run", "Speaking");
    this.field = new TextField("speak");
    this.player = byId("speak-player");
    this.voice = byId("speak-voice");
    this.settings = new RememberedFields("speak-settings", { rate: byId("speak-rate"), pause: byId("speak-pause"), seed: byId("speak-seed"), play: byId("speak-play") }, INITIAL);
    this.store = new HistoryStore("speech");
    /** The entry of what is shown. @type {import("../../history/history-store.js").HistoryEntry | null} */
    this.entry = null;
    /** What is shown. @type {Spoken | null} */
    this.spoken = null;
    /** Its sound, a WAVE file. @type {Blob | null} */
    this.sound = null;
    /** The model that was asked what voices it has, by id. @type {string | null} */
    this.loaded = null;
    /** When it is loaded. @type {Promise<void>} */
    this.prepared = Promise.resolve();
    this.card = this.historyCard(this.store, {
      name: "speeches",
      open: (item) => this.open(item),
      renamed: (id, title) => this.entry?.id === id && (this.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.#save(),
      filesOf: async ({ content, files }) => [...files, { name: "text.txt", blob: new Blob([`${content.text}\n`], { type: "text/plain" }) }],
    });
    this.showModel();
    this.#listen();
    this.ready = this.#restore();
  }

  get choice() {
    return this.app.choices.speak;
  }

  #listen() {
    byId("speak-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.speak();
    });
    this.voice.addEventListener("change", () => {
      const { values } = this.settings;
      values.voices = { ...values.voices, [this.choice.model?.id ?? ""]: this.voice.value };
      this.settings.store();
    });
    this.player.addEventListener("timeupdate", () => this.#mark());
    byId("speak-output").addEventListener("click", ({ target }) => {
      const at = /** @type {HTMLElement} */ (target).dataset.start;
      if (at === undefined || this.player.hidden || !getSelection()?.isCollapsed) return;
      this.player.currentTime = Number(at);
      this.player.play().catch(() => {}); // it can be played by its own button
    });
    byId("speak-save").addEventListener("click", () => this.sound && saveFile(SOUND, this.sound));
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.#save());
    addEventListener("beforeunload", (event) => {
      if (this.store.loses(this.entry)) event.preventDefault(); // the browser asks whether to leave
    });
  }

  // -- the model

  offer() {
    byId("speak-offer").hidden = this.choice.model !== null;
    showRows(byId("speak-offer-list"), OFFERED.map((model) => hubRow(model, this.choice, this.models)));
  }

  /** Loads the chosen model before it is needed, and shows the voices that it has. */
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
    try {
      const onEvent = (/** @type {TaskEvent} */ event) => event.type === "progress" && this.progress.show(`${event.what}…`, event.done, event.total);
      const known = await this.engine.call("speak.load", { model: model.id }, { onEvent });
      const { voices = [], speakers = 1 } = /** @type {{voices?: string[], speakers?: number}} */ (known);
      if (this.choice.uses(model)) this.#showVoices(model.id, voices, speakers);
    } catch (error) {
      if (this.loaded === model.id) this.loaded = null;
      if (this.choice.uses(model)) showError(this.slot, error, this.actions);
    } finally {
      if (!this.button.running) this.progress.hide();
    }
  }

  /** @param {string} id of the model @param {string[]} names of its voices; none: they have numbers @param {number} count of its voices */
  #showVoices(id, names, count) {
    const all = names.length ? names.map((name) => new Option(nameOf(name), name)) : Array.from({ length: count }, (_, i) => new Option(`Voice ${i + 1}`, String(i)));
    this.voice.replaceChildren(...all);
    const chosen = this.settings.values.voices?.[id];
    if (all.some(({ value }) => value === chosen)) this.voice.value = chosen;
    byId("speak-voices").hidden = count < 2;
    this.numbered = !names.length;
  }

  // -- the work

  /** The options of tasks.speak. */
  get options() {
    const { rate, pause, seed } = this.settings.values;
    const options = { pause, seed, ...(rate !== "1" && { rate: Number(rate) }) };
    if (byId("speak-voices").hidden) return options;
    return this.numbered ? { ...options, speaker: Number(this.voice.value) } : { ...options, voice: this.voice.value };
  }

  /** Speaks what is in the field. */
  async speak() {
    const text = this.field.value;
    if (!text.trim()) return this.field.focus();
    const below = byId("speak-foot").contains(document.activeElement); // it is hidden until the first sentence
    if (below) this.button.button.focus();
    const aloud = this.settings.values.play ? new AudioContext() : null; // browsers let a page play what begins with a press
    this.player.pause();
    this.over = this.button.run(async (signal) => {
      const queue = aloud && new SoundQueue(aloud, signal);
      try {
        await this.app.listed(signal);
        const model = this.choice.present;
        if (this.loaded !== model.id) this.prepared = this.#load(model);
        await this.prepared;
        if (this.loaded !== model.id) return; // the error is shown
        signal.throwIfAborted();
        await this.#compute(model, text, queue, signal);
        await queue?.ended();
        queue?.check("Speak");
      } finally {
        aloud?.close();
      }
    }, { fail: () => {}, retry: () => this.speak() });
    await this.over;
    this.progress.hide();
    this.load(); // another model may have been chosen meanwhile
  }

  /** @param {ListedModel} model @param {string} text @param {SoundQueue | null} queue plays it @param {AbortSignal} signal */
  async #compute(model, text, queue, signal) {
    /** @type {Spoken} */
    const spoken = { text, sentences: [], rate: 0, reason: "cancelled", model: model.title, voice: byId("speak-voices").hidden ? "" : this.voice.value };
    /** @type {Blob[]} */
    const pieces = [];
    this.#begin(spoken);
    try {
      const onEvent = (/** @type {TaskEvent} */ event) => this.#event(spoken, pieces, queue, event);
      const { reason = "complete" } = await this.engine.call("speak", { model: model.id, text, options: this.options }, { signal, onEvent });
      spoken.reason = reason;
    } catch (error) {
      spoken.reason = signal.aborted ? "cancelled" : "failed";
      throw error;
    } finally {
      if (this.spoken === spoken) {
        this.sound = pieces.length ? wavOf(pieces, spoken.rate) : null;
        this.#show(spoken, false);
      }
      await this.#save();
    }
    const seconds = counted(Math.round(spoken.sentences.at(-1)?.end ?? 0), "second");
    this.announcer.say(spoken.reason === "complete" ? `Finished: ${seconds} of speech.` : `Stopped after ${seconds} of speech.`);
  }

  /** @param {Spoken} spoken a new one */
  #begin(spoken) {
    [this.spoken, this.sound] = [spoken, null];
    this.entry = this.store.begin("");
    byId("speak-note").replaceChildren();
    this.#show(spoken, true);
    this.progress.show("Reading the text…");
    this.announcer.say("Computing the speech.");
  }

  /** @param {Spoken} spoken @param {Blob[]} pieces @param {SoundQueue | null} queue @param {TaskEvent} event */
  #event(spoken, pieces, queue, event) {
    if (event.type === "sound") {
      const samples = samplesOf(event.pcm);
      pieces.push(new Blob([samples]));
      spoken.rate = event.rate;
      const sentence = { text: event.text, start: event.start, end: event.end };
      spoken.sentences.push(sentence);
      if (queue && !queue.mute && !queue.signal.aborted) queue.add(samples, event.rate);
      if (this.spoken !== spoken) return;
      if (spoken.sentences.length === 1) this.#show(spoken, true);
      else byId("speak-output").append(...shownAs(sentence, 1));
    } else if (event.type === "progress") {
      this.progress.show(event.what === "speaking" ? `${event.done.toLocaleString("en")} of ${(event.total ?? 0).toLocaleString("en")} characters are spoken` : `${event.what}…`, event.done, event.total);
    } else if (event.type === "notice") byId("speak-note").replaceChildren(`${event.what[0].toUpperCase()}${event.what.slice(1)}.${event.hint ? ` ${event.hint}.` : ""}`);
  }

  /** @param {Spoken} spoken @param {boolean} running more of it is being computed */
  #show(spoken, running) {
    const { sentences, reason } = spoken;
    const output = byId("speak-output");
    output.replaceChildren(...sentences.flatMap((sentence, i) => shownAs(sentence, i)));
    output.hidden = !sentences.length;
    byId("speak-empty").hidden = sentences.length > 0 || running;
    byId("speak-sheet").dataset.state = sentences.length ? "done" : "empty";
    byId("speak-foot").hidden = !sentences.length;
    byId("speak-save").hidden = running || !this.sound;
    byId("speak-ending").textContent = running ? "" : ENDINGS[reason] ?? "";
    this.#play(running ? null : this.sound);
  }

  /** Puts a sound into the player. @param {Blob | null} sound */
  #play(sound) {
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = sound && URL.createObjectURL(sound);
    if (this.address) this.player.src = this.address;
    else this.player.removeAttribute("src");
    this.player.hidden = !this.address;
  }

  /** Marks the sentence that is heard. */
  #mark() {
    const { currentTime, paused, ended } = this.player;
    const at = this.spoken?.sentences.findIndex(({ end }) => currentTime < end) ?? -1;
    const spans = byId("speak-output").querySelectorAll("span");
    spans.forEach((span, i) => span.classList.toggle("heard", i === at && !ended && (currentTime > 0 || !paused)));
  }

  // -- what is kept

  /** Stores what is shown. */
  async #save() {
    const { spoken, entry, sound } = this;
    if (!spoken?.sentences.length || !entry || !sound) return;
    entry.title ||= titleOf(spoken.text);
    entry.about = counted(Math.round(spoken.sentences.at(-1)?.end ?? 0), "second");
    const files = [{ name: SOUND, blob: sound }];
    try {
      await this.store.put(entry, spoken, entry.revision ? { allFiles: files } : { files });
      if (this.entry === entry) tabMemory.set(SHOWN, entry.id);
      await this.card.refresh(this.entry?.id ?? null);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** Shows an entry of the history. @param {import("../../history/history-store.js").HistoryItem} item */
  async open({ entry, content, files }) {
    await this.button.interrupt();
    [this.entry, this.spoken, this.sound] = [entry, content, files.find(({ name }) => name === SOUND)?.blob ?? null];
    tabMemory.set(SHOWN, entry.id);
    this.field.type(content.text);
    clearError(this.slot);
    this.#show(content, false);
    await this.card.refresh(entry.id);
  }

  /** @param {string} id of an entry that was deleted */
  async #removed(id) {
    if (this.entry?.id !== id) return;
    await this.button.interrupt();
    [this.entry, this.spoken, this.sound] = [null, null, null];
    tabMemory.set(SHOWN, null);
    this.#show({ text: "", sentences: [], rate: 0, reason: "", model: "", voice: "" }, false);
  }

  /** Shows what this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get(SHOWN);
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (!item || this.spoken || this.button.running) return;
    const typed = this.field.value;
    await this.open(item);
    if (typed && typed !== item.content.text) this.field.type(typed);
  }

  /** What was dropped on the page: a text, or the files of a model. @param {File[]} files @param {string} [folder] */
  async drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.attempt(() => this.field.take(files[0]));
  }
}

/** @param {Sentence} sentence @param {number} index */
const shownAs = ({ text, start }, index) => [...(index ? [" "] : []), h("span", { "data-start": start }, text)];

/** "Heart (American, female)" for af_heart. @param {string} name */
function nameOf(name) {
  const [, kind = "", rest = name] = /^([a-z]{2})_(.+)$/.exec(name) ?? [];
  const shown = rest[0].toUpperCase() + rest.slice(1);
  return KINDS[kind] ? `${shown} (${KINDS[kind]})` : name;
}

