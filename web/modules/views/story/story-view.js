/**
 * The story view: a prompt, the settings, Generate and Stop, and the sheet.
 */
import { byId, copyText, h, memory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { ModelCard } from "../../page/model-card.js";
import { RunButton } from "../../page/run-button.js";
import { SettingsFields } from "../../page/settings-fields.js";
import { isShown } from "../../page/shell.js";
import { StoryOutput } from "./story-output.js";

const OPENINGS = ["Once upon a time, there was a little", "Long ago, there was a young dragon", "Mia was a clever"];

export class StoryView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models */
  constructor(app, models) {
    this.app = app;
    this.engine = app.engine;
    this.choice = app.choices.generate;
    this.view = byId("view-story");
    this.settings = new SettingsFields(byId("settings-fields"));
    this.output = new StoryOutput();
    this.prompt = byId("prompt");
    this.button = new RunButton(app, byId("generate"), byId("story-error"), "Writing");
    new ModelCard(byId("story-model"), this.choice, models, this.output.announcer);
    this.#listen();
    this.#fillPrompt();
    this.choice.addEventListener("model", () => this.#load());
    app.addEventListener("ready", () => this.#load());
    this.view.addEventListener("shown", () => this.#load());
  }

  #listen() {
    byId("story-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.generate();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        byId("story-form").requestSubmit();
      }
    });
    this.prompt.addEventListener("input", () => this.#fit());
    byId("copy").addEventListener("click", ({ target }) => copyText(target, this.output.text, byId("story-text")));
  }

  #fillPrompt() {
    this.prompt.value = memory.get("prompt", OPENINGS[0]);
    byId("openings").append(...OPENINGS.map((text) => h("button", { type: "button", class: "chip", onclick: () => {
      this.prompt.value = text;
      this.#fit();
      this.prompt.focus();
    } }, `${text.replace(/,$/, "")}…`)));
    this.#fit();
    this.view.addEventListener("shown", () => this.#fit());
  }

  /** Makes the field as tall as its text, up to the limit of the style. */
  #fit() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = `${this.prompt.scrollHeight}px`;
  }

  /** Loads the chosen model before it is needed, and shows its errors. */
  async #load() {
    const { model } = this.choice;
    if (!model || this.loading === model || this.button.running || !isShown(this.view)) return;
    this.loading = model;
    clearError(byId("story-error"));
    const { progress } = this.output;
    const onEvent = (event) => event.type === "progress" && progress.show(`${event.what}…`, event.done, event.total);
    try {
      const { config } = await this.engine.call("load", { model: model.id }, { onEvent });
      if (config?.max_seq_len && this.choice.model === model) this.settings.limitLength(config.max_seq_len);
    } catch (error) {
      if (this.choice.model === model) showError(byId("story-error"), error, this.app.actions);
    } finally {
      if (this.loading === model) this.loading = null;
      if (!this.button.running) progress.hide();
    }
  }

  generate() {
    const prompt = this.prompt.value;
    const options = this.settings.options();
    memory.set("prompt", prompt.slice(0, 10000));
    this.output.begin(prompt, options.seed);
    if (!this.engine.about) this.output.progress.show("Starting the engine…");
    return this.button.run(async (signal) => {
      await this.app.listed();
      const params = { model: this.choice.model.id, prompt, options };
      const done = await this.engine.call("generate", params, { signal, onEvent: (event) => this.#event(event) });
      this.output.end(done.reason, done.new_tokens);
    }, { fail: () => this.output.fail(), retry: () => this.generate() });
  }

  /** Begins the story with a text file. The field can undo it. @param {File[]} files one file */
  async drop([file]) {
    this.prompt.focus();
    this.prompt.select();
    document.execCommand("insertText", false, (await file.text()).trim());
  }

  #event(event) {
    if (event.type === "token") this.output.token(event);
    else if (event.type === "metric") this.output.metric(event);
    else if (event.type === "progress" && this.output.firstToken === null) {
      const what = event.what === "prompt" ? "Reading the beginning" : event.what;
      this.output.progress.show(`${what}…`, event.done, event.total);
    }
  }
}
