/**
 * The list of kept conversations: open, new, delete with undo, export and import.
 */
import { UserError } from "../../shared/protocol.js";
import { byId, h } from "../../page/dom.js";
import { exported, imported } from "./conversation.js";

const IMPORT_LIMIT = 256 * 2 ** 20; // bytes

export class ConversationList {
  /**
   * @param {HTMLElement} host
   * @param {import("./conversation-store.js").ConversationStore} store
   * @param {{open: (record: import("./conversation.js").ConversationRecord) => void, begin: () => void, removed: (id: string) => void, say: (text: string) => void,
   *   fail: (error: unknown) => void, flush: () => Promise<void>}} actions `flush` stores what is not stored yet
   */
  constructor(host, store, actions) {
    this.store = store;
    this.actions = actions;
    this.current = null;
    this.items = h("ul", { class: "conversations", id: "chat-conversations" });
    this.note = h("p", { class: "conversations-note", role: "status" });
    const file = h("input", { type: "file", id: "chat-import", accept: ".json,application/json" });
    file.addEventListener("change", () => this.#import(file));
    host.append(
      h("button", { type: "button", class: "secondary", id: "chat-new", onclick: () => actions.begin() }, "New conversation"),
      this.items, this.note,
      h("div", { class: "conversations-files" },
        h("button", { type: "button", class: "quiet", id: "chat-export", onclick: () => this.#export() }, "Export all"),
        h("label", { class: "quiet file-button" }, file, h("span", {}, "Import…"))));
  }

  /** @param {string} [current] the id of the one that is shown */
  async render(current = this.current) {
    this.current = current;
    const records = await this.store.list();
    const focused = this.items.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    this.items.replaceChildren(...records.map((record) => this.#row(record)));
    if (focused) /** @type {HTMLElement} */ (this.items.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? byId("chat-new")).focus();
    byId("chat-export").hidden = records.length === 0;
  }

  #row(record) {
    const title = record.title || "Untitled";
    const shown = record.id === this.current;
    return h("li", { class: "conversation" },
      h("button", { type: "button", class: "conversation-open", "aria-current": shown ? "true" : null, "data-key": `open ${record.id}`,
        onclick: () => this.actions.open(record) }, title),
      h("button", { type: "button", class: "quiet", "aria-label": `Delete ${title}`, title: "Delete", "data-key": `delete ${record.id}`,
        onclick: () => this.#remove(record, title) }, "×"));
  }

  async #remove(record, title) {
    try {
      await this.actions.removed(record.id);
      await this.store.remove(record.id);
      await this.render();
      const undo = h("button", { type: "button", class: "quiet", onclick: () => this.#restore(record) }, "Undo");
      this.note.replaceChildren(`“${title}” is deleted. `, undo);
      undo.focus();
    } catch (error) {
      this.actions.fail(error);
    }
  }

  async #restore(record) {
    await this.store.add([record]).catch((error) => this.actions.fail(error));
    this.note.replaceChildren("It is back.");
    await this.render();
  }

  async #export() {
    try {
      await this.actions.flush();
      const url = URL.createObjectURL(new Blob([exported(await this.store.list())], { type: "application/json" }));
      h("a", { href: url, download: `conversations-${new Date().toISOString().slice(0, 10)}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (error) {
      this.actions.fail(error);
    }
  }

  /** @param {HTMLInputElement} input */
  async #import(input) {
    const [file] = input.files;
    if (!file) return;
    try {
      if (file.size > IMPORT_LIMIT) throw new UserError("This file is too large for conversations.", { where: file.name });
      const records = imported(await file.text(), file.name);
      const added = await this.store.add(records);
      await this.render();
      this.note.textContent = added === records.length ? `${added} imported.` : `${added} imported; ${records.length - added} were here already.`;
    } catch (error) {
      this.actions.fail(error);
    } finally {
      input.value = "";
    }
  }
}
