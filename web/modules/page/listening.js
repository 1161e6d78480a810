/**
 * Speaks texts with the chosen voice: each sentence is heard as soon as it is computed. One text is spoken at a time.
 *
 * @typedef {{app: import("./app.js").App, models: import("./models.js").Models, slot: HTMLElement, button: HTMLElement, sound: AudioContext,
 *   text: string}} Wish `sound` is open since the press of `button`
 */
import { SoundQueue, samplesOf } from "../audio/sound-queue.js";
import { h } from "./dom.js";
import { clearError, showError } from "./errors.js";

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
    this.text = text;
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    this.label = button.textContent ?? "";
    this.name = button.getAttribute("aria-label") ?? "";
    this.queue = new SoundQueue(sound, this.signal);
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
      await this.queue.ended();
      this.queue.check("Listen");
    } finally {
      end();
    }
  }

  /** @param {import("../shared/protocol.js").SoundEvent} event */
  #play({ pcm, rate }) {
    if (this.signal.aborted) return;
    if (this.queue.mute) return this.stop();
    this.queue.add(samplesOf(pcm), rate);
    this.button.dataset.spoken = String(Number(this.button.dataset.spoken) + 1);
  }

  stop() {
    this.controller.abort();
  }

  end() {
    this.stop();
    this.queue.close();
    this.button.textContent = this.label;
    this.button.setAttribute("aria-label", this.name);
  }
}
