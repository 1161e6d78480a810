/**
 * The chosen model of a task. The choice is stored for later visits.
 *
 * Fires: "model" (another model is chosen; detail: {listed}, whether by the first list of models), "models" (the list, or a state in it, has changed).
 * @typedef {{id: string, title: string, description?: string, kind: "embedded" | "hub" | "file" | "kept", task?: string,
 *   precision?: string, prompts?: Record<string, string>, state: "ready" | "partial" | "absent", bytes: number, memory: number,
 *   received?: number, samples?: {path: string, title: string}[]}} ListedModel
 */
import { UserError } from "../shared/protocol.js";
import { memory } from "./dom.js";

export class ModelChoice extends EventTarget {
  /**
   * @param {import("../shared/registry.js").Task} task @param {string} remembered the storage key of the choice
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
    this.offered = false;
    /** Whether its model is known to see pictures. */
    this.sees = false;
  }

  /** The model in use. @returns {ListedModel} @throws {UserError} if there is none */
  get present() {
    if (this.model) return this.model;
    throw new UserError("There is no model for this yet.", { hint: "Open the list of models and download one.", action: "models" });
  }

  /** Whether this model is in use. A new list has new objects for the same models. @param {ListedModel} model */
  uses(model) {
    return this.model?.id === model.id;
  }

  /** @returns {string | null} the id of the model of the last visit */
  get lastId() {
    return memory.get(this.remembered, null);
  }

  /** Sets the list of all models. The first call chooses the model of the last visit. @param {ListedModel[]} models */
  offer(models) {
    const place = (/** @type {ListedModel} */ { task = "" }) => this.tasks.indexOf(task);
    this.models = models.filter((model) => place(model) >= 0).sort((a, b) => place(a) - place(b)); // models of its own task first
    const { model: chosen } = this;
    if (chosen) this.model = this.models.find(({ id }) => id === chosen.id) ?? chosen;
    else if (!this.offered) { // later ones are chosen by the list of models, which loads them first
      const last = this.models.find(({ id, state }) => id === this.lastId && state === "ready");
      if (last) this.choose(last, true);
      else this.chooseFirst(true);
    }
    this.offered = true;
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** @param {ListedModel} model @param {boolean} [listed] whether nobody has chosen it: the models were listed */
  choose(model, listed = false) {
    this.model = model;
    if (model.kind !== "file") memory.set(this.remembered, model.id);
    this.dispatchEvent(new CustomEvent("model", { detail: { listed } }));
    this.dispatchEvent(new CustomEvent("models"));
  }

  /** @param {string} id @throws {UserError} if it is not in the list any more: another tab has deleted it */
  chooseById(id) {
    const model = this.models.find((one) => one.id === id);
    if (!model) throw new UserError("This model is no longer stored here.", { hint: "Choose another one, or download it again." });
    this.choose(model);
  }

  /** Chooses the first model that can be used; none if there is none. @param {boolean} [listed] as of `choose` */
  chooseFirst(listed = false) {
    const model = this.models.find(({ kind }) => kind === "embedded") ?? this.models.find(({ state }) => state === "ready");
    if (model) this.choose(model, listed);
    else if (this.model) {
      this.model = null;
      this.dispatchEvent(new CustomEvent("model"));
    }
  }

  /** Chooses another model if the chosen one has been deleted. */
  dropMissing() {
    const { model: chosen } = this;
    if (!chosen) return;
    const model = this.models.find(({ id }) => id === chosen.id);
    if (model?.state !== "ready") this.chooseFirst();
  }
}
