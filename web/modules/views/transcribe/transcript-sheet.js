/**
 * The sheet of the transcribe view: the recording with its player, the text as it arrives, the figures, and the buttons for
 * the text.
 */
import { present } from "../../shared/present.js";
import { megabytes } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { Announcer } from "../../page/announcer.js";
import { byId, copyText, h } from "../../page/dom.js";
import { Player } from "./player.js";
import { ProgressLine } from "../../page/progress-line.js";
import { clock, spoken } from "./times.js";
import { Transcript } from "./transcript.js";
import { setUpDownloads } from "./transcript-export.js";
import { stem } from "./transcript-keeper.js";

/**
 * @typedef {{duration: number, rate: number, channels: number, peaks: number[],
 *   notices: import("../../shared/protocol.js").NoticeEvent[]}} Overview
 * @typedef {{name: string, wav: Blob | null, original: File, overview: Overview}} Recording `wav` is null until it is needed
 * @typedef {import("./transcript-keeper.js").Version} Version
 */

const SCROLL_PATIENCE = 4000; // ms without automatic scrolling after the reader has scrolled

/** Fires "edited", "version" (detail: the chosen version's number). */
export class TranscriptSheet extends EventTarget {
  /** @param {import("../../page/app.js").App} app @param {import("./guess-banner.js").GuessBanner} guess */
  constructor(app, guess) {
    super();
    this.guess = guess;
    this.sheet = byId("transcript-sheet");
    this.announcer = new Announcer(byId("transcribe-announcer"));
    this.progress = new ProgressLine(byId("transcribe-progress"));
    this.player = new Player();
    this.transcript = new Transcript(byId("transcript"));
    /** @type {Recording | null} */
    this.recording = null;
    /** @type {string | null} */
    this.language = null;
    this.task = "transcribe";
    /** The state that a failed preparation returns to. @type {string | null} */
    this.before = null;
    /** The share of the text that may be a guess. @type {number | null} */
    this.share = null;
    setUpDownloads(app, byId("downloads"), () => this.contents(), () => this.sound());
    this.#listen();
  }

  #listen() {
    let scrolled = -Infinity;
    for (const type of ["wheel", "touchmove"]) addEventListener(type, () => (scrolled = performance.now()), { passive: true });
    this.transcript.addEventListener("play", ({ detail }) => this.player.playFrom(detail));
    this.transcript.addEventListener("edited", () => this.#edited());
    byId("undo-edit").addEventListener("click", () => this.transcript.undo());
    byId("versions").addEventListener("change", ({ target }) =>
      this.dispatchEvent(new CustomEvent("version", { detail: Number(/** @type {HTMLSelectElement} */ (target).value) })));
    this.player.addEventListener("time", ({ detail }) =>
      this.transcript.mark(detail, this.player.playing && performance.now() - scrolled > SCROLL_PATIENCE));
    byId("copy-transcript").addEventListener("click", () => copyText(byId("copy-transcript"), this.transcript.spoken, byId("transcript")));
    byId("edit-transcript").addEventListener("click", () => this.#edit(!this.transcript.editing));
  }

  /** @param {boolean} editing */
  #edit(editing) {
    this.transcript.setEditing(editing);
    const button = byId("edit-transcript");
    button.setAttribute("aria-pressed", String(editing));
    button.textContent = editing ? "Done editing" : "Edit text";
  }

  #edited() {
    this.#count();
    byId("undo-edit").hidden = this.transcript.edits.length === 0;
    this.dispatchEvent(new CustomEvent("edited"));
  }

  /** @param {string} state */
  set state(state) {
    this.sheet.dataset.state = state;
  }

  get state() {
    return this.sheet.dataset.state ?? "empty";
  }

  /** Shows that a recording is being read. What the sheet shows stays until it can be transcribed. @param {string} name */
  prepare(name) {
    this.before = this.state;
    this.state = "preparing";
    this.announcer.say(`Reading ${name}.`);
  }

  /** Clears the sheet for another recording. @param {string} name */
  expect(name) {
    this.before = null;
    this.recording = null;
    this.player.unload();
    this.#clearText();
    byId("recording").hidden = false;
    byId("recording-name").textContent = name;
    byId("recording-facts").textContent = "";
    byId("recording-notes").replaceChildren();
    byId("player").hidden = true;
    byId("transcript-empty").hidden = true;
    this.state = "preparing";
  }

  /** @param {Recording} recording */
  show(recording) {
    this.recording = recording;
    const { overview } = recording;
    byId("player").hidden = false;
    byId("recording-facts").textContent = factsOf(overview);
    if (overview.channels > 2) this.#note({ what: `its ${overview.channels} channels are mixed into one` });
    overview.notices.forEach((notice) => this.#note(notice));
    this.player.load(recording.original, overview);
    this.state = "ready";
  }

  /** Shows a warning about the recording. @param {{what: string, hint?: string}} notice */
  #note({ what, hint }) {
    const text = [what, hint ?? ""].filter(Boolean).map(sentence).join(" ");
    const told = [...byId("recording-notes").children].some((item) => item.textContent === text);
    if (!told) byId("recording-notes").append(h("li", {}, text));
  }

  #clearText() {
    this.#edit(false);
    this.transcript.clear();
    this.progress.hide();
    byId("transcript").hidden = true;
    byId("transcript-foot").hidden = true;
    byId("transcript-ending").textContent = "";
    byId("undo-edit").hidden = true;
    byId("unfinished").hidden = byId("heard-live").hidden = true;
    this.#doubt(null);
  }

  /** Shows nothing. */
  clear() {
    this.expect("");
    byId("recording").hidden = true;
    byId("transcript-empty").hidden = false;
    this.state = "empty";
  }

  /** @param {number | null} share of the text that may be a guess */
  #doubt(share) {
    this.share = share;
    this.guess.show(share);
  }

  /** Prepares for new text. @param {string} task @param {string} said announced to screen readers */
  begin(task, said) {
    this.#clearText();
    this.task = task;
    this.#showLanguage(null);
    byId("metric-factor").textContent = "–";
    this.resume(said);
  }

  /** Prepares for text that follows what is there. @param {string} said announced to screen readers */
  resume(said) {
    this.transcript.dropStopped();
    byId("transcript-empty").hidden = true;
    byId("transcript").hidden = false;
    byId("unfinished").hidden = byId("heard-live").hidden = true;
    byId("transcript-ending").textContent = "";
    this.state = "working";
    this.announcer.say(said);
  }

  /** @param {import("../../shared/protocol.js").TaskEvent} event */
  event(event) {
    if (event.type === "segment") {
      const named = event.speaker && event.speaker !== this.transcript.segments.at(-1)?.speaker ? `${event.speaker}: ` : "";
      this.transcript.add(event);
      this.announcer.add(`${named}${event.text.trim()}. `);
    } else if (event.type === "partial") this.transcript.partial(event.text, event.start);
    else if (event.type === "language") this.#showLanguage(event.code);
    else if (event.type === "metric" && event.name === "speed") this.#showFactor(event.value);
    else if (event.type === "notice") this.#note(event);
    else if (event.type === "doubt") this.#doubt(event.share);
    else if (event.type === "progress") this.#showProgress(event);
  }

  /** @param {import("../../shared/protocol.js").ProgressEvent} event */
  #showProgress({ what, done, total, unit }) {
    const text = what.charAt(0).toUpperCase() + what.slice(1);
    const size = unit === "seconds" ? clock : unit === "bytes" ? megabytes : null;
    const far = size ? ` ${size(done)}${total ? ` of ${size(total)}` : ""}` : "…";
    this.progress.show(text + far, done, total);
  }

  /** @param {string | null} code null: not known */
  #showLanguage(code) {
    this.language = code;
    const spoken = this.task === "translate" ? "en" : code;
    if (spoken) byId("transcript").lang = spoken;
    else byId("transcript").removeAttribute("lang");
    byId("metric-language").textContent = code === null ? "–" : new Intl.DisplayNames(undefined, { type: "language" }).of(code) ?? code;
  }

  /** @param {number} factor seconds of sound in a second */
  #showFactor(factor) {
    byId("metric-factor").textContent = `${factor < 10 ? factor.toFixed(1) : Math.round(factor)}×`;
  }

  #count() {
    const words = this.transcript.text.split(/\s+/).filter(Boolean).length;
    byId("metric-words").textContent = words.toLocaleString("en");
    return words;
  }

  /** No more text arrives. @param {boolean} interrupted keeps the text that could still change */
  interrupt(interrupted = true) {
    this.transcript.end(interrupted, this.recording?.overview.duration);
  }

  /** @param {import("../../shared/protocol.js").DoneEvent} done */
  end(done) {
    this.interrupt(done.reason === "cancelled");
    this.progress.hide();
    if (done.language) this.#showLanguage(done.language);
    const words = this.#count();
    const found = this.transcript.segments.length > 0;
    const text = done.reason === "cancelled" ? "You stopped it here." : found ? "" : this.#nothingHeard();
    byId("transcript-ending").textContent = text;
    byId("transcript").hidden = !found;
    byId("transcript-foot").hidden = !found && !text;
    this.sheet.classList.toggle("without-text", !found);
    this.state = "done";
    const doubt = this.share === null ? "" : " It may be a guess.";
    this.announcer.say(found ? `${text || "The transcript is finished."} ${words} words.${doubt}` : text);
  }

  /** Shows a version that was made before. @param {Version} version */
  showVersion(version) {
    this.#clearText();
    this.task = version.task;
    this.transcript.show(version.segments);
    this.#showLanguage(version.language);
    this.#doubt(version.guess);
    this.#count();
    const found = version.segments.length > 0;
    byId("transcript").hidden = !found;
    byId("transcript-foot").hidden = !found && version.complete;
    this.sheet.classList.toggle("without-text", !found);
    byId("transcript-empty").hidden = true;
    if (version.complete && !found) byId("transcript-ending").textContent = this.#nothingHeard();
    this.state = "done";
  }

  /**
   * Offers the versions, and to go on with one that is not finished.
   * @param {Version[]} versions @param {Version | null} shown
   */
  offer(versions, shown) {
    const select = byId("versions");
    present(select.closest("label"), "the label of the versions").hidden = versions.length < 2;
    select.replaceChildren(...versions.map(({ made, model, task, edited }, number) => {
      const time = new Date(made).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      const what = [time, model, task === "translate" ? "into English" : "", edited ? "edited" : ""].filter(Boolean).join(", ");
      return h("option", { value: number }, what);
    }));
    select.value = String(shown ? versions.indexOf(shown) : -1);
    const better = versions.some(({ live, complete, model, task }) => !live && complete && model === shown?.model && task === shown.task);
    byId("heard-live").hidden = !this.recording || !shown?.live || !shown.complete || better || shown.segments.length === 0;
    const time = shown?.again && Number.isFinite(shown.again) ? ` That takes about ${spoken(Math.max(1, Math.round(shown.again)))}.` : "";
    byId("heard-live-text").textContent = `This was heard while the sound came in. With the whole recording the model often hears better.${time}`;
    byId("unfinished").hidden = !this.recording || !shown || shown.complete;
    const end = shown?.reached ? `This transcript ends at ${clock(shown.reached)} of ${clock(this.recording?.overview.duration ?? 0)}.` : shown?.segments.length ? "This transcript is not finished." : "This recording is not transcribed yet.";
    byId("unfinished-text").textContent = end;
  }

  #nothingHeard() {
    if (this.recording?.overview.notices.some(({ what }) => what.includes("silent"))) return "No speech found: the recording is silent.";
    return "No speech found. If the recording contains speech, try a larger model, or choose the language.";
  }

  /**
   * Ends the transcription. The text so far remains.
   * @returns {boolean} whether the sheet is as before: the transcription had not begun
   */
  fail() {
    if (this.state === "preparing" && this.before !== null) {
      this.progress.hide();
      this.announcer.stop();
      this.state = this.before;
      return true;
    }
    this.interrupt();
    this.progress.hide();
    this.announcer.stop();
    const found = this.transcript.segments.length > 0;
    byId("transcript-foot").hidden = !found;
    if (found) this.#count();
    this.state = this.recording ? "done" : "empty";
    byId("recording").hidden = !this.recording;
    byId("transcript").hidden = !found;
    byId("transcript-empty").hidden = Boolean(this.recording) || found;
    return false;
  }

  contents() {
    const { segments } = this.transcript;
    return {
      name: this.recording?.name ?? "recording",
      segments,
      language: this.language,
      duration: this.recording?.overview.duration ?? segments.at(-1)?.end ?? 0,
      task: this.task,
      guess: this.share,
    };
  }

  /** The recording as a file to save. @returns {File | null} */
  sound() {
    if (!this.recording) return null;
    const { name, original } = this.recording;
    const ending = (original instanceof File && original.name.match(/\.[^.]{1,5}$/)?.[0]) || ".wav";
    return new File([original], `${stem(name)}${ending}`, { type: original.type });
  }
}

/** @param {Overview} overview */
function factsOf({ duration, rate, channels }) {
  const kilohertz = (rate / 1000).toLocaleString("en", { maximumFractionDigits: 2 });
  const tracks = counted(channels, "channel");
  return `${clock(duration)} · ${tracks} · ${kilohertz} kHz`;
}

/** @param {string} text */
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
