/**
 * The sheet of the transcribe view: the recording with its player, the text as it arrives, the figures, and the buttons for
 * the text.
 */
import { Announcer } from "../../page/announcer.js";
import { byId, copyText, h } from "../../page/dom.js";
import { Player } from "./player.js";
import { ProgressLine } from "../../page/progress-line.js";
import { clock } from "./times.js";
import { Transcript } from "./transcript.js";
import { setUpDownloads } from "./transcript-export.js";

/**
 * @typedef {{duration: number, rate: number, channels: number, peaks: number[],
 *   notices: import("../../shared/protocol.js").NoticeEvent[]}} Overview
 * @typedef {{name: string, wav: Blob, original: Blob, overview: Overview}} Recording
 */

const SCROLL_PATIENCE = 4000; // ms without automatic scrolling after the reader has scrolled

export class TranscriptSheet {
  /** @param {import("../../page/app.js").App} app */
  constructor(app) {
    this.sheet = byId("transcript-sheet");
    this.announcer = new Announcer(byId("transcribe-announcer"));
    this.progress = new ProgressLine(byId("transcribe-progress"));
    this.player = new Player();
    this.transcript = new Transcript(byId("transcript"));
    /** @type {Recording | null} */
    this.recording = null;
    this.language = null;
    this.task = "transcribe";
    setUpDownloads(app, byId("downloads"), () => this.contents());
    this.#listen();
  }

  #listen() {
    let scrolled = -Infinity;
    for (const type of ["wheel", "touchmove"]) addEventListener(type, () => (scrolled = performance.now()), { passive: true });
    this.transcript.addEventListener("play", ({ detail }) => this.player.playFrom(detail));
    this.transcript.addEventListener("edited", () => this.#count());
    this.player.addEventListener("time", ({ detail }) =>
      this.transcript.mark(detail, this.player.playing && performance.now() - scrolled > SCROLL_PATIENCE));
    byId("copy-transcript").addEventListener("click", ({ target }) => copyText(target, this.transcript.text, byId("transcript")));
    byId("edit-transcript").addEventListener("click", () => this.#edit(!this.transcript.editing));
  }

  #edit(editing) {
    this.transcript.setEditing(editing);
    const button = byId("edit-transcript");
    button.setAttribute("aria-pressed", String(editing));
    button.textContent = editing ? "Done editing" : "Edit text";
  }

  set state(state) {
    this.sheet.dataset.state = state;
  }

  get state() {
    return this.sheet.dataset.state;
  }

  /** Clears the sheet for another recording. @param {string} name */
  expect(name) {
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
    const text = [what, hint].filter(Boolean).map(sentence).join(" ");
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
  }

  /** Prepares for new text. @param {string} task @param {string} said announced to screen readers */
  begin(task, said) {
    this.#clearText();
    this.task = task;
    this.language = null;
    this.started = performance.now();
    byId("transcript-empty").hidden = true;
    byId("transcript").hidden = false;
    byId("metric-factor").textContent = "–";
    byId("metric-language").textContent = "–";
    this.state = "working";
    this.announcer.say(said);
  }

  /** @param {import("../../shared/protocol.js").TaskEvent} event */
  event(event) {
    if (event.type === "segment") {
      this.transcript.add(event);
      this.announcer.add(`${event.text.trim()}. `);
    } else if (event.type === "partial") this.transcript.partial(event.text, event.start);
    else if (event.type === "language") this.#showLanguage(event.code);
    else if (event.type === "metric" && event.name === "speed") this.#showFactor(event.value);
    else if (event.type === "notice") this.#note(event);
    else if (event.type === "progress") this.#showProgress(event);
  }

  #showProgress({ what, done, total, unit }) {
    const text = what.charAt(0).toUpperCase() + what.slice(1);
    const far = unit === "seconds" ? ` ${clock(done)}${total ? ` of ${clock(total)}` : ""}` : "…";
    this.progress.show(text + far, done, total);
  }

  #showLanguage(code) {
    this.language = code;
    byId("metric-language").textContent = new Intl.DisplayNames(undefined, { type: "language" }).of(code) ?? code;
  }

  /** @param {number} factor seconds of sound in a second */
  #showFactor(factor) {
    byId("metric-factor").textContent = `${factor < 10 ? factor.toFixed(1) : Math.round(factor)}×`;
  }

  #count() {
    const words = this.transcript.text.split(/\s+/).filter(Boolean).length;
    byId("metric-words").textContent = words.toLocaleString();
    return words;
  }

  /** @param {import("../../shared/protocol.js").DoneEvent} done */
  end(done) {
    this.transcript.end();
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
    this.announcer.say(found ? `${text || "The transcript is finished."} ${words} words.` : text);
  }

  #nothingHeard() {
    if (this.recording?.overview.notices.some(({ what }) => what.includes("silent"))) return "No speech found: the recording is silent.";
    return "No speech found. If the recording contains speech, try a larger model, or choose the language.";
  }

  /** Ends the transcription. The text so far remains. */
  fail() {
    this.transcript.end();
    this.progress.hide();
    this.announcer.stop();
    const found = this.transcript.segments.length > 0;
    byId("transcript-foot").hidden = !found;
    if (found) this.#count();
    this.state = this.recording ? "done" : "empty";
    byId("recording").hidden = !this.recording;
    byId("transcript").hidden = !found;
    byId("transcript-empty").hidden = Boolean(this.recording) || found;
  }

  contents() {
    const { segments } = this.transcript;
    return {
      name: this.recording?.name ?? "recording",
      segments,
      language: this.language,
      duration: this.recording?.overview.duration ?? segments.at(-1)?.end ?? 0,
      task: this.task,
    };
  }
}

/** @param {Overview} overview */
function factsOf({ duration, rate, channels }) {
  const kilohertz = (rate / 1000).toLocaleString(undefined, { maximumFractionDigits: 2 });
  const tracks = channels === 1 ? "1 channel" : `${channels} channels`;
  return `${clock(duration)} · ${tracks} · ${kilohertz} kHz`;
}

/** @param {string} text */
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
