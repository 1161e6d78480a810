/**
 * What the page has of the list of models from its start: it opens the dialog, which is fetched when it is first needed, and
 * tells each worker the precision of models.
 *
 * @typedef {{controller: AbortController, progress: {what: string, done?: number, total?: number | null}}} Download
 */
import { importPart } from "../shared/site-parts.js";
import { byId, memory } from "./dom.js";
import { failedPart, showError } from "./errors.js";

export class Models {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** Downloads and copies that run, by the id of their model. @type {Map<string, Download>} */
    this.downloads = new Map();
    /** @type {Promise<import("./model-dialog.js").ModelDialog> | null} */
    this.dialog = null;
    app.actions.models = () => this.open(app.choices[app.shownTask()]);
    app.engine.addEventListener("restarted", () => this.#tell());
    this.#tell();
  }

  /** "fast": floating-point weights become 8-bit when a model is loaded; "exact": as in the file. */
  get precision() {
    return memory.get("precision", "fast") === "exact" ? "exact" : "fast";
  }

  /** @param {"fast" | "exact"} value */
  set precision(value) {
    memory.set("precision", value);
    this.#tell();
  }

  /** The worker answers in order: models that are loaded after this have the precision. */
  #tell() {
    this.app.engine.call("models.precision", { precision: this.precision }).catch(() => {}); // a worker that failed has said so
  }

  #load() {
    this.dialog ??= importPart("modules/page/model-dialog.js").then(({ ModelDialog }) => new ModelDialog(this)).catch((error) => {
      this.dialog = null;
      throw failedPart("The list of models could not be loaded.", error);
    });
    return this.dialog;
  }

  /**
   * @param {import("./model-choice.js").ModelChoice} [choice] by default the last one
   * @param {string} [id] the model to show first @param {string} [name] to look up on the hub
   */
  async open(choice, id, name) {
    (await this.#loaded(() => this.open(choice, id, name)))?.open(choice, id, name);
  }

  /** The dialog; null where it could not be loaded, which the shown view says. @param {() => unknown} retry */
  async #loaded(retry) {
    try {
      return await this.#load();
    } catch (error) {
      const shown = this.app.errorSlots.filter((slot) => !slot.closest("[hidden]"));
      for (const slot of shown) showError(slot, error, { retry });
      return null;
    }
  }

  /**
   * Takes files of the file field, or dropped on the page.
   * @param {File[]} files @param {import("./model-choice.js").ModelChoice} [choice] @param {string} [folder] that contained them
   */
  async addFiles(files, choice, folder) {
    const dialog = await this.#loaded(() => this.addFiles(files, choice, folder));
    try {
      await dialog?.addFiles(files, choice, folder);
    } catch (error) {
      showError(byId("model-error"), error, this.app.actions);
    }
  }
}
