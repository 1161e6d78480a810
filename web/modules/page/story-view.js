/**
 * The story view: a prompt, the settings, Generate and Stop, and the sheet.
 */
import { byId, h, memory } from "./dom.js";
import { clearError, showError } from "./errors.js";
import { SettingsFields } from "./settings-fields.js";
import { StoryOutput } from "./story-output.js";

const OPENINGS = ["Once upon a time, there was a little", "Long ago, there was a young dragon", "Mia was a clever"];

export class StoryView {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.engine = app.engine;
    this.settings = new SettingsFields(byId("settings-fields"));
    this.output = new StoryOutput();
    this.prompt = byId("prompt");
    this.button = byId("generate");
    /** @type {AbortController | null} */
    this.running = null;
    this.#listen();
    this.#fillPrompt();
    app.addEventListener("model", () => (this.#showModel(), this.#load()));
    app.addEventListener("ready", () => this.#load());
    // On a phone the story comes first; the settings wait folded.
    if (matchMedia("(max-width: 60rem)").matches) byId("settings").open = false;
  }

  #listen() {
    byId("story-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.stop();
      else this.generate();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        byId("story-form").requestSubmit();
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.running && !document.querySelector("dialog[open]")) this.stop();
    });
    this.prompt.addEventListener("input", () => this.#fit());
    byId("copy").addEventListener("click", () => this.#copy());
    this.engine.addEventListener("silent", () => this.running && this.#silent());
    this.engine.addEventListener("answering", () => clearError(byId("story-error")));
  }

  #fillPrompt() {
    this.prompt.value = memory.get("prompt", OPENINGS[0]);
    byId("openings").append(...OPENINGS.map((text) => h("button", { type: "button", class: "chip", onclick: () => {
      this.prompt.value = text;
      this.#fit();
      this.prompt.focus();
    } }, `${text.replace(/,$/, "")}…`)));
    this.#fit();
  }

  /** The field grows with its text, up to what the style allows. */
  #fit() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = `${this.prompt.scrollHeight}px`;
  }

  #showModel() {
    const { model } = this.app;
    byId("model-name").textContent = model?.title ?? "No model";
    byId("model-text").textContent = model?.description ?? "";
    if (this.shown && this.shown !== model) this.output.announcer.say(`The model is ${model.title}.`);
    this.shown = model;
  }

  /** Reads the chosen model before it is asked to write; what is wrong with it is said now. */
  async #load() {
    const { model } = this.app;
    if (!model || !this.engine.about || this.running) return;
    clearError(byId("story-error"));
    const onEvent = (event) => event.type === "progress" && this.output.progress(`${event.what}…`, event.done, event.total);
    try {
      const { config } = await this.engine.call("load", { model: model.id }, { onEvent });
      if (config?.max_seq_len && this.app.model === model) this.settings.limitLength(config.max_seq_len);
    } catch (error) {
      if (this.app.model === model) showError(byId("story-error"), error, this.app.actions);
    } finally {
      this.output.noProgress();
    }
  }

  stop() {
    this.running?.abort();
    this.button.textContent = "Stopping…";
  }

  async generate() {
    const prompt = this.prompt.value;
    const options = this.settings.options();
    const controller = new AbortController();
    this.running = controller;
    this.button.textContent = "Stop";
    this.button.dataset.state = "running";
    clearError(byId("story-error"));
    memory.set("prompt", prompt.slice(0, 10000));
    this.output.begin(prompt, options.seed);
    if (!this.engine.about) this.output.progress("Starting the engine…");
    this.app.setBusy(true);
    try {
      await this.app.listed();
      const params = { model: this.app.model.id, prompt, options };
      const done = await this.engine.call("generate", params, { signal: controller.signal, onEvent: (event) => this.#event(event) });
      this.output.end(done.reason, done.new_tokens);
    } catch (error) {
      this.output.fail();
      showError(byId("story-error"), error, { ...this.app.actions, retry: () => this.generate() });
    } finally {
      this.running = null;
      this.button.textContent = "Generate";
      delete this.button.dataset.state;
      this.app.setBusy(false);
    }
  }

  #event(event) {
    if (event.type === "token") this.output.token(event);
    else if (event.type === "metric") this.output.metric(event);
    else if (event.type === "progress" && this.output.firstToken === null) {
      const what = event.what === "prompt" ? "Reading the beginning" : event.what;
      this.output.progress(`${what}…`, event.done, event.total);
    }
  }

  #silent() {
    showError(byId("story-error"), {
      type: "error",
      what: "The engine has not answered for 20 seconds.",
      hint: "A large model on a slow device may need this long. You can wait, or restart the engine.",
      action: "restart",
    }, this.app.actions);
  }

  async #copy() {
    const button = byId("copy");
    try {
      await navigator.clipboard.writeText(this.output.text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(byId("story-text"));
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy text"), 2000);
  }
}
