/**
 * The button that starts work of the engine and stops it: its label, the signal to stop, Escape, the status, errors.
 */
import { clearError, showError } from "./errors.js";

export class RunButton {
  /**
   * @param {import("./app.js").App} app
   * @param {HTMLElement} button its text is the label while nothing runs
   * @param {HTMLElement} slot where errors are shown
   * @param {string} status what the engine is doing meanwhile, in a word
   */
  constructor(app, button, slot, status) {
    Object.assign(this, { app, button, slot, status });
    this.label = button.textContent;
    /** @type {AbortController | null} */
    this.controller = null;
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.running && !document.querySelector("dialog[open]")) this.stop();
    });
    app.engine.addEventListener("silent", () => this.running && this.#silent());
    app.engine.addEventListener("answering", () => this.running && clearError(slot));
  }

  get running() {
    return this.controller !== null;
  }

  stop() {
    this.controller?.abort();
    this.button.textContent = "Stopping…";
  }

  /**
   * @param {(signal: AbortSignal) => Promise<void>} work
   * @param {{fail: () => void, retry: () => void}} otherwise `fail` puts the view in order before the error is shown
   */
  async run(work, { fail, retry }) {
    const controller = (this.controller = new AbortController());
    this.button.textContent = "Stop";
    this.button.dataset.state = "running";
    clearError(this.slot);
    const end = this.app.begin(this.status);
    try {
      await work(controller.signal);
    } catch (error) {
      fail();
      showError(this.slot, error, { ...this.app.actions, retry });
    } finally {
      this.controller = null;
      this.button.textContent = this.label;
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
