/**
 * The list of kept collections: open, new, rename, delete with undo, export and import.
 */
import { UserError } from "../../shared/protocol.js";
import { byId, h } from "../../page/dom.js";
import { Collection, exported, imported } from "./collection.js";

const IMPORT_LIMIT = 512 * 2 ** 20; // bytes

export class CollectionList {
  /**
   * @param {HTMLElement} host
   * @param {import("./collection-store.js").CollectionStore} store
   * @param {{open: (record: import("./collection.js").CollectionRecord) => void, begin: () => void, removed: (id: string) => void, renamed: (id: string, name: string) => void,
   *   removeText: (index: number) => void, fail: (error: unknown) => void}} actions
   */
  constructor(host, store, actions) {
    this.host = host;
    this.store = store;
    this.actions = actions;
    /** @type {Collection | null} the one that is shown */
    this.current = null;
    this.items = h("ul", { class: "collection-list", id: "collection-list" });
    this.texts = h("ul", { class: "text-list", id: "text-list", "aria-label": "Texts of this collection" });
    this.note = h("p", { class: "collections-note", role: "status" });
    const file = h("input", { type: "file", id: "search-import", accept: ".json,application/json" });
    file.addEventListener("change", () => this.#import(file));
    host.append(
      h("button", { type: "button", class: "secondary", id: "search-new", onclick: () => actions.begin() }, "New collection"),
      this.items, this.texts, this.note,
      h("div", { class: "collections-files" },
        h("button", { type: "button", class: "quiet", id: "search-export", onclick: () => this.#export() }, "Export all"),
        h("label", { class: "quiet file-button" }, file, h("span", {}, "Import…"))));
  }

  /** @param {Collection} [current] the one that is shown */
  async render(current = this.current) {
    this.current = current;
    const records = await this.store.list();
    const focused = this.host.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    this.items.replaceChildren(...records.map((record) => this.#row(record)));
    const texts = current?.texts ?? [];
    this.texts.hidden = texts.length === 0;
    this.texts.replaceChildren(...texts.map(({ name }, i) => h("li", {}, h("span", { class: "text-name" }, name),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, title: "Remove", "data-key": `text ${i}`, onclick: () => this.actions.removeText(i) }, "×"))));
    if (focused) /** @type {HTMLElement} */ (this.host.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? byId("search-new")).focus();
    byId("search-export").hidden = records.length === 0;
  }

  #row(record) {
    const { id, name } = record;
    const shown = id === this.current?.id;
    const key = (what) => `${what} ${id}`;
    const row = h("li", { class: "collection" },
      h("button", { type: "button", class: "collection-open", "aria-current": shown ? "true" : null, "data-key": key("open"), onclick: () => this.actions.open(record) },
        name, h("span", { class: "row-size" }, ` ${record.passages.length} passages`)),
      h("button", { type: "button", class: "quiet", "aria-label": `Rename ${name}`, title: "Rename", "data-key": key("rename"), onclick: () => this.#rename(row, record) }, "✎"),
      h("button", { type: "button", class: "quiet", "aria-label": `Delete ${name}`, title: "Delete", "data-key": key("delete"), onclick: () => this.#remove(record) }, "×"));
    return row;
  }

  #rename(row, record) {
    const field = h("input", { type: "text", value: record.name, "aria-label": "Name of the collection", maxlength: 100 });
    const form = h("form", { class: "collection-rename" }, field, h("button", { type: "submit", class: "quiet" }, "Rename"));
    const end = () => this.render().catch((error) => this.actions.fail(error));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const name = field.value.trim();
      try {
        if (name) {
          await this.store.put({ ...record, name });
          this.actions.renamed(record.id, name);
        }
      } catch (error) {
        this.actions.fail(error);
      }
      await end();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      end();
    });
    row.replaceChildren(form);
    field.select();
  }

  async #remove(record) {
    try {
      await this.store.remove(record.id);
      this.actions.removed(record.id);
      await this.render();
      const undo = h("button", { type: "button", class: "quiet", onclick: () => this.#restore(record) }, "Undo");
      this.note.replaceChildren(`“${record.name}” is deleted. `, undo);
      undo.focus();
    } catch (error) {
      this.actions.fail(error);
    }
  }

  async #restore(record) {
    await this.store.put(record).catch((error) => this.actions.fail(error));
    this.note.replaceChildren("It is back.");
    await this.render();
  }

  async #export() {
    try {
      const url = URL.createObjectURL(new Blob([exported(await this.store.list())], { type: "application/json" }));
      h("a", { href: url, download: `collections-${new Date().toISOString().slice(0, 10)}.json` }).click();
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
      if (file.size > IMPORT_LIMIT) throw new UserError("This file is too large for collections.", { where: file.name });
      const records = imported(await file.text(), file.name);
      const known = new Set((await this.store.list()).map(({ id }) => id));
      for (const record of records) await this.store.put(new Collection(known.has(record.id) ? { ...record, id: crypto.randomUUID() } : record).toRecord());
      await this.render();
      this.note.textContent = `${records.length} imported.`;
    } catch (error) {
      this.actions.fail(error);
    } finally {
      input.value = "";
    }
  }
}
