/**
 * The pictures of the message that is being written: a row with a small copy of each, and a button that takes it away.
 */
import { h, replaceRows, single } from "../../page/dom.js";
import { showError } from "../../page/errors.js";
import { UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { pictureButton } from "./picture-button.js";
import { readied } from "./pictures.js";

/** @typedef {Awaited<ReturnType<typeof readied>>} Attachment */

const MOST = 8; // pictures of one message

export class Attachments {
  /**
   * @param {HTMLElement} list @param {HTMLElement} field gets the focus when the last one is taken away
   * @param {{slot: HTMLElement, actions: Record<string, () => void>, say: (text: string) => void, changed: () => void, keep: () => unknown,
   *   following: (change: () => void) => void}} around `keep` stores what the user has changed, `following` changes the height of the row; a
   *   page that shows its end goes on to show it
   */
  constructor(list, field, around) {
    this.list = list;
    this.field = field;
    this.around = around;
    /** @type {Attachment[]} */
    this.all = [];
    /** Resolved when all files are read. @type {Promise<void>} */
    this.settled = Promise.resolve();
  }

  /** Adds files, one after the other; those that are no pictures are refused, each with an error. @param {File[]} files */
  add(files) {
    this.settled = this.settled.then(() => this.#add(files));
    return this.settled;
  }

  /** @param {File[]} files */
  async #add(files) {
    const { slot, actions, say } = this.around;
    const before = this.all.length;
    for (const [number, file] of files.entries()) {
      try {
        if (this.all.length >= MOST) {
          const left = files.slice(number).map(({ name }) => name).join(", ");
          throw new UserError(`A message takes at most ${MOST} pictures.`, { where: left, hint: "Send these first, then the others." });
        }
        this.all.push(await readied(file));
        this.#show();
      } catch (error) {
        showError(slot, error, actions);
        if (this.all.length >= MOST) break;
      }
    }
    if (this.all.length <= before) return;
    say(`${this.all.slice(before).map(({ picture }) => picture.name).join(", ")} added. ${counted(this.all.length, "picture")}.`);
    this.around.keep();
  }

  /** Shows those of the last visit, before any that are added now. @param {Promise<Attachment[]>} reading @returns {Promise<void>} rejects as it does */
  restore(reading) {
    const shown = reading.then((all) => {
      this.all = all;
      this.#show();
    });
    this.settled = shown.catch(() => {}); // others can be added all the same
    return shown;
  }

  /** What is there, which is taken away. */
  take() {
    const taken = this.all;
    this.all = [];
    this.#show();
    return taken;
  }

  /** @param {string} file of the picture */
  #remove(file) {
    const found = this.all.find(({ picture }) => picture.file === file);
    this.all = this.all.filter((one) => one !== found);
    this.#show();
    if (!found) return;
    this.around.say(`${found.picture.name} removed.`);
    this.around.keep();
  }

  #show() {
    this.around.following(() => {
      replaceRows(this.list, this.all.map((one) => this.#row(one)), this.field);
      this.list.hidden = this.all.length === 0;
      this.around.changed();
    });
  }

  /** @param {Attachment} one */
  #row({ picture, blob, from }) {
    const { file, name, width, height } = picture;
    const size = from ? h("span", { class: "attachment-size" }, `${from} pixels, sent as ${width.toLocaleString("en")} × ${height.toLocaleString("en")}`) : null;
    return h("li", { class: "attachment" }, pictureButton(picture, blob),
      h("span", { class: "attachment-name" }, h("span", { dir: "auto" }, name), size),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, title: "Remove", onclick: single(() => this.#remove(file)) }, "×"));
  }
}
