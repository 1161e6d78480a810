/**
 * The storage panel: the data that this page stores in the browser, with buttons that delete it.
 *
 * @typedef {{key: string, name: string, group: string | null, received: number, complete: boolean}} KeptFile
 */
import { UserError, megabytes } from "../shared/protocol.js";
import { byId, find, h, openDialog } from "./dom.js";
import { clearError, showError } from "./errors.js";

export class StorageDialog {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.dialog = byId("storage-dialog");
    byId("open-storage").addEventListener("click", () => this.open());
    const clear = byId("storage-clear");
    clear.addEventListener("click", () => {
      if (clear.dataset.sure) this.#do(() => this.app.engine.call("storage.clear"));
      else { // it may be gigabytes, and nothing brings them back
        clear.dataset.sure = "asked";
        clear.textContent = "Delete all these files? Press again";
      }
    });
    clear.addEventListener("blur", () => this.#calm());
    app.actions.storage = () => this.open();
  }

  async open() {
    clearError(byId("storage-error"));
    openDialog(this.dialog);
    await this.render();
  }

  /** The button that deletes all has to be pressed twice again. */
  #calm() {
    delete byId("storage-clear").dataset.sure;
    byId("storage-clear").textContent = "Delete all";
  }

  async render() {
    this.#calm();
    byId("storage-clear").disabled = true;
    try {
      const { kept, usage, quota } = await this.app.engine.call("storage.list");
      const left = quota ? ` The browser allows ${megabytes(quota)}.` : "";
      byId("storage-summary").textContent = kept.length
        ? `This page stores ${megabytes(usage)} on this device: its own files, for offline use, and the files below.${left}`
        : `This page stores ${megabytes(usage)} on this device: its own files, for offline use. No downloaded models.${left}`;
      byId("kept-list").replaceChildren(...groups(kept).map((group) => this.#row(group)));
      byId("storage-clear").disabled = kept.length === 0;
    } catch (error) {
      byId("kept-list").replaceChildren();
      showError(byId("storage-error"), error, this.app.actions);
    }
  }

  /** @param {{title: string, files: KeptFile[]}} group */
  #row({ title, files }) {
    const received = files.reduce((sum, file) => sum + file.received, 0);
    const whole = files.every((file) => file.complete);
    const remove = h("button", { type: "button", class: "secondary", "aria-label": `Delete ${title}`, onclick: () =>
      this.#do(() => this.app.engine.call("storage.remove", { keys: files.map((file) => file.key) })) }, "Delete");
    return h("li", { class: "kept-row" },
      h("p", { class: "row-title" }, title, h("span", { class: "row-size" }, megabytes(received))),
      h("p", { class: "row-text" }, whole ? files.map((file) => file.name.split("/").pop()).join(", ") : "Incomplete: the download can be resumed."),
      h("div", { class: "row-actions" }, remove));
  }

  /** @param {() => Promise<unknown>} action */
  async #do(action) {
    try {
      if (this.app.busy) throw new UserError("The engine is working.", { hint: "Stop it first, then delete." });
      clearError(byId("storage-error"));
      await action();
    } catch (error) {
      showError(byId("storage-error"), error, this.app.actions);
    }
    await this.render();
    await this.app.afterStorageChange();
    find(byId("storage-dialog"), "button").focus();
  }
}

/** Groups files by their model. @param {KeptFile[]} kept @returns {{title: string, files: KeptFile[]}[]} */
function groups(kept) {
  const found = new Map();
  for (const file of kept) {
    const title = file.group ?? file.name;
    if (!found.has(title)) found.set(title, { title, files: [] });
    found.get(title).files.push(file);
  }
  return [...found.values()];
}
