/**
 * The chosen model of a task. The choice is stored for later visits.
 *
 * Fires: "model" (another model is chosen), "models" (the list, or a state in it, has changed).
 * @typedef {{id: string, title: string, description?: string, kind: "embedded" | "hub" | "file", task?: string,
 *   state: "ready" | "partial" | "absent", bytes: number, received?: number, samples?: {path: string, title: string}[]}} ListedModel
 */
import { memory } from "./dom.js";

export class ModelChoice extends EventTarget {
  /**
   * @param {"generate" | "transcribe" | "chat"} task @param {string} remembered the storage key of the choice
   * @param {string[]} [tasks] the tasks whose models are offered
   */
  constructor(task, remembered, tasks = [task]) {
    super();
    this.task = task;
    this.tasks = tasks;
    this.remembered = remembered;
    /** @type {ListedModel | null} */
    this.model = null;
    /** @type {ListedModel[]} */
    this.models = [];
  }

  /** @returns {string | null} the id of the model of the last visit */
  get lastId() {
    return memory.get(this.remembered, null);
  }

  /** Sets the list of all models. The first call chooses the model of the last visit. @param {ListedModel[]} models */
  offer(models) {
    this.models = models.filter(({ task = "generate" }) => this.tasks.includes(task));
    if (!this.model && this.models.length) {
      const last = this.models.find(({ id, state }) => id === this.lastId && state === "ready");
      this.choose(last ?? this.models[0]);
    }
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** @param {ListedModel} model */
  choose(model) {
    this.model = model;
    if (model.kind !== "file") memory.set(this.remembered, model.id);
    this.dispatchEvent(new CustomEvent("model"));
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** @param {string} id */
  chooseById(id) {
    this.choose(this.models.find((model) => model.id === id));
  }

  chooseFirst() {
    if (this.models.length) this.choose(this.models[0]);
  }

  /** Chooses another model if the chosen one has been deleted. */
  dropMissing() {
    const model = this.models.find(({ id }) => id === this.model?.id);
    if (model?.state !== "ready") this.chooseFirst();
  }
}
