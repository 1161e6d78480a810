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
import { byId, h } from "../../page/dom.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { saveFile } from "../../page/save-file.js";
import { TextView } from "../../page/text-view.js";
import { counted } from "../../shared/words.js";
import { buildSpeak } from "./speak-parts.js";

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
/** By the first two letters of the voices of Kokoro. @type {Record<string, string>} */
const KINDS = { af: "American, female", am: "American, male", bf: "British, female", bm: "British, male" };

/** @extends {TextView<Spoken>} */
export default class SpeakView extends TextView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildSpeak(view);
    super(app, models, view, "speak", "Speaking", "speech", "speeches", { files: MODEL_FILES, offered: OFFERED });
    this.player = byId("speak-player");
    this.voice = byId("speak-voice");
    this.settings = new RememberedFields("speak-settings", { rate: byId("speak-rate"), pause: byId("speak-pause"), seed: byId("speak-seed"), play: byId("speak-play") }, INITIAL);
    /** What plays while it is computed, since the press of the button. @type {AudioContext | null} */
    this.aloud = null;
    this.#listen();
    this.start();
  }

  /** The sound of what is shown, a WAVE file. */
  get sound() {
    return this.files.find(({ name }) => name === SOUND)?.blob ?? null;
  }

  #listen() {
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
  }

  // -- the model

  /** Shows its voices. @param {ListedModel} model @param {{voices?: string[], speakers?: number}} known */
  knows({ id }, { voices = [], speakers = 1 }) {
    const all = voices.length ? voices.map((name) => new Option(nameOf(name), name)) : Array.from({ length: speakers }, (_, i) => new Option(`Voice ${i + 1}`, String(i)));
    this.voice.replaceChildren(...all);
    const chosen = this.settings.values.voices?.[id];
    if (all.some(({ value }) => value === chosen)) this.voice.value = chosen;
    byId("speak-voices").hidden = speakers < 2;
    this.numbered = !voices.length;
  }

  // -- the work

  /** The options of tasks.speak. */
  get options() {
    const { rate, pause, seed } = this.settings.values;
    const options = { pause, seed, ...(rate !== "1" && { rate: Number(rate) }) };
    if (byId("speak-voices").hidden) return options;
    return this.numbered ? { ...options, speaker: Number(this.voice.value) } : { ...options, voice: this.voice.value };
  }

  async run() {
    const aloud = (this.aloud = this.settings.values.play ? new AudioContext() : null); // browsers let a page play what begins with a press
    this.player.pause();
    await super.run();
    aloud?.close();
  }

  /** @param {ListedModel} model @param {string} text @param {AbortSignal} signal */
  async work(model, text, signal) {
    const queue = this.aloud && new SoundQueue(this.aloud, signal);
    /** @type {Spoken} */
    const spoken = { text, sentences: [], rate: 0, reason: "cancelled", model: model.title, voice: byId("speak-voices").hidden ? "" : this.voice.value };
    /** @type {Blob[]} */
    const pieces = [];
    const ended = () => pieces.length && (this.files = [{ name: SOUND, blob: wavOf(pieces, spoken.rate) }]);
    this.announcer.say("Computing the speech.");
    await this.make(spoken, { model: model.id, text, options: this.options }, (event) => this.#event(spoken, pieces, queue, event), signal, ended);
    const seconds = counted(Math.round(spoken.sentences.at(-1)?.end ?? 0), "second");
    this.announcer.say(spoken.reason === "complete" ? `Finished: ${seconds} of speech.` : `Stopped after ${seconds} of speech.`);
    await queue?.ended();
    queue?.check("Speak");
  }

  /** @param {Spoken} spoken @param {Blob[]} pieces @param {SoundQueue | null} queue @param {TaskEvent} event */
  #event(spoken, pieces, queue, event) {
    if (event.type !== "sound") return this.tell(event, "speaking", "% characters are spoken");
    const samples = samplesOf(event.pcm);
    pieces.push(new Blob([samples]));
    spoken.rate = event.rate;
    const sentence = { text: event.text, start: event.start, end: event.end };
    spoken.sentences.push(sentence);
    if (queue && !queue.mute && !queue.signal.aborted) queue.add(samples, event.rate);
    if (this.result !== spoken) return;
    if (spoken.sentences.length === 1) this.show(spoken, true);
    else byId("speak-output").append(...shownAs(sentence, 1));
  }

  /** @param {Spoken | null} spoken @param {boolean} running more of it is being computed */
  show(spoken, running) {
    const { sentences = [], reason = "" } = spoken ?? {};
    const output = byId("speak-output");
    output.replaceChildren(...sentences.flatMap((sentence, i) => shownAs(sentence, i)));
    output.hidden = !sentences.length;
    this.showState(sentences.length > 0, running, reason);
    byId("speak-save").hidden = running || !this.sound;
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
    const at = this.result?.sentences.findIndex(({ end }) => currentTime < end) ?? -1;
    const spans = byId("speak-output").querySelectorAll("span");
    spans.forEach((span, i) => span.classList.toggle("heard", i === at && !ended && (currentTime > 0 || !paused)));
  }

  // -- what is kept

  /** @param {Spoken} spoken */
  textOf({ text }) {
    return text;
  }

  /** @param {Spoken} spoken */
  aboutOf({ sentences }) {
    return this.sound ? counted(Math.round(sentences.at(-1)?.end ?? 0), "second") : "";
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  filesOf({ content, files }) {
    return [...files, { name: "text.txt", blob: new Blob([`${content.text}\n`], { type: "text/plain" }) }];
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

