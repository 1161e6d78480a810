/**
 * The pictures of the message that is being written: a row with a small copy of each, and a button that takes it away.
 */
import { h, replaceRows, single } from "../../page/dom.js";
import { showError } from "../../page/errors.js";
import { UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { readied, showSmall } from "./pictures.js";

const MOST = 8; // pictures of one message

export class Attachments {
  /**
   * @param {HTMLElement} list @param {HTMLElement} field gets the focus when the last one is taken away
   * @param {{slot: HTMLElement, actions: Record<string, () => void>, say: (text: string) => void, changed: () => void,
   *   following: (change: () => void) => void}} around `following` changes the height of the row; a page that shows its end goes on to show it
   */
  constructor(list, field, around) {
    this.list = list;
    this.field = field;
    this.around = around;
    /** @type {Awaited<ReturnType<typeof readied>>[]} */
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
    if (this.all.length > before) say(`${this.all.slice(before).map(({ picture }) => picture.name).join(", ")} added. ${counted(this.all.length, "picture")}.`);
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
    if (found) this.around.say(`${found.picture.name} removed.`);
  }

  #show() {
    this.around.following(() => {
      replaceRows(this.list, this.all.map((one) => this.#row(one)), this.field);
      this.list.hidden = this.all.length === 0;
      this.around.changed();
    });
  }

  /** @param {Awaited<ReturnType<typeof readied>>} one */
  #row({ picture: { file, name, width, height }, blob, from }) {
    const image = h("img", { alt: `Picture: ${name}`, width, height });
    showSmall(image, blob, name);
    const size = from ? h("span", { class: "attachment-size" }, `${from} pixels, sent as ${width.toLocaleString("en")} × ${height.toLocaleString("en")}`) : null;
    return h("li", { class: "attachment" }, image,
      h("span", { class: "attachment-name" }, h("span", { dir: "auto" }, name), size),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}`, title: "Remove", onclick: single(() => this.#remove(file)) }, "×"));
  }
}
