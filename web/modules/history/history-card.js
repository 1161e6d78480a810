/**
 * The card "Earlier": the history of a view. Its list, and the scripts for it, are loaded when it is first opened.
 */
import { h } from "../page/dom.js";
import { showError } from "../page/errors.js";
import { siteUrl } from "../shared/site.js";

/**
 * @typedef {import("./history-store.js").HistoryItem} HistoryItem
 * @typedef {{open: (item: HistoryItem) => void | Promise<void>, filesOf: (item: HistoryItem) => Promise<import("./history-store.js").KeptFile[]>,
 *   renamed?: (id: string, title: string) => unknown, removed?: (id: string) => void | Promise<void>, flush?: () => Promise<void>}} HistoryActions
 *   `filesOf`: what is exported of an item; `flush` stores what is not stored yet
 */

export class HistoryCard {
  /**
   * @param {HTMLElement} side the column that gets the card, before the settings
   * @param {import("./history-store.js").HistoryStore} store @param {string} name of the exported file, in the plural
   * @param {HistoryActions} actions @param {Record<string, () => void>} errorActions
   */
  constructor(side, store, name, actions, errorActions) {
    this.store = store;
    this.body = h("div", { class: "history-body" });
    /** @type {import("./history-panel.js").HistoryPanel | null} */
    this.panel = null;
    this.current = null;
    this.details = h("details", { class: "card settings history", id: `history-${store.kind}` },
      h("summary", { class: "card-title" }, h("h2", {}, "Earlier")), this.body);
    this.details.addEventListener("toggle", () => {
      if (this.details.open) this.shown = this.#show(name, actions, errorActions);
    });
    side.querySelector("details.settings").before(this.details);
    /** Resolves when the list is there. @type {Promise<void>} */
    this.shown = Promise.resolve();
  }

  /** @param {string} name @param {HistoryActions} actions @param {Record<string, () => void>} errorActions */
  async #show(name, actions, errorActions) {
    try {
      if (!this.panel) {
        const { HistoryPanel } = await import(siteUrl("modules/history/history-panel.js"));
        this.panel ??= new HistoryPanel(this.body, this.store, name, actions, errorActions);
      }
      await this.panel.render(this.current);
    } catch (error) {
      const failed = { type: "error", what: "The list could not be loaded.", where: String(error), hint: "Check your connection.", action: "retry" };
      showError(this.body, failed, { retry: () => this.#show(name, actions, errorActions) });
    }
  }

  /** Saves these entries as one ZIP file. @param {string[]} ids */
  async exportAll(ids) {
    this.details.open = true;
    await this.shown;
    await this.panel?.exportAll(ids);
  }

  /** Shows the list anew, if it is open. @param {string | null} current the id of what the view shows */
  async refresh(current) {
    this.current = current;
    if (this.details.open) await this.panel?.render(current);
  }
}
