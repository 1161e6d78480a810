/**
 * The transcribe view: transcribes a file, a sample or the microphone.
 */
import { checkDuration, decode, toWav } from "../../audio/decoder.js";
import { UserError, megabytes, throwIfCancelled } from "../../shared/protocol.js";
import { siteUrl } from "../../shared/site.js";
import { byId, h, memory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { LiveRecording } from "./live-recording.js";
import { ModelCard } from "../../page/model-card.js";
import { RunButton } from "../../page/run-button.js";
import { isShown } from "../../page/shell.js";
import { SpeechSettings } from "./speech-settings.js";
import { clock } from "./times.js";
import { TranscriptSheet } from "./transcript-sheet.js";
import { Waveform } from "./waveform.js";

const MODEL_PART = /\.(bin|safetensors|pt|json)$/i;
const KNOWN = "speech-languages"; // the storage key of the last model's languages
const PEAKS = 1200; // bars of a waveform: more than a screen shows

export class TranscribeView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/model-dialog.js").ModelDialog} models */
  constructor(app, models) {
    this.app = app;
    this.engine = app.engine;
    this.models = models;
    this.choice = app.choices.transcribe;
    this.view = byId("view-transcribe");
    this.slot = byId("transcribe-error");
    this.settings = new SpeechSettings(byId("speech-settings-fields"));
    this.sheet = new TranscriptSheet(app);
    this.button = new RunButton(app, byId("transcribe"), this.slot, "Transcribing");
    this.recordButton = new RunButton(app, byId("record"), this.slot, "Listening");
    this.liveWave = new Waveform(byId("live-wave"));
    new ModelCard(byId("speech-model"), this.choice, models, this.sheet.announcer);
    this.#listen();
  }

  #listen() {
    byId("record").addEventListener("click", () => (this.recordButton.running ? this.recordButton.stop() : this.record()));
    byId("transcribe").addEventListener("click", () => this.#toggle());
    const picker = byId("pick-audio");
    picker.addEventListener("change", () => {
      const [file] = picker.files;
      picker.value = "";
      if (file) this.take(file);
    });
    this.view.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#toggle();
    });
    this.choice.addEventListener("models", () => this.#showModels());
    this.choice.addEventListener("model", () => this.#load());
    this.app.addEventListener("ready", () => this.#load());
    this.view.addEventListener("shown", () => this.#load());
    this.view.addEventListener("shown", () => this.liveWave.redraw());
  }

  #toggle() {
    if (this.button.running) this.button.stop();
    else if (this.sheet.recording) this.transcribe();
  }

  /** Adds buttons for the samples of the embedded model, and for the models for real speech. */
  #showModels() {
    const { models, model } = this.choice;
    const samples = models.flatMap(({ samples: clips = [] }) => clips);
    byId("samples-group").hidden = samples.length === 0;
    byId("samples").replaceChildren(...samples.map((sample) =>
      h("button", { type: "button", class: "chip", onclick: () => this.trySample(sample) }, sample.title)));
    byId("whisper-offer").hidden = model?.kind !== "embedded";
    byId("whisper-list").replaceChildren(...models.filter(({ kind }) => kind === "hub").map((other) => {
      const size = other.state === "ready" ? "kept" : other.bytes ? megabytes(other.bytes) : "";
      const choose = () => (other.state === "ready" ? this.choice.choose(other) : this.models.open(this.choice, other.id));
      return h("li", {}, h("button", { type: "button", class: "offer-row", onclick: choose }, h("span", {}, other.title), h("span", { class: "row-size" }, size)));
    }));
  }

  /** Loads the chosen model before it is needed, and shows its errors. */
  async #load() {
    const { model } = this.choice;
    if (!model || this.loading === model || this.button.running || this.recordButton.running || !isShown(this.view)) return;
    this.loading = model;
    this.#recall(model);
    clearError(this.slot);
    const { progress } = this.sheet;
    const onEvent = (event) => event.type === "progress" && progress.show(`${event.what}…`, event.done, event.total);
    try {
      await this.#learn(model, { onEvent });
    } catch (error) {
      if (this.choice.model === model) showError(this.slot, error, this.app.actions);
    } finally {
      if (this.loading === model) this.loading = null;
      if (!this.button.running) progress.hide();
    }
  }

  /** Shows the languages of the chosen model before it is loaded, if the last visit has stored them. */
  #recall(model) {
    const known = memory.get(KNOWN, null);
    if (this.learnt !== model && known?.model === model.id) this.settings.showLanguages(known.languages, known.translates);
  }

  /** Loads a model, and shows its languages. */
  async #learn(model, options) {
    const { languages, translates } = await this.engine.call("speech.load", { model: model.id }, options);
    if (this.choice.model !== model) return;
    this.settings.showLanguages(languages, translates);
    memory.set(KNOWN, { model: model.id, languages, translates });
    this.learnt = model;
  }

  /** Waits for the languages of the model: the settings must not be read before, or the user's choice would be lost. */
  async #settleSettings(signal) {
    const { model } = this.choice;
    if (model && this.learnt !== model) await this.#learn(model, { signal, onEvent: (event) => this.sheet.event(event) });
  }

  /** @param {{path: string, title: string}} sample */
  async trySample({ path, title }) {
    await this.#settle();
    return this.#start(title, async () => {
      const response = await fetch(siteUrl(path)).catch(() => null);
      if (!response?.ok) throw new UserError("The sample could not be loaded.", { where: path, hint: "Check your connection.", action: "retry" });
      return new File([await response.blob()], path.split("/").pop(), { type: "audio/wav" });
    }, () => this.trySample({ path, title }));
  }

  /** Takes dropped files: parts of a model, or a recording. @param {File[]} files @param {string} [folder] that contained them */
  async drop(files, folder) {
    if (files.some(({ name }) => MODEL_PART.test(name))) return this.models.addFiles(files, this.choice, folder);
    if (files.length === 1) return this.take(files[0]);
    const error = new UserError(`You dropped ${files.length} files.`, { hint: "Drop one recording at a time." });
    return showError(this.slot, error, this.app.actions);
  }

  /** Prepares, shows and transcribes a recording that was picked or dropped. @param {File} file */
  async take(file) {
    await this.#settle();
    return this.#start(file.name, () => file, () => this.take(file));
  }

  /** Ends the running work before new work begins. */
  async #settle() {
    await this.recordButton.interrupt();
    await this.button.interrupt();
  }

  /** @param {string} name @param {() => File | Promise<File>} getFile @param {() => void} retry */
  #start(name, getFile, retry) {
    this.sheet.expect(name);
    this.button.setLabel("Transcribe");
    return this.button.run(async (signal) => {
      const recording = await this.#prepare(await getFile(), name, signal);
      this.sheet.show(recording);
      await this.#transcribe(signal);
    }, { fail: () => this.sheet.fail(), retry });
  }

  /** @returns {Promise<import("./transcript-sheet.js").Recording | null>} */
  async #prepare(file, name, signal) {
    const onProgress = (done, total) => this.sheet.event({ type: "progress", what: "reading the recording", done, total, unit: "seconds" });
    onProgress(0, null);
    const options = { signal, onProgress };
    let wav = await toWav(file, options);
    let overview;
    try {
      overview = await this.#overview(wav, name, signal);
    } catch (error) {
      if (wav !== file || !/pyapp cannot read/.test(error.what)) throw error;
      wav = await decode(file, options); // the engine cannot read this kind of WAVE file, but the browser may
      overview = await this.#overview(wav, name, signal);
    }
    throwIfCancelled(signal);
    checkDuration(overview.duration, { name });
    return { name, wav, original: file, overview };
  }

  /** @returns {Promise<any>} an Overview of transcript-sheet.js */
  #overview(wav, name, signal = undefined) {
    const onEvent = (event) => this.sheet.event(event);
    return this.engine.call("overview", { audio: wav, name, bins: PEAKS }, { signal, onEvent });
  }

  /** Transcribes the shown recording again. */
  async transcribe() {
    await this.#settle();
    return this.button.run((signal) => this.#transcribe(signal), { fail: () => this.sheet.fail(), retry: () => this.transcribe() });
  }

  async #transcribe(signal) {
    const { wav, name } = this.sheet.recording;
    this.sheet.begin(this.settings.options(this.choice.model).task, "Transcribing.");
    if (!this.engine.about) this.sheet.progress.show("Starting the engine…");
    this.button.setLabel("Transcribe again");
    await this.app.listed();
    await this.#settleSettings(signal);
    const options = this.settings.options(this.choice.model);
    const params = { model: this.#modelId(), audio: wav, name, options };
    this.sheet.end(await this.engine.call("transcribe", params, { signal, onEvent: (event) => this.sheet.event(event) }));
  }

  #modelId() {
    if (this.choice.model) return this.choice.model.id;
    throw new UserError("There is no speech model.", { hint: "Open the list of models and download one.", action: "models" });
  }

  /** Transcribes the microphone live. Stop ends the recording; its last words are then transcribed. */
  async record() {
    await this.#settle();
    const live = new LiveRecording(this.engine, {
      onBlock: (peak, seconds) => this.#hear(peak, seconds),
      onEvent: (event) => this.#heardEvent(event),
    });
    const retry = () => this.record();
    await this.recordButton.run((signal) => this.#record(live, signal), { fail: () => this.sheet.fail(), retry });
    this.button.button.hidden = false;
    byId("live").hidden = true;
    byId("intake").dataset.state = "idle";
    if (!live.heard && this.sheet.recording) await this.transcribe();
  }

  async #record(live, signal) {
    await this.app.listed();
    const model = this.#modelId();
    await live.open();
    if (signal.aborted) return live.finish();
    this.recordButton.gently = () => live.finish();
    signal.addEventListener("abort", () => live.finish());
    this.sheet.expect(`Recording, ${new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`);
    this.sheet.begin(this.settings.options(this.choice.model).task, "Recording.");
    this.button.button.hidden = true;
    byId("live").hidden = false;
    byId("intake").dataset.state = "recording";
    this.liveWave.begin();
    try {
      await this.#settleSettings(signal); // the recording keeps sound that arrives meanwhile
      const done = await live.listen({ model, options: this.settings.options(this.choice.model, { live: true }) }, signal);
      await this.#keep(live);
      this.sheet.end(done);
    } catch (error) {
      await live.finish();
      await this.#keep(live).catch(() => {}); // the first error is the one to show
      throw error;
    }
  }

  /** Shows the recorded sound in the player. */
  async #keep(live) {
    await live.closed;
    if (live.duration === 0) return;
    const name = byId("recording-name").textContent;
    const wav = new File([live.toWav()], "recording.wav", { type: "audio/wav" });
    const overview = await this.#overview(wav, name);
    this.button.setLabel("Transcribe again");
    this.sheet.show({ name, wav, original: wav, overview });
  }

  #heardEvent(event) {
    if (event.type !== "progress") this.sheet.progress.hide(); // the model is loaded
    if (event.type !== "progress" || event.what !== "listening") this.sheet.event(event);
  }

  #hear(peak, seconds) {
    this.liveWave.add(peak);
    byId("live-time").textContent = clock(seconds);
  }
}
