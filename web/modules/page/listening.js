/**
 * Speaks texts with the chosen voice: each sentence is heard as soon as it is computed. One text is spoken at a time.
 *
 * @typedef {{app: import("./app.js").App, models: import("./models.js").Models, slot: HTMLElement, button: HTMLElement, sound: AudioContext,
 *   text: string}} Wish `sound` is open since the press of `button`
 */
import { UserError } from "../shared/protocol.js";
import { h } from "./dom.js";
import { clearError, showError } from "./errors.js";

const AHEAD = 0.05; // seconds between the arrival of a sentence and its sound
const PATIENCE = 3000; // ms until the first sentence must be heard: some loudspeakers need a while
const LOOK = 200; // ms between two looks at whether it is

/** What is spoken now. @type {Speech | null} */
let current = null;

/** Speaks a text, or stops it if its button was pressed. @param {Wish} wish */
export async function listen(wish) {
  const { app, models, slot, button, sound } = wish;
  const before = current;
  before?.stop();
  if (before?.button === button) return void sound.close();
  const speech = (current = new Speech(wish));
  const choose = () => models.open(app.choices.speak);
  clearError(slot);
  try {
    await app.listed(speech.signal);
    const { model } = app.choices.speak;
    if (model) await speech.run(model, choose);
    else choose();
  } catch (error) {
    showError(slot, error, { ...app.actions, models: choose, retry: () => button.click() });
  } finally {
    speech.end();
    if (current === speech) current = null;
  }
}

/** A text that is spoken. */
class Speech {
  /** @param {Wish} wish */
  constructor({ app, button, sound, text }) {
    this.app = app;
    this.button = button;
    this.sound = sound;
    this.text = text;
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    this.label = button.textContent ?? "";
    this.name = button.getAttribute("aria-label") ?? "";
    /** When the sentences so far end, in seconds of the sound. */
    this.due = 0;
    /** When the first one came, in ms of the page. @type {number | null} */
    this.begun = null;
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.isComposing && !event.defaultPrevented && !document.querySelector("dialog[open]")) this.stop();
    }, { signal: this.signal });
    button.dataset.spoken = "0"; // sentences, for tests
    button.textContent = "Stop";
    button.setAttribute("aria-label", "Stop speaking");
  }

  /** @param {import("./model-choice.js").ListedModel} model @param {() => void} choose another one */
  async run(model, choose) {
    const { button, signal, app } = this;
    const other = h("button", { type: "button", class: "quiet other-voice", onclick: choose, title: `The voice is ${model.title}` }, "Another voice…");
    for (const older of document.querySelectorAll(".other-voice")) older.remove();
    button.after(other);
    const end = app.begin("Speaking");
    try {
      await app.engine.call("speak", { model: model.id, text: this.text }, { signal, onEvent: (event) => event.type === "sound" && this.#play(event) });
      while (this.due > this.sound.currentTime && !this.mute && !signal.aborted) await new Promise((resolve) => {
        setTimeout(resolve, Math.min((this.due - this.sound.currentTime) * 1000, LOOK));
        signal.addEventListener("abort", resolve, { once: true });
      });
      if (this.mute) throw new UserError("The browser does not play the sound.", { hint: "Connect loudspeakers or headphones, permit this page to play sound, then press Listen again." });
    } finally {
      end();
    }
  }

  /** Whether the browser plays nothing: there is no loudspeaker, or it does not let the page. */
  get mute() {
    return this.begun !== null && performance.now() - this.begun > PATIENCE && this.sound.currentTime === 0;
  }

  /** @param {import("../shared/protocol.js").SoundEvent} event */
  #play({ pcm, rate }) {
    if (this.signal.aborted) return;
    this.begun ??= performance.now();
    if (this.mute) return this.stop();
    const bytes = Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (value) => value / 32768);
    const buffer = this.sound.createBuffer(1, samples.length, rate);
    buffer.copyToChannel(samples, 0);
    const player = new AudioBufferSourceNode(this.sound, { buffer });
    player.connect(this.sound.destination);
    const start = Math.max(this.due, this.sound.currentTime + AHEAD);
    player.start(start);
    this.due = start + buffer.duration;
    this.button.dataset.spoken = String(Number(this.button.dataset.spoken) + 1);
  }

  stop() {
    this.controller.abort();
  }

  end() {
    this.stop();
    this.sound.close();
    this.button.textContent = this.label;
    this.button.setAttribute("aria-label", this.name);
  }
}
