/**
 * The files beside a notebook: those that its cells wrote, and those that were added.
 */
import { h, single } from "../../page/dom.js";
import { saveFile } from "../../page/save-file.js";
import { megabytes } from "../../shared/protocol.js";

export class NotebookFileList {
  /** @param {HTMLElement} list @param {{remove: (name: string) => void}} actions */
  constructor(list, actions) {
    this.list = list;
    this.actions = actions;
    /** @type {Map<string, Blob>} */
    this.files = new Map();
    this.render();
  }

  /** @param {import("../../history/history-store.js").KeptFile[]} files */
  replace(files) {
    this.files = new Map(files.map(({ name, blob }) => [name, blob]));
    this.render();
  }

  /** @param {string} name @param {Blob | null} blob null: it was deleted */
  set(name, blob) {
    if (blob) this.files.set(name, blob);
    else this.files.delete(name);
    this.render();
  }

  /** @returns {import("../../history/history-store.js").KeptFile[]} */
  kept() {
    return [...this.files].map(([name, blob]) => ({ name, blob }));
  }

  render() {
    const files = [...this.files].sort(([a], [b]) => (a < b ? -1 : 1));
    this.list.hidden = files.length === 0;
    this.list.replaceChildren(...files.map(([name, blob]) => h("li", {},
      h("button", { type: "button", class: "lab-file", title: "Save to this device", onclick: () => saveFile(lastPart(name), blob) },
        h("span", { class: "lab-file-name" }, name), h("span", { class: "row-size" }, megabytes(blob.size))),
      h("button", { type: "button", class: "quiet", "aria-label": `Delete ${name}`, title: "Delete", onclick: single(() => this.actions.remove(name)) }, "×"))));
  }
}

/** A file's name without its folders. @param {string} path */
export const lastPart = (path) => path.slice(path.lastIndexOf("/") + 1);
