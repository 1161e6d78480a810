/**
 * What the page has of the list of models from its start: it opens the dialog, which is fetched when it is first needed, and
 * tells each worker the precision of models.
 *
 * @typedef {{controller: AbortController | null, progress: {what: string, done?: number, total?: number | null}}} Download
 */
import { siteUrl } from "../shared/site.js";
import { byId, memory } from "./dom.js";
import { showError } from "./errors.js";

export class Models {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** Downloads and copies that run, by the id of their model. @type {Map<string, Download>} */
    this.downloads = new Map();
    /** @type {Promise<import("./model-dialog.js").ModelDialog> | null} */
    this.dialog = null;
    app.actions.models = () => this.open();
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
    this.dialog ??= import(siteUrl("modules/page/model-dialog.js")).then(({ ModelDialog }) => new ModelDialog(this)).catch((error) => {
      this.dialog = null;
      throw { type: "error", what: "The list of models could not be loaded.", where: String(error), hint: "Check your connection, then try again." };
    });
    return this.dialog;
  }

  /**
   * @param {import("./model-choice.js").ModelChoice} [choice] by default the last one
   * @param {string} [id] the model to show first @param {string} [name] to look up on the hub
   */
  async open(choice, id, name) {
    try {
      (await this.#load()).open(choice, id, name);
    } catch (error) {
      this.app.errorSlots.forEach((slot) => showError(slot, error, { ...this.app.actions, retry: () => this.open(choice, id, name) }));
    }
  }

  /**
   * Takes files of the file field, or dropped on the page.
   * @param {File[]} files @param {import("./model-choice.js").ModelChoice} [choice] @param {string} [folder] that contained them
   */
  async addFiles(files, choice, folder) {
    try {
      await (await this.#load()).addFiles(files, choice, folder);
    } catch (error) {
      showError(byId("model-error"), error, this.app.actions);
    }
  }
}
