/**
 * What the views share: the engine and its state, the chosen model, the list of models, the actions that errors offer.
 *
 * Fires: "model" (another one is chosen), "models" (the list or a state in it changed).
 */
import { siteUrl } from "../shared/site.js";
import { byId, memory } from "./dom.js";
import { Engine } from "./engine.js";
import { clearError, showError } from "./errors.js";

export const DEFAULT_HUB = "https://huggingface.co/";

export class App extends EventTarget {
  constructor() {
    super();
    this.engine = new Engine(new URL(siteUrl("worker.js")));
    this.model = null;
    this.models = [];
    this.busy = 0;
    /** @type {Promise<void> | null} */
    this.listing = null;
    /** @type {Record<string, () => void>} set by the parts that own them */
    this.actions = { restart: () => this.restart(), reload: () => location.reload() };
    this.engine.addEventListener("notice", ({ detail }) => this.#notice(detail));
    this.engine.addEventListener("restarted", ({ detail }) => this.#restarted(detail.why));
  }

  /** The hub's address, as the user set it. */
  get hub() {
    return memory.get("hub", DEFAULT_HUB);
  }

  set hub(address) {
    memory.set("hub", address);
  }

  restart() {
    this.engine.restart("The engine was restarted.");
  }

  #restarted() {
    this.#status("starting", "Restarting");
    if (this.model?.kind === "file") this.choose(this.models[0]); // the new worker does not have that file
    this.refresh();
  }

  #notice(notice) {
    if (notice.notice === "stage") this.#status("starting", notice.what);
    else if (notice.notice === "ready") this.#ready(notice);
    else this.#failed(notice.event);
  }

  #ready(about) {
    this.#status(this.busy ? "busy" : "ready", this.busy ? "Writing" : "Ready");
    clearError(byId("story-error"));
    const instructions = { relaxed: "relaxed SIMD", simd128: "SIMD" }[about.instructionSet] ?? about.instructionSet;
    byId("build-info").textContent = `Python in WebAssembly · ${instructions}${about.isolated ? " · isolated" : ""}`;
    this.dispatchEvent(new CustomEvent("ready", { detail: about }));
  }

  #failed(event) {
    this.#status("failed", "Not running");
    showError(byId("story-error"), event, this.actions);
  }

  #status(state, text) {
    byId("engine-status").dataset.state = state;
    byId("engine-status-text").textContent = text;
  }

  /** @param {boolean} busy */
  setBusy(busy) {
    this.busy += busy ? 1 : -1;
    if (!this.engine.about) return;
    this.#status(this.busy ? "busy" : "ready", this.busy ? "Writing" : "Ready");
  }

  /** When there is a model to use; fails as reading the list did. */
  async listed() {
    this.listing ??= this.refresh();
    try {
      await this.listing;
    } catch (error) {
      this.listing = null; // the next call asks again
      throw error;
    }
  }

  /** Reads the list of models anew; the first time it also chooses the one of the last visit. */
  async refresh() {
    const { models } = await this.engine.call("models.list");
    this.models = models;
    if (!this.model) {
      const last = models.find((model) => model.id === memory.get("model", null) && model.state === "ready");
      this.choose(last ?? models[0]);
    }
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** A deleted model can be chosen no longer. */
  async afterStorageChange() {
    await this.refresh();
    const model = this.models.find(({ id }) => id === this.model?.id);
    if (model?.state !== "ready") this.choose(this.models[0]);
  }

  /** @param {{id: string, title: string, kind: string}} model */
  choose(model) {
    this.model = model;
    if (model.kind !== "file") memory.set("model", model.id);
    this.dispatchEvent(new CustomEvent("model"));
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** Takes files that were dropped or picked, and chooses the model that they are. @param {File[]} files */
  async addFiles(files) {
    const { id } = await this.engine.call("models.add", { files });
    await this.refresh();
    this.choose(this.models.find((model) => model.id === id));
  }
}
