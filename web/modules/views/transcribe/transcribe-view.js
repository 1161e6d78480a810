/**
 * The transcribe view: transcribes a file, a sample or the microphone.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {{name: string, get: (signal: AbortSignal) => File | Promise<File>}} Taken a recording that is to be transcribed; `name` until the file has one
 */
import { cutOff } from "../../audio/cut-off.js";
import { checkDuration, decode, toWav } from "../../audio/decoder.js";
import { fetchRecording, isAddress } from "../../audio/remote.js";
import { canHearTabs } from "../../audio/microphone.js";
import { wavOf } from "../../audio/wav-writer.js";
import { HistoryCard } from "../../history/history-card.js";
import { HistoryStore } from "../../history/history-store.js";
import { present } from "../../shared/present.js";
import { Cancelled, UserError, throwIfCancelled } from "../../shared/protocol.js";
import { byId, find, h, memory, showRows } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { GuessBanner } from "./guess-banner.js";
import { LiveRecording } from "./live-recording.js";
import { MomentLabels, csvOf } from "./moment-labels.js";
import { ModelCard } from "../../page/model-card.js";
import { modelRow } from "../../page/offer-row.js";
import { RunButton } from "../../page/run-button.js";
import { fetchSample, sampleButton } from "../../page/sample.js";
import { ServerCard } from "../../page/server-card.js";
import { isShown } from "../../page/shell.js";
import { RecordingSign } from "./recording-sign.js";
import { SpeechSettings } from "./speech-settings.js";
import { clock } from "./times.js";
import { allFormats } from "./transcript-export.js";
import { TranscriptKeeper } from "./transcript-keeper.js";
import { TranscriptSheet } from "./transcript-sheet.js";
import { Waveform } from "./waveform.js";

const MODEL_PART = /\.(bin|safetensors|pt|json)$/i;
const KNOWN = "speech-languages"; // the storage key of the last model's languages
const PEAKS = 1200; // bars of a waveform: more than a screen shows
const PROMPT = 200; // characters before the place where a transcription goes on
const SHORTEST_WINDOW = 15; // seconds; most models have windows of 30
const QUICK = 8; // seconds in which a live recording is read once more, or, if it is long,
const QUICK_SHARE = 1 / 8; // this part of its length

export default class TranscribeView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models */
  constructor(app, models) {
    this.app = app;
    this.engine = app.engine;
    this.models = models;
    this.choice = app.choices.transcribe;
    this.view = byId("view-transcribe");
    this.slot = byId("transcribe-error");
    this.settings = new SpeechSettings(byId("speech-settings-fields"));
    this.sheet = new TranscriptSheet(app, new GuessBanner(this.choice, models));
    this.store = new HistoryStore("transcript");
    this.card = new HistoryCard(find(this.view, ".workspace-side"), this.store, {
      name: "transcripts",
      open: (item) => this.reopen(item),
      filesOf: (item) => this.#filesOf(item),
      renamed: (id, title) => this.#renamed(id, title),
      removed: (id) => this.#removed(id),
      flush: () => this.keeper.save(),
    }, app.actions);
    this.keeper = new TranscriptKeeper(this.store, {
      stored: (id) => this.card.refresh(id),
      fail: (error) => showError(this.slot, error, app.actions),
    });
    /** The recordings that are transcribed one after the other. @type {RecordingQueue | null} */
    this.queue = null;
    this.fetching = false; // a recording by its address
    this.windowTime = Infinity; // seconds that the model took for a window of the last live recording
    /** @type {ListedModel | null} */
    this.loading = null;
    this.sign = new RecordingSign(this.view);
    this.button = new RunButton(app, byId("transcribe"), this.slot, "Transcribing");
    this.recordButton = new RunButton(app, byId("record"), this.slot, "Listening");
    this.tabButton = new RunButton(app, byId("record-tab"), this.slot, "Listening");
    byId("record-tab").hidden = !canHearTabs();
    this.liveWave = new Waveform(byId("live-wave"));
    new ModelCard(byId("speech-model"), this.choice, models, this.sheet.announcer);
    this.server = new ServerCard(byId("speech-model"), "transcribe", this.sheet.announcer);
    this.server.addEventListener("change", () => this.#serverChanged());
    this.moments = new MomentLabels(this);
    this.#listen();
    this.#restore();
  }

  #listen() {
    byId("record").addEventListener("click", () => (this.recordButton.running ? this.recordButton.stop() : this.record()));
    byId("record-tab").addEventListener("click", () => (this.tabButton.running ? this.tabButton.stop() : this.record("tab")));
    byId("transcribe").addEventListener("click", () => this.#toggle());
    byId("go-on-transcribing").addEventListener("click", () => this.transcribe(true));
    byId("read-again").addEventListener("click", () => this.transcribe());
    this.sheet.addEventListener("edited", () => this.#edited());
    this.sheet.addEventListener("version", ({ detail }) => this.#choose(detail));
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.keeper.timer !== undefined && this.keeper.save());
    addEventListener("beforeunload", (event) => {
      if (this.recording || this.keeper.unsaved || this.queue?.waiting) event.preventDefault(); // it would be lost
    });
    const picker = byId("pick-audio");
    picker.addEventListener("change", () => {
      const files = [...(picker.files ?? [])];
      picker.value = "";
      this.takeAll(files);
    });
    byId("address-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const { value } = byId("recording-address");
      if (this.fetching) this.button.stop();
      else if (value.trim()) this.takeAddress(value);
      else byId("recording-address").focus();
    });
    document.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text/plain") ?? "";
      const field = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, [contenteditable]");
      if (field || !isShown(this.view) || !isAddress(text)) return;
      event.preventDefault();
      byId("recording-address").value = text.trim();
      this.takeAddress(text);
    });
    this.view.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) this.#toggle();
    });
    this.choice.addEventListener("models", () => this.#showModels());
    /** Of the last load. @type {HTMLElement | null} */
    this.loadError = null;
    this.choice.addEventListener("model", (/** @type {any} */ { detail }) => {
      if (!detail?.listed && !this.button.running) clearError(this.slot); // the error of a start stays to be read
      this.#load();
    });
    this.app.addEventListener("ready", () => this.#load());
    this.view.addEventListener("shown", () => this.#load());
    this.view.addEventListener("shown", () => this.liveWave.redraw());
  }

  /** Whether sound is being recorded. */
  get recording() {
    return byId("intake").dataset.state === "recording";
  }

  #edited() {
    const { version } = this.keeper;
    if (!version) return;
    version.edited = true;
    this.#offerVersions();
    this.keeper.saveSoon(true);
  }

  /** Shows another version. @param {number} number */
  #choose(number) {
    if (!this.keeper.content) return;
    this.keeper.content.current = number;
    this.#showVersion();
    this.keeper.saveSoon(true);
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
    showRows(byId("samples"), samples.map((sample) => sampleButton(sample, () => this.trySample(sample))));
    byId("whisper-offer").hidden = model?.kind !== "embedded";
    const whispers = models.filter(({ kind, precision = "" }) => kind === "hub" && !precision.startsWith("float"));
    showRows(byId("whisper-list"), whispers.map((whisper) => modelRow(whisper, this.choice, this.models)));
  }

  /** The settings offer the languages of the server's model, as far as it tells them; else those of the tab's. */
  #serverChanged() {
    const model = this.server.used?.model;
    this.learnt = undefined;
    if (model) this.settings.showLanguages(model.languages ?? [], model.translates ?? true);
    else this.#load();
  }

  /** Loads the chosen model before it is needed, and shows its errors. */
  async #load() {
    const { model } = this.choice;
    if (!model || this.server.used || this.loading?.id === model.id || this.button.running || this.recordButton.running || this.tabButton.running || !isShown(this.view)) return;
    this.loading = model;
    this.#recall(model);
    this.loadError?.remove(); // not another request's: that stays when the engine has restarted
    const { progress } = this.sheet;
    const onEvent = (/** @type {TaskEvent} */ event) => event.type === "progress" && progress.show(`${event.what}…`, event.done, event.total);
    try {
      await this.#learn(model, { onEvent });
    } catch (error) {
      if (this.choice.uses(model) && !this.slot.hasChildNodes()) this.loadError = showError(this.slot, error, this.app.actions); // a request's error stays
    } finally {
      if (this.loading?.id === model.id) this.loading = null;
      if (!this.button.running) progress.hide();
    }
  }

  /**
   * Shows the languages of the chosen model before it is loaded, if the last visit has stored them.
   * @param {ListedModel} model
   */
  #recall(model) {
    const known = memory.get(KNOWN, null);
    if (this.learnt !== model && known?.model === model.id) this.settings.showLanguages(known.languages, known.translates);
  }

  /**
   * Loads a model, and shows its languages.
   * @param {ListedModel} model @param {{signal?: AbortSignal, onEvent: (event: TaskEvent) => void}} options
   */
  async #learn(model, options) {
    const { languages, translates } = await this.engine.call("speech.load", { model: model.id }, options);
    if (!this.choice.uses(model)) return;
    this.settings.showLanguages(languages, translates);
    memory.set(KNOWN, { model: model.id, languages, translates });
    this.learnt = model;
  }

  /** Waits for the languages of the model: the settings must not be read before, or the user's choice would be lost. @param {AbortSignal} signal */
  async #settleSettings(signal) {
    const { model } = this.choice;
    if (model && this.learnt !== model) await this.#learn(model, { signal, onEvent: (event) => this.sheet.event(event) });
  }

  /** @param {{path: string, title: string}} sample */
  trySample({ path, title }) {
    return this.#takeAll([{ name: title, get: () => fetchSample(path, "audio/wav") }]);
  }

  /** Takes dropped files: parts of a model, or recordings. @param {File[]} files @param {string} [folder] that contained them */
  async drop(files, folder) {
    if (files.some(({ name }) => MODEL_PART.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.takeAll(files);
  }

  /** Transcribes one recording, or several one after the other. @param {File[]} files */
  takeAll(files) {
    return this.#takeAll(files.map((file) => ({ name: file.name, get: () => file })));
  }

  /** Prepares, shows and transcribes a recording that was picked or dropped. @param {File} file */
  take(file) {
    return this.takeAll([file]);
  }

  /** Fetches and transcribes the recording at an address. @param {string} text */
  takeAddress(text) {
    const button = byId("recording-load");
    const onProgress = (/** @type {number} */ done, /** @type {number | null} */ total) => this.sheet.event({ type: "progress", what: "loading the recording", done, total, unit: "bytes" });
    const fetched = async (/** @type {AbortSignal} */ signal) => {
      [this.fetching, button.textContent] = [true, "Cancel"];
      try {
        return await fetchRecording(text, { signal, onProgress });
      } finally {
        [this.fetching, button.textContent] = [false, "Load"];
      }
    };
    return this.#takeAll([{ name: text.trim(), get: fetched }]);
  }

  /** Transcribes what was chosen, one after the other. While a queue runs, they wait behind what is in it. @param {Taken[]} taken */
  async #takeAll(taken) {
    if (this.queue?.running) return this.queue.add(taken);
    byId("queue").hidden = taken.length < 2;
    if (taken.length === 0) return;
    if (taken.length === 1) {
      await this.settle();
      return void (await this.#start(taken[0]));
    }
    const queue = (this.queue = new RecordingQueue(taken));
    for (const [number, one] of queue.taken.entries()) { // it grows
      queue.show(number, "transcribing…");
      await this.settle(queue);
      if (this.queue !== queue) break; // other work has begun meanwhile
      const before = this.keeper.entry;
      const outcome = await this.#start(one);
      queue.show(number, outcome === "complete" ? "done" : outcome === "cancelled" ? "stopped" : this.slot.querySelector("strong")?.textContent ?? "failed");
      const { entry } = this.keeper;
      if (entry && entry !== before) queue.ids.push(entry.id); // else it ended while the file was read
      if (outcome === "cancelled" || this.queue !== queue) break;
    }
    queue.end(() => this.card.exportAll(queue.ids), (rest) => this.#takeAll(rest));
  }

  /** Ends the running work before new work begins. @param {RecordingQueue | null} [queue] that the new work is of */
  async settle(queue = null) {
    this.queue = queue;
    await this.moments.button.interrupt();
    await this.recordButton.interrupt();
    await this.tabButton.interrupt();
    await this.button.interrupt();
  }

  /** Fetches, shows and transcribes a recording. @param {Taken} taken @returns {Promise<"complete" | "cancelled" | "failed">} */
  async #start(taken) {
    const { name, get } = taken;
    let outcome = /** @type {"complete" | "cancelled" | "failed"} */ ("failed");
    this.sheet.prepare(name);
    await this.button.run(async (signal) => {
      const file = await get(signal);
      const title = file.name && isAddress(name) ? file.name : name;
      const recording = await this.#prepare(file, title, signal).catch((error) => {
        if (error instanceof Cancelled) outcome = "cancelled";
        throw error;
      });
      await this.keeper.save();
      this.#open(recording);
      this.keeper.begin(title, false);
      this.keeper.setSound(recording);
      this.moments.show();
      outcome = await this.#transcribe(signal);
    }, { fail: () => this.#failed(), retry: () => this.#takeAll([taken]) });
    return outcome;
  }

  /** Shows another recording. @param {import("./transcript-sheet.js").Recording} recording */
  #open(recording) {
    this.sheet.expect(recording.name);
    this.sheet.show(recording);
    this.button.setLabel("Transcribe");
  }

  /** Shows what is left after an error. */
  #failed() {
    if (!this.sheet.fail() && this.keeper.version) this.#showVersion();
  }

  /** Shows the current version. */
  #showVersion() {
    const { version } = this.keeper;
    if (version) this.sheet.showVersion(version);
    this.#offerVersions();
  }

  #offerVersions() {
    const { content, version } = this.keeper;
    this.sheet.offer(content?.versions ?? [], version);
    this.moments.show();
    if (version) this.button.setLabel("Transcribe again");
  }

  /**
   * @param {File} file
   * @param {string} name @param {AbortSignal} signal @returns {Promise<import("./transcript-sheet.js").Recording & {wav: Blob}>}
   */
  async #prepare(file, name, signal) {
    const onProgress = (/** @type {number} */ done, /** @type {number | null} */ total) => this.sheet.event({ type: "progress", what: "reading the recording", done, total, unit: "seconds" });
    onProgress(0, null);
    const options = { signal, onProgress };
    let wav = await toWav(file, options);
    let overview;
    try {
      overview = await this.#overview(wav, name, signal);
    } catch (error) {
      if (wav !== file || !(error instanceof UserError && error.what.includes("pyapp cannot read"))) throw error;
      wav = await decode(file, options); // the engine cannot read this kind of WAVE file, but the browser may
      overview = await this.#overview(wav, name, signal);
    }
    throwIfCancelled(signal);
    checkDuration(overview.duration, { name });
    const cut = wav === file ? null : await cutOff(file, overview.duration); // of WAVE files the engine says it
    if (cut) overview.notices.push(cut);
    return { name, wav, original: file, overview };
  }

  /** The sound of a recording as the engine reads it. @param {import("./transcript-sheet.js").Recording} recording @param {AbortSignal} signal @returns {Promise<Blob>} */
  async soundOf(recording, signal) {
    recording.wav ??= (await this.#prepare(recording.original, recording.name, signal)).wav;
    return present(recording.wav, "the sound");
  }

  /** @param {Blob} wav @param {string} name @param {AbortSignal} [signal] @returns {Promise<import("./transcript-sheet.js").Overview>} */
  async #overview(wav, name, signal) {
    const onEvent = (/** @type {TaskEvent} */ event) => this.sheet.event(event);
    const overview = /** @type {any} */ (await this.engine.call("overview", { audio: wav, name, bins: PEAKS }, { signal, onEvent }));
    return overview;
  }

  /** Transcribes the shown recording again, or goes on where its transcript ends. @param {boolean} [further] */
  async transcribe(further = false) {
    await this.settle();
    if (this.server.used) further = false; // a server begins at the beginning
    return this.button.run(async (signal) => void (await this.#transcribe(signal, further)), {
      fail: () => this.#failed(),
      retry: () => this.transcribe(further),
    });
  }

  /** @param {AbortSignal} signal @param {boolean} [further] @returns {Promise<"complete" | "cancelled">} */
  async #transcribe(signal, further = false) {
    const { transcript } = this.sheet;
    const recording = present(this.sheet.recording, "the recording");
    const { keeper } = this;
    keeper.save(); // nobody waits for the disk, which takes seconds for hours of sound
    if (further) this.sheet.resume("Transcribing.");
    else this.sheet.begin(this.settings.options(this.choice.model).task, "Transcribing.");
    if (!this.engine.about && !this.server.used) this.sheet.progress.show("Starting the engine…");
    this.button.setLabel("Transcribe again");
    /** @type {import("./transcript-keeper.js").Version | null} */
    let begun = null;
    try {
      await this.server.ready;
      const { used } = this.server;
      if (!used) {
        await this.app.listed(signal);
        await this.#settleSettings(signal);
      }
      const { id: model, title } = used ? { id: used.model.id, title: used.model.id } : this.choice.present;
      const options = this.settings.options(used ? null : this.choice.model);
      const version = (further && keeper.version) || keeper.beginVersion({ model: title, task: options.task, segments: transcript.segments });
      begun = version;
      keeper.saveSoon();
      const audio = await this.soundOf(recording, signal);
      const onEvent = (/** @type {TaskEvent} */ event) => this.#transcribed(event, version);
      const from = further ? { clip_timestamps: String(version.reached), initial_prompt: transcript.text.slice(-PROMPT) || options.initial_prompt } : {};
      const params = { model, audio, name: recording.name, options: { ...options, ...from } };
      const done = used
        ? await used.engine.call("transcribe", { ...params, duration: recording.overview.duration }, { signal, onEvent })
        : await this.engine.call("transcribe", { ...params, ...this.settings.networks, hub: this.app.hub }, { signal, onEvent });
      this.sheet.end(done);
      this.#complete(version, done, recording.overview.duration);
      return version.complete ? "complete" : "cancelled";
    } finally {
      if (begun && !begun.complete) this.sheet.interrupt();
      if (begun) keeper.endVersion(begun);
      keeper.save(); // it may take long: what is pressed meanwhile begins something
      if (begun && keeper.version !== begun) this.#showVersion(); // it has no text
      else this.#offerVersions();
    }
  }

  /** @param {TaskEvent} event @param {import("./transcript-keeper.js").Version} version */
  #transcribed(event, version) {
    this.sheet.event(event);
    if (event.type !== "segment") return;
    version.reached = event.end;
    version.language = this.sheet.language;
    this.keeper.saveSoon();
  }

  /** Notes what a version is. @param {import("./transcript-keeper.js").Version} version @param {{reason?: string}} done @param {number} duration */
  #complete(version, done, duration) {
    version.complete = done.reason === "complete";
    version.language = this.sheet.language;
    version.guess = this.sheet.share;
    if (version.complete) version.reached = duration;
  }

  /** Transcribes the microphone, or a tab, live. Stop ends the recording; its last words are then transcribed. @param {"microphone" | "tab"} source */
  async record(source = "microphone") {
    await this.settle();
    const live = new LiveRecording(this.engine, {
      onBlock: (peak, seconds) => this.#hear(peak, seconds),
      onEvent: (event) => this.#heardEvent(event),
      onPiece: (piece) => this.keeper.content?.live && this.keeper.addPiece(piece),
    }, source);
    const retry = () => this.record(source);
    byId("intake").dataset.source = source;
    await (source === "tab" ? this.tabButton : this.recordButton).run((signal) => this.#record(live, signal, source), { fail: () => this.#failed(), retry });
    this.#recorded();
    this.button.button.hidden = false;
    if (!live.heard && this.sheet.recording) await this.transcribe();
  }

  /** The sound has ended. */
  #recorded() {
    byId("live").hidden = true;
    byId("intake").dataset.state = "idle";
    this.sign.end();
  }

  /** @param {LiveRecording} live @param {AbortSignal} signal @param {"microphone" | "tab"} source */
  async #record(live, signal, source) {
    await this.app.listed(signal);
    const { id: model, title } = this.choice.present;
    await live.open();
    if (signal.aborted) return live.finish();
    (source === "tab" ? this.tabButton : this.recordButton).gently = () => live.finish();
    signal.addEventListener("abort", () => live.finish());
    live.closed.then(() => this.#recorded());
    await this.keeper.save();
    const { task } = this.settings.options(this.choice.model);
    const time = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    this.sheet.expect(`Recording, ${time}`);
    this.sheet.begin(task, "Recording.");
    this.keeper.begin(`Recording, ${time}`, true);
    const version = this.keeper.beginVersion({ model: title, task, segments: this.sheet.transcript.segments, live: true });
    this.keeper.save();
    this.button.button.hidden = true;
    byId("live").hidden = false;
    byId("intake").dataset.state = "recording";
    this.liveWave.begin();
    this.sign.begin();
    this.windowTime = Infinity;
    try {
      await this.#settleSettings(signal); // the recording keeps sound that arrives meanwhile
      const done = await live.listen({ model, options: this.settings.options(this.choice.model, { live: true }) }, signal);
      await this.#keep(live);
      this.sheet.end(done);
      this.#complete(version, done, live.heard ? live.duration : version.reached);
      if (live.heard && version.complete && this.sheet.recording) await this.#readAgain(source, signal, version);
    } catch (error) {
      await live.finish();
      await this.#keep(live).catch(() => {}); // the first error is the one to show
      throw error;
    } finally {
      if (live.duration > 0) this.keeper.endVersion(version);
      else this.#discard();
      this.keeper.save();
      this.#offerVersions();
    }
  }

  /** There was no sound: nothing to keep. */
  #discard() {
    const { entry } = this.keeper;
    this.keeper.forget();
    if (entry) this.store.remove(entry.id).catch(() => {}); // it was not stored
  }

  /** Shows the recorded sound in the player. @param {LiveRecording} live */
  async #keep(live) {
    await live.closed;
    if (live.duration === 0 || !this.keeper.content) return;
    const { name } = this.keeper.content;
    const wav = new File([live.toWav()], `${name.replace(/[^\p{L}\p{N}]+/gu, "-")}.wav`, { type: "audio/wav" });
    const overview = await this.#overview(wav, name);
    this.button.setLabel("Transcribe again");
    const recording = { name, wav, original: wav, overview };
    this.sheet.show(recording);
    if (live.lost && live.microphone.source === "microphone") this.sheet.event({ type: "notice", what: "the microphone was disconnected, or may not be used any more", hint: "the recording ends there" });
    this.keeper.setSound(recording);
  }

  /**
   * Transcribes the whole of a live recording once more, where that is quick: with all of the sound the model hears better
   * than piece by piece. The live text stays until then, and if it was edited. Where it is not quick, or was stopped, a button offers it.
   * @param {"microphone" | "tab"} source @param {AbortSignal} signal @param {import("./transcript-keeper.js").Version} live
   */
  async #readAgain(source, signal, live) {
    const { transcript } = this.sheet;
    const recording = present(this.sheet.recording, "the recording");
    const { duration } = recording.overview;
    live.again = this.windowTime * Math.ceil(duration / SHORTEST_WINDOW);
    if (live.again > Math.max(QUICK, duration * QUICK_SHARE)) return;
    const options = this.settings.options(this.choice.model);
    /** @type {import("./transcript.js").Segment[]} */
    const segments = [];
    let share = null;
    const onEvent = (/** @type {TaskEvent} */ event) => {
      if (event.type === "segment") segments.push({ ...event, id: segments.length });
      else if (event.type === "doubt") ({ share } = event);
      else if (event.type === "progress") this.sheet.event({ ...event, what: "reading the whole recording once more" });
    };
    await this.keeper.save();
    this.sheet.state = "working";
    (source === "tab" ? this.tabButton : this.recordButton).offerStop();
    try {
      const params = { model: this.choice.present.id, audio: recording.wav, name: recording.name, options, ...this.settings.networks, hub: this.app.hub };
      const done = await this.engine.call("transcribe", params, { signal, onEvent });
      if (done.reason !== "complete" || segments.length === 0 || this.sheet.transcript !== transcript) return;
      const version = this.keeper.beginVersion({ model: live.model, task: options.task, segments });
      Object.assign(version, { complete: true, reached: duration, language: done.language ?? live.language, guess: share });
      this.keeper.endVersion(version);
      const { content } = this.keeper;
      if (live.edited && content) content.current = content.versions.indexOf(live);
      else this.sheet.showVersion(version);
    } finally {
      this.sheet.progress.hide();
      this.sheet.state = "done";
    }
  }

  /** @param {TaskEvent} event */
  #heardEvent(event) {
    if (event.type === "metric" && event.name === "window_time") this.windowTime = event.value;
    if (event.type !== "progress") this.sheet.progress.hide(); // the model is loaded
    if (event.type !== "progress" || event.what !== "listening") this.sheet.event(event);
    if (event.type !== "segment") return;
    if (this.keeper.version) this.keeper.version.reached = event.end;
    this.keeper.saveSoon();
  }

  /** @param {number} peak @param {number} seconds */
  #hear(peak, seconds) {
    this.liveWave.add(peak);
    byId("live-time").textContent = clock(seconds);
    if (byId("intake").dataset.state === "recording") this.sign.show(seconds);
  }

  /** Shows an entry of the history. @param {import("../../history/history-store.js").HistoryItem} item */
  async reopen(item) {
    await this.settle();
    await this.keeper.save();
    const { entry, content, files } = item;
    this.keeper.adopt(item);
    clearError(this.slot);
    if (files.length === 0) {
      this.sheet.expect(entry.title);
      this.#showVersion();
      return;
    }
    const original = content.live
      ? new File([wavOf(files.map(({ blob }) => blob))], `${entry.title}.wav`, { type: "audio/wav" })
      : new File([files[0].blob], files[0].name, { type: files[0].blob.type });
    if (!content.overview) { // the page was closed while it recorded
      await this.button.run(async (signal) => {
        const overview = await this.#overview(original, entry.title, signal);
        const recording = { name: entry.title, wav: original, original, overview };
        this.#open(recording);
        this.keeper.setSound(recording);
        this.keeper.saveSoon();
        this.#showVersion();
      }, { fail: () => this.sheet.fail(), retry: () => this.reopen(item) });
      return;
    }
    this.#open({ name: entry.title, wav: null, original, overview: content.overview });
    this.#showVersion();
  }

  /** Shows what this tab showed before it was reloaded. */
  async #restore() {
    const id = TranscriptKeeper.lastShown;
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (item && !this.keeper.content && !this.button.running && !this.recordButton.running) await this.reopen(item);
  }

  /** @param {string} id of an entry that was deleted */
  async #removed(id) {
    if (this.keeper.entry?.id !== id) return;
    await this.settle();
    this.keeper.forget();
    this.sheet.clear();
    this.moments.show();
  }

  /** @param {string} id @param {string} title */
  #renamed(id, title) {
    const { entry, content } = this.keeper;
    if (entry?.id !== id) return;
    entry.title = title;
    if (content) content.name = title;
    if (this.sheet.recording) this.sheet.recording.name = title;
    byId("recording-name").textContent = title;
  }

  /** What is exported of an entry. @param {import("../../history/history-store.js").HistoryItem} item */
  async #filesOf({ entry, content, files }) {
    const sound = content.live ? [{ name: "recording.wav", blob: wavOf(files.map(({ blob }) => blob)) }] : [...files];
    if (content.moments) sound.push({ name: "labels.csv", blob: csvOf(content.moments) });
    const version = content.versions[content.current];
    if (!version) return sound;
    const { segments, language, task, guess } = version;
    const texts = await allFormats(this.engine, { name: entry.title, segments, language, task, guess, duration: content.overview?.duration ?? version.reached });
    return [...sound, ...texts.map((blob) => ({ name: blob.name, blob }))];
  }
}

/** The list of several recordings that are transcribed one after the other. */
class RecordingQueue {
  /** @param {Taken[]} taken */
  constructor(taken) {
    /** The entries that were made. @type {string[]} */
    this.ids = [];
    /** @type {Taken[]} */
    this.taken = [];
    /** @type {HTMLElement[]} */
    this.states = [];
    /** Numbers of the recordings that are not begun. @type {Set<number>} */
    this.unbegun = new Set();
    this.running = true;
    byId("queue-list").replaceChildren();
    byId("queue-save").hidden = byId("queue-go-on").hidden = true;
    this.add(taken);
  }

  /** @param {Taken[]} taken that wait behind the others */
  add(taken) {
    for (const one of taken) {
      this.unbegun.add(this.taken.length);
      const state = h("span", { class: "queue-state" }, "waiting");
      this.taken.push(one);
      this.states.push(state);
      byId("queue-list").append(h("li", {}, h("bdi", {}, one.name), state));
    }
  }

  /** @param {number} number @param {string} state */
  show(number, state) {
    this.unbegun.delete(number);
    this.states[number].textContent = state;
  }

  /** Whether some are not transcribed yet. */
  get waiting() {
    return this.running && this.unbegun.size > 0;
  }

  /** @param {() => void} save @param {(rest: Taken[]) => void} goOn gets those that were not begun */
  end(save, goOn) {
    this.running = false;
    const rest = this.taken.filter((_, number) => this.unbegun.has(number));
    for (const number of this.unbegun) this.states[number].textContent = "not transcribed";
    byId("queue-save").hidden = this.ids.length === 0;
    byId("queue-save").onclick = save;
    byId("queue-go-on").hidden = rest.length === 0;
    byId("queue-go-on").textContent = `Transcribe the other ${rest.length === 1 ? "one" : rest.length}`;
    byId("queue-go-on").onclick = () => goOn(rest);
  }
}
