/**
 * What the views share: the engine and its state, the chosen models, the list of models, the actions of errors.
 */
import { DEFAULT_HUB } from "../shared/registry.js";
import { siteUrl } from "../shared/site.js";
import { byId, memory } from "./dom.js";
import { Engine } from "./engine.js";
import { threadsNow } from "./engine-settings.js";
import { clearRestartError, showError } from "./errors.js";
import { ModelChoice } from "./model-choice.js";
import { ProgressLine } from "./progress-line.js";
import { megabytes } from "../shared/protocol.js";

const PART_PATIENCE = 300; // ms

/**
 * A model from the user's files; `folder` contained them.
 * @typedef {{files: {file: File, path: string}[], task: import("../shared/registry.js").Task, folder?: string}} GivenModel
 */

export class App extends EventTarget {
  /**
   * @param {HTMLElement[]} errorSlots one in each view; they show that the engine does not run
   * @param {() => import("../shared/registry.js").Task} shownTask the task of the view that is shown
   */
  constructor(errorSlots, shownTask) {
    super();
    this.shownTask = shownTask;
    this.errorSlots = errorSlots;
    this.choices = {
      generate: new ModelChoice("generate", "model"),
      transcribe: new ModelChoice("transcribe", "speech-model"),
      chat: new ModelChoice("chat", "chat-model", ["chat", "generate"]),
      embed: new ModelChoice("embed", "search-model"),
      translate: new ModelChoice("translate", "translate-model"),
      read: new ModelChoice("read", "read-model"),
      answer: new ModelChoice("answer", "answer-model"),
      speak: new ModelChoice("speak", "voice"),
      forecast: new ModelChoice("forecast", "forecast-model"),
      detect: new ModelChoice("detect", "detect-model"),
      segment: new ModelChoice("segment", "segment-model"),
      "cut-out": new ModelChoice("cut-out", "cut-out-model"),
      depth: new ModelChoice("depth", "depth-model"),
      "classify-image": new ModelChoice("classify-image", "classify-image-model"),
      "match-image": new ModelChoice("match-image", "match-image-model"),
      "image-to-text": new ModelChoice("image-to-text", "image-to-text-model"),
      "label-sound": new ModelChoice("label-sound", "label-sound-model"),
    };
    this.engine = new Engine(new URL(siteUrl("worker.js")), () => [threadsNow(this.engine), ...this.#shown()]);
    /** Running activities for the status; the last one is shown. @type {string[]} */
    this.work = [];
    this.lastGiven = 0;
    this.arriving = new ProgressLine(byId("engine-progress"));
    /** @type {Promise<void> | null} */
    this.listing = null;
    /** The models from the user's files, by id: an engine that is started anew gets them again. @type {Map<string, GivenModel>} */
    this.given = new Map();
    /** Actions of errors' buttons, by name; other parts of the page set them. @type {Record<string, () => void>} */
    this.actions = { restart: () => this.restart(), reload: () => location.reload() };
    this.engine.addEventListener("notice", ({ detail }) => this.#notice(detail));
    this.engine.addEventListener("restarted", () => this.#restarted());
    addEventListener("part", ({ detail }) => this.#await(detail));
  }

  /** Shows that a part of the page is being fetched, if it is not there at once. @param {Promise<unknown>} part */
  #await(part) {
    let end = () => {};
    const late = setTimeout(() => (end = this.begin("Loading")), PART_PATIENCE);
    part.catch(() => {}).finally(() => {
      clearTimeout(late);
      end();
    });
  }

  /** The task of the current view, and the model chosen for it, if there is one. @returns {string[]} */
  #shown() {
    const choice = this.choices[this.shownTask()];
    const id = choice.model?.id ?? choice.lastId;
    return id ? [choice.task, id] : [choice.task];
  }

  /** The hub's address, as the user set it. */
  get hub() {
    return memory.get("hub", DEFAULT_HUB);
  }

  /** @param {string} address */
  set hub(address) {
    memory.set("hub", address);
  }

  restart() {
    this.engine.restart("The engine was restarted.");
  }

  #restarted() {
    this.arriving.hide();
    this.#status("starting", "Restarting");
    for (const [id, model] of this.given) this.#give(id, model).catch(() => {}); // it has taken them before
    this.refresh().catch(() => (this.listing = null)); // the next use of a model reads it again; a worker that failed has said so
  }

  /** @param {string} id @param {GivenModel} model */
  #give(id, model) {
    return this.engine.call("models.add", { id, ...model });
  }

  /** Gives the engine a model from the user's files. @param {GivenModel} model @returns {Promise<string>} its id */
  async give(model) {
    this.lastGiven += 1;
    const id = `file:${this.lastGiven}`;
    await this.#give(id, model);
    this.given.set(id, model);
    return id;
  }

  /** Forgets a model from the user's files. @param {string} id */
  async takeBack(id) {
    this.given.delete(id);
    await this.engine.call("models.forget", { id });
  }

  /** @param {any} notice of the worker */
  #notice(notice) {
    if (notice.notice === "stage") this.#status("starting", notice.what);
    else if (notice.notice === "bytes") this.#arrives(notice);
    else if (notice.notice === "ready") this.#ready(notice);
    else if (notice.notice === "late") this.#show(notice.event);
    else this.#failed(notice.event);
  }

  /** @param {{done: number, total: number}} bytes of the files that Python needs */
  #arrives({ done, total }) {
    if (this.engine.about) return; // files that are not needed yet arrive after the engine is ready
    const text = done < total ? `Loading the engine: ${megabytes(done)} of ${megabytes(total)}` : "Starting the engine";
    this.arriving.show(text, done, done < total ? total : null);
  }

  /** @param {any} about the worker's message when it was ready */
  #ready(about) {
    this.arriving.hide();
    this.#showWork();
    this.errorSlots.forEach(clearRestartError);
    const instructions = /** @type {Record<string, string>} */ ({ relaxed: "relaxed SIMD", simd128: "SIMD" })[about.instructionSet] ?? about.instructionSet;
    byId("build-info").textContent = `Python in WebAssembly · ${instructions}${about.threads > 1 ? ` · ${about.threads} threads` : ""}${about.isolated ? " · isolated" : ""}`;
    this.dispatchEvent(new CustomEvent("ready", { detail: about }));
  }

  /** @param {import("../shared/protocol.js").ErrorEvent} event */
  #failed(event) {
    this.arriving.hide();
    this.#status("failed", "Not running");
    this.#show(event);
  }

  /** @param {import("../shared/protocol.js").ErrorEvent} event of the engine as a whole */
  #show(event) {
    for (const slot of this.errorSlots) showError(slot, event, this.actions);
  }

  /** @param {string} state @param {string} text */
  #status(state, text) {
    byId("engine-status").dataset.state = state;
    byId("engine-status-text").textContent = text;
  }

  #showWork() {
    const current = this.work.at(-1);
    if (current !== undefined) this.#status("busy", current);
    else this.#status("ready", "Ready");
  }

  get busy() {
    return this.work.length > 0;
  }

  /** Shows an activity of the engine. @param {string} what @returns {() => void} ends the activity */
  begin(what) {
    this.work.push(what);
    if (this.engine.about) this.#showWork();
    return () => {
      this.work.splice(this.work.indexOf(what), 1);
      if (this.engine.about) this.#showWork();
    };
  }

  /**
   * Resolves when there is a model to use. Rejects if the list could not be read.
   * @param {AbortSignal} [signal] of Stop: a worker that then does not answer is replaced
   */
  async listed(signal) {
    this.listing ??= this.refresh();
    const ask = () => this.engine.call("ping", {}, { signal }).catch(() => {});
    signal?.addEventListener("abort", ask, { once: true });
    try {
      await this.listing;
    } catch (error) {
      this.listing = null; // the next call reads it again
      throw error;
    } finally {
      signal?.removeEventListener("abort", ask);
    }
  }

  /** Reads the list of models again. */
  async refresh() {
    const { models } = await this.engine.call("models.list");
    for (const choice of Object.values(this.choices)) choice.offer(models);
  }

  async afterStorageChange() {
    await this.refresh();
    for (const choice of Object.values(this.choices)) choice.dropMissing();
  }
}
