/**
 * The list of a view's history: open, rename, delete with undo, the size, everything as one file, and back from it.
 */
import { h, showRows, single } from "../page/dom.js";
import { clearError, showError } from "../page/errors.js";
import { saveFile } from "../page/save-file.js";
import { present } from "../shared/present.js";
import { UserError, megabytes } from "../shared/protocol.js";
import { zipOf } from "./zip.js";
import { beginningOf } from "../shared/words.js";

const IMPORT_LIMIT = 512 * 2 ** 20; // bytes
const UNDO_LIMIT = 100e6; // bytes of deleted entries that can come back; the last one always can

/**
 * @typedef {import("./history-store.js").HistoryEntry} HistoryEntry
 * @typedef {import("./history-store.js").HistoryItem} HistoryItem
 */

export class HistoryPanel {
  /**
   * @param {HTMLElement} host @param {import("./history-store.js").HistoryStore} store
   * @param {import("./history-card.js").HistoryActions} actions @param {Record<string, () => void>} errorActions
   */
  constructor(host, store, actions, errorActions) {
    this.store = store;
    this.actions = actions;
    this.errorActions = errorActions;
    /** @type {string | null} */
    this.current = null;
    this.renders = 0;
    /** What was deleted in this visit, the last one at the end. @type {HistoryItem[]} */
    this.deleted = [];
    const { begin, oneFile } = actions;
    this.begin = begin ? h("button", { type: "button", class: "secondary history-begin", onclick: () => begin.run() }, begin.label) : null;
    this.items = h("ul", { class: "history-list" });
    this.note = h("p", { class: "history-note", role: "status" });
    this.slot = h("div", { class: "error-slot" });
    this.summary = h("p", { class: "history-summary" });
    this.oldest = h("button", { type: "button", class: "secondary danger" });
    this.all = h("button", { type: "button", class: "secondary", onclick: single(() => this.exportAll()) }, oneFile ? "Export all" : "Export all (ZIP)");
    this.oldest.addEventListener("click", () => this.#removeOldest());
    this.oldest.hidden = this.all.hidden = true; // until the list has been read
    const back = oneFile ? this.#importField() : "";
    host.replaceChildren(this.begin ?? "", this.items, this.note, this.slot, this.summary, h("div", { class: "history-actions" }, this.all, back, this.oldest));
  }

  #importField() {
    const field = h("input", { type: "file", class: "history-import", accept: ".json,application/json" });
    field.addEventListener("change", async () => {
      const [file] = field.files ?? [];
      field.value = ""; // at once: the next file may be chosen while this one is read
      if (file) await this.importFile(file);
    });
    return h("label", { class: "secondary file-button" }, field, h("span", {}, "Import…"));
  }

  /** @param {string | null} [current] the id of what the view shows */
  async render(current = this.current) {
    this.current = current;
    const number = (this.renders += 1);
    const [entries, room] = await Promise.all([this.store.list(), this.store.room()]);
    if (number !== this.renders || this.items.querySelector(".history-rename")) return; // a later one shows it, or the end of the renaming
    const focused = this.items.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : null;
    showRows(this.items, entries.map((entry) => this.#row(entry)));
    if (focused) (/** @type {HTMLElement | null} */ (this.items.querySelector(`[data-key="${CSS.escape(focused)}"]`)) ?? this.begin)?.focus();
    this.all.hidden = entries.length === 0;
    const over = room.bytes > room.limit;
    const amount = `${megabytes(room.bytes)} of at most ${megabytes(room.limit)} for the history, in this browser only.${over ? " That is too much: delete what you do not need." : ""}`;
    const place = entries.length ? amount : "Nothing yet. What you make is kept here, in this browser only.";
    this.summary.textContent = this.store.keeps ? place : "This browser keeps nothing for this page (a private window, perhaps): what is listed here is gone when the page is closed.";
    this.oldest.hidden = !over || !room.oldest;
    if (room.oldest) this.oldest.replaceChildren("Delete the oldest: “", h("bdi", {}, room.oldest.title), `”, ${megabytes(room.oldest.bytes)}`);
  }

  /** @param {HistoryEntry} entry */
  #row(entry) {
    const { id, title, about, updated, bytes } = entry;
    const shown = id === this.current;
    const facts = [about, megabytes(bytes)].filter(Boolean).map((fact) => ` · ${fact}`);
    const when = h("bdi", {}, whenOf(updated)); // in the user's language, which may run the other way
    return h("li", { class: "history-row" },
      h("button", { type: "button", class: "history-open", "aria-current": shown ? "true" : null, "data-key": `open ${id}`, onclick: () => this.#open(id) },
        h("span", { class: "history-title", dir: "auto" }, title || "Untitled"), h("span", { class: "history-facts" }, when, ...facts)),
      h("button", { type: "button", class: "quiet", "aria-label": `Rename ${title || "Untitled"}`, title: "Rename", "data-key": `rename ${id}`, onclick: (/** @type {any} */ event) => this.#rename(entry, event.target.closest("li")) }, "✎"),
      h("button", { type: "button", class: "quiet", "aria-label": `Delete ${title || "Untitled"}`, title: "Delete", "data-key": `delete ${id}`, onclick: single(() => this.#remove(id)) }, "×"));
  }

  /** @param {string} id */
  async #open(id) {
    await this.#do(async () => {
      await this.actions.flush?.();
      const item = await this.store.read(id);
      if (item) await this.actions.open(item);
      await this.render();
    });
  }

  /** @param {HistoryEntry} entry @param {HTMLElement} row */
  #rename({ id, title }, row) {
    const field = h("input", { type: "text", class: "history-rename", dir: "auto", "aria-label": "New name", maxlength: 200 });
    field.value = title;
    const end = async (/** @type {boolean} */ keep) => {
      field.onblur = field.onkeydown = null;
      const wanted = field.value.trim();
      if (keep && wanted && wanted !== title) {
        await this.#do(async () => {
          await this.store.rename(id, wanted);
          this.actions.renamed?.(id, wanted);
        });
      }
      field.remove();
      await this.render();
      /** @type {HTMLElement} */ (this.items.querySelector(`[data-key="rename ${id}"]`))?.focus();
    };
    field.onblur = () => end(true);
    field.onkeydown = (event) => {
      if (event.key === "Enter") end(true);
      else if (event.key === "Escape") end(false);
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    row.replaceChildren(field);
    field.select();
    field.focus();
  }

  /** @param {string} id */
  async #remove(id) {
    await this.#do(async () => {
      await this.actions.flush?.();
      const item = await this.store.remove(id);
      await this.actions.removed?.(id);
      await this.render(id === this.current ? null : this.current);
      if (!item) return;
      this.deleted.push(item);
      while (this.deleted.length > 1 && this.deleted.reduce((sum, { entry }) => sum + entry.bytes, 0) > UNDO_LIMIT) this.deleted.shift();
      this.#offerUndo();
    });
  }

  /** Offers to bring back what was deleted last. @param {string} [said] before that */
  #offerUndo(said = "") {
    const item = this.deleted.at(-1);
    if (!item) return this.note.replaceChildren(said);
    const undo = h("button", { type: "button", class: "quiet", onclick: () => this.#restore(item) }, "Undo");
    this.note.replaceChildren(`${said} “`.trimStart(), h("bdi", {}, item.entry.title || "Untitled"), "” is deleted. ", undo);
    undo.focus();
  }

  /** @param {HistoryItem} item */
  async #restore(item) {
    await this.#do(async () => {
      await this.store.restore(item);
      this.deleted = this.deleted.filter((other) => other !== item);
      await this.render();
      /** @type {HTMLElement | null} */ (this.items.querySelector(`[data-key="open ${item.entry.id}"]`))?.focus(); // the button that was pressed goes away
      this.#offerUndo("It is back.");
    });
  }

  async #removeOldest() {
    const { oldest } = await this.store.room();
    if (oldest) await this.#remove(oldest.id);
  }

  /** Saves everything as one file. @param {string[]} [only] ids */
  async exportAll(only) {
    await this.#do(async () => {
      await this.actions.flush?.();
      const entries = (await this.store.list()).filter(({ id }) => !only || only.includes(id));
      /** @type {HistoryItem[]} */
      const items = [];
      for (const [number, { id }] of entries.entries()) {
        this.note.textContent = `Collecting ${number + 1} of ${entries.length}…`;
        const item = await this.store.read(id);
        if (item) items.push(item);
      }
      const { actions } = this;
      const whole = actions.oneFile ? await actions.oneFile.to(items) : await this.#zip(items, actions.filesOf);
      saveFile(`${actions.name}-${dayOf(Date.now())}.${actions.oneFile ? "json" : "zip"}`, whole);
      this.note.textContent = `${entries.length} exported, ${megabytes(whole.size)}.`;
    });
  }

  /** @param {HistoryItem[]} items @param {import("./history-card.js").ManyFiles["filesOf"]} filesOf */
  async #zip(items, filesOf) {
    const files = [];
    for (const item of items) {
      for (const { name, blob } of await filesOf(item)) files.push({ path: `${folderOf(item.entry)}/${name}`, blob });
    }
    return zipOf(files, (done, total) => (this.note.textContent = `Packing ${megabytes(done)} of ${megabytes(total)}…`));
  }

  /** Adds what an exported file has. @param {File} file */
  async importFile(file) {
    await this.#do(async () => {
      const { name, oneFile } = this.actions;
      const form = present(oneFile, "the form of exported files");
      if (file.size > IMPORT_LIMIT) throw new UserError(`This file is too large for ${name}: ${megabytes(file.size)}, at most ${megabytes(IMPORT_LIMIT)}.`, { where: file.name });
      const items = await form.from(file);
      const added = await this.store.add(items, form.textOf);
      await this.render();
      this.note.textContent = added === items.length ? `${added} imported.` : `${added} imported; ${items.length - added} were here already.`;
    });
  }

  /** @param {() => Promise<void>} work */
  async #do(work) {
    clearError(this.slot);
    try {
      await work();
    } catch (error) {
      this.note.textContent = "";
      showError(this.slot, error, this.errorActions);
    }
  }
}

/** "2026-11-22 Weather". @param {HistoryEntry} entry */
const folderOf = ({ created, title }) => `${dayOf(created)} ${beginningOf((title || "Untitled").replace(/\.\w{1,5}$/, "").replaceAll("/", "_"), 80)}`;

/** The day where the user is: 2026-11-22, as Swedish writes it. @param {number} time */
const dayOf = (time) => new Date(time).toLocaleDateString("sv");

/** @param {number} time */
function whenOf(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString([], today ? { hour: "2-digit", minute: "2-digit" } : { dateStyle: "medium" });
}
