/**
 * The card with the history of a view. Its list, and the scripts for it, are loaded when it is first open.
 */
import { h } from "../page/dom.js";
import { failedPart, showError } from "../page/errors.js";
import { importPart } from "../shared/site-parts.js";

/**
 * @typedef {import("./history-store.js").HistoryItem} HistoryItem
 * @typedef {{name: string, open: (item: HistoryItem) => void | Promise<void>, renamed?: (id: string, title: string) => unknown,
 *   removed?: (id: string) => unknown, flush?: () => Promise<unknown>, begin?: {label: string, run: () => unknown}}} CommonActions
 * @typedef {{filesOf: (item: HistoryItem) => Promise<import("./history-store.js").KeptFile[]>, oneFile?: undefined}} ManyFiles
 * @typedef {{to: (items: HistoryItem[]) => Promise<Blob>, from: (file: File) => Promise<HistoryItem[]>, textOf: (content: any) => string}} OneFile
 * @typedef {CommonActions & (ManyFiles | {oneFile: OneFile})} HistoryActions
 *   `name` of the exported file, in the plural; `flush` stores what is not stored yet; `begin` is a button for something new. Everything is
 *   exported as ZIP of filesOf, or as one JSON file, which can be imported again (HistoryStore.add explains textOf)
 */

export class HistoryCard {
  /**
   * @param {HTMLElement} side the column that gets the card
   * @param {import("./history-store.js").HistoryStore} store @param {HistoryActions} actions @param {Record<string, () => void>} errorActions
   * @param {string} [title] of a card that is open, at the top of the column; without one it is closed, before the settings or at the end
   */
  constructor(side, store, actions, errorActions, title) {
    this.store = store;
    this.actions = actions;
    this.errorActions = errorActions;
    this.body = h("div", { class: "history-body" });
    /** @type {import("./history-panel.js").HistoryPanel | null} */
    this.panel = null;
    /** @type {string | null} */
    this.current = null;
    this.details = h("details", { class: "card settings history", id: `history-${store.kind}`, open: title !== undefined },
      h("summary", { class: "card-title" }, h("h2", {}, title ?? "Earlier")), this.body);
    this.details.addEventListener("toggle", () => this.refresh(this.current));
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh(this.current)); // another tab may have changed it
    const settings = side.querySelector("details.settings");
    if (title !== undefined) side.prepend(this.details);
    else if (settings) settings.before(this.details);
    else side.append(this.details);
    /** Resolves when the list is there. @type {Promise<void>} */
    this.shown = Promise.resolve();
  }

  async #show() {
    try {
      if (!this.panel) {
        const { HistoryPanel } = await importPart("modules/history/history-panel.js");
        this.panel ??= /** @type {import("./history-panel.js").HistoryPanel} */ (new HistoryPanel(this.body, this.store, this.actions, this.errorActions));
      }
      await this.panel.render(this.current);
    } catch (error) {
      showError(this.body, failedPart("The list could not be loaded.", error), { retry: () => this.refresh(this.current) });
      this.panel = null; // the error is in its place
    }
  }

  /** Saves these entries as one ZIP file. @param {string[]} ids */
  async exportAll(ids) {
    this.details.open = true;
    await this.refresh(this.current);
    await this.panel?.exportAll(ids);
  }

  /** Adds what a file has that was exported here. @param {File} file */
  async importFile(file) {
    this.details.open = true;
    await this.refresh(this.current);
    await this.panel?.importFile(file);
    this.details.scrollIntoView({ block: "nearest" });
  }

  /** Shows the list anew, if it is open. @param {string | null} current the id of what the view shows */
  async refresh(current) {
    this.current = current;
    if (this.details.open) await (this.shown = this.#show());
  }
}
