/**
 * What views have in common that are fetched when they are first opened: the button that starts and stops their work, its progress,
 * what they announce, their errors with what mends them, and the cards of their history and their model.
 */
import { HistoryCard } from "../history/history-card.js";
import { Announcer } from "./announcer.js";
import { byId, find } from "./dom.js";
import { clearError, showError } from "./errors.js";
import { ModelCard } from "./model-card.js";
import { ProgressLine } from "./progress-line.js";
import { RunButton } from "./run-button.js";

/** A view whose elements are there, with `name` at the beginning of their ids. It says which models it chooses from, and loads them: `choice`, `load`. */
export class WorkingView {
  /**
   * @param {import("./app.js").App} app @param {import("./models.js").Models} models @param {HTMLElement} view
   * @param {string} name @param {string} button the rest of the id of the button that starts the work @param {string} status as RunButton has it
   */
  constructor(app, models, view, name, button, status) {
    this.app = app;
    this.models = models;
    this.view = view;
    this.name = name;
    this.engine = app.engine;
    this.actions = { ...app.actions, models: () => models.open(this.choice) };
    this.announcer = new Announcer(byId(`${name}-announcer`));
    this.slot = byId(`${name}-error`);
    app.errorSlots.push(this.slot);
    this.progress = new ProgressLine(byId(`${name}-progress`));
    this.button = new RunButton(app, byId(`${name}-${button}`), this.slot, status, this.actions);
  }

  /** The models for what the view does. @returns {import("./model-choice.js").ModelChoice} */
  get choice() {
    throw new TypeError("A view says which models it chooses from.");
  }

  /** Loads the chosen model before it is needed. @returns {unknown} */
  load() {
    throw new TypeError("A view loads its model.");
  }

  /** Shows what models the view offers, as long as it needs one. @returns {unknown} */
  offer() {
    throw new TypeError("A view of one model card offers models.");
  }

  /** Another model is chosen. @param {CustomEvent} event */
  chosen({ detail }) {
    if (!detail?.listed && !this.button.running) clearError(this.slot); // the error of a start stays to be read
    this.offer();
    this.load();
  }

  /** The card of what the view keeps, in the column at the side. @param {import("../history/history-store.js").HistoryStore} store
   * @param {import("../history/history-card.js").HistoryActions} actions @param {string} [title] as HistoryCard has it */
  historyCard(store, actions, title) {
    return new HistoryCard(find(this.view, ".workspace-side"), store, actions, this.actions, title);
  }

  /** Shows the card of the model, which is loaded from now on. */
  showModel() {
    new ModelCard(byId(`${this.name}-model`), this.choice, this.models, this.announcer);
    this.choice.addEventListener("model", (/** @type {any} */ event) => this.chosen(event));
    this.choice.addEventListener("models", () => this.offer());
    this.loadWhenShown();
    this.choice.dispatchEvent(new CustomEvent("model")); // the card was not there when it was chosen
  }

  /** Loads the model as soon as the engine is there, and the view is shown. */
  loadWhenShown() {
    this.app.addEventListener("ready", () => this.load());
    this.view.addEventListener("shown", () => this.load());
  }

  /** Does something whose errors are shown, with a button that tries it again. @param {() => unknown} work */
  async attempt(work) {
    try {
      clearError(this.slot);
      await work();
    } catch (error) {
      showError(this.slot, error, { ...this.actions, retry: () => this.attempt(work) });
    }
  }
}
