/**
 * What views have in common that are fetched when they are first opened: the button that starts and stops their work, its progress,
 * what they announce, and their errors with what mends them.
 */
import { Announcer } from "./announcer.js";
import { byId } from "./dom.js";
import { clearError, showError } from "./errors.js";
import { ProgressLine } from "./progress-line.js";
import { RunButton } from "./run-button.js";

/** A view whose elements are there, with `name` at the beginning of their ids. It says which models it chooses from: `choice`. */
export class WorkingView {
  /**
   * @param {import("./app.js").App} app @param {import("./models.js").Models} models @param {HTMLElement} view
   * @param {string} name @param {string} button the rest of the id of the button that starts the work @param {string} status as RunButton has it
   */
  constructor(app, models, view, name, button, status) {
    this.app = app;
    this.models = models;
    this.view = view;
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
