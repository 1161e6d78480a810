/**
 * The button that starts and stops work of the engine: its label, the signal to stop, the Escape key, the status, errors.
 */
import { clearError, showError } from "./errors.js";

export class RunButton {
  /**
   * @param {import("./app.js").App} app
   * @param {HTMLElement} button its text is the label while nothing runs
   * @param {HTMLElement} slot shows errors
   * @param {string} status the engine's status while it works, in one word
   * @param {Record<string, () => void>} [actions] of errors' buttons
   */
  constructor(app, button, slot, status, actions = app.actions) {
    this.app = app;
    this.actions = actions;
    this.button = button;
    this.slot = slot;
    this.status = status;
    this.text = button.querySelector(".label") ?? button;
    this.label = this.text.textContent;
    /** What Stop does instead of an abort; null: an abort. @type {(() => void) | null} */
    this.gently = null;
    this.over = Promise.resolve();
    /** @type {AbortController | null} */
    this.controller = null;
    // The second half of a double click is no wish to stop what the first half began.
    button.addEventListener("click", (event) => {
      if (event.detail < 2 || !this.running) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    }, { capture: true });
    const view = /** @type {HTMLElement | null} */ (button.closest(".view"));
    document.addEventListener("keydown", (event) => {
      // Work of a view that is not shown goes on; so does it when Escape closes something else, or takes back letters of an input method.
      const meant = event.key === "Escape" && !event.isComposing && !event.defaultPrevented && !view?.hidden && !document.querySelector("dialog[open]");
      if (meant && this.running) this.stop();
    });
    app.engine.addEventListener("silent", () => this.running && this.#silent());
    app.engine.addEventListener("answering", () => this.running && clearError(slot));
  }

  get running() {
    return this.controller !== null;
  }

  stop() {
    const { gently, controller } = this;
    if (!controller) return;
    this.gently = null;
    if (gently) gently();
    else controller.abort();
    this.text.textContent = gently ? "Finishing…" : "Stopping…";
  }

  /** Says that the work can be stopped, after Stop has ended a part of it gently. */
  offerStop() {
    if (this.running) this.text.textContent = "Stop";
  }

  /** @param {string} label while nothing runs */
  setLabel(label) {
    this.label = label;
    if (!this.running) this.text.textContent = label;
  }

  /** Stops the work immediately, and waits for its end. */
  async interrupt() {
    this.controller?.abort();
    await this.over;
  }

  /**
   * @param {(signal: AbortSignal) => Promise<void>} work
   * @param {{fail: () => void, retry: () => void}} otherwise `fail` updates the view before the error is shown
   */
  run(work, { fail, retry }) {
    this.over = this.#run(work, fail, retry);
    return this.over;
  }

  /** @param {(signal: AbortSignal) => Promise<void>} work @param {() => void} fail @param {() => void} retry */
  async #run(work, fail, retry) {
    const controller = (this.controller = new AbortController());
    this.text.textContent = "Stop";
    this.button.dataset.state = "running";
    clearError(this.slot);
    const end = this.app.begin(this.status);
    try {
      await work(controller.signal);
    } catch (error) {
      fail();
      showError(this.slot, error, { ...this.actions, retry });
    } finally {
      this.controller = this.gently = null;
      this.text.textContent = this.label;
      delete this.button.dataset.state;
      end();
    }
  }

  #silent() {
    showError(this.slot, {
      type: "error",
      what: "The engine has not answered for 20 seconds.",
      hint: "A large model on a slow device may need this long. You can wait, or restart the engine.",
      action: "restart",
    }, this.app.actions);
  }
}
