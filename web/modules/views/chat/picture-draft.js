/**
 * The pictures of the message that is being written. They are kept until it is sent: a tab that is reloaded shows its own again, a new
 * tab those that were added last, as with the text (drafts.js).
 *
 * @typedef {import("./attachments.js").Attachment} Attachment
 */
import { HistoryStore } from "../../history/history-store.js";
import { drafts } from "./drafts.js";

const PLACE = "pictures"; // among the drafts: under which id they are kept
const FORGOTTEN = 7 * 24 * 3600 * 1000; // ms, after which those of tabs that were closed are deleted

export class PictureDraft {
  constructor() {
    this.store = new HistoryStore("chat-pictures");
    /** The entry of this tab. */
    this.entry = this.store.begin("");
  }

  /** Whether there are some that a reload loses. */
  get loses() {
    return this.store.loses(this.entry);
  }

  /** What was kept at the last visit. @returns {Promise<Attachment[]>} */
  async read() {
    const id = drafts.get(PLACE);
    for (const { id: other, updated } of await this.store.list()) {
      if (other !== id && updated < Date.now() - FORGOTTEN) await this.store.remove(other);
    }
    const item = id ? await this.store.read(id) : null;
    if (!item) return [];
    if (drafts.isOwn(PLACE)) this.entry = item.entry; // else it is another tab's: this one begins its own with its first change
    const blobs = new Map(item.files.map(({ name, blob }) => [name, blob]));
    return item.content.flatMap((/** @type {{picture: import("./pictures.js").Picture, from: string}} */ one) => {
      const blob = blobs.get(one.picture.file);
      return blob ? [{ ...one, blob }] : [];
    });
  }

  /** Keeps these and no others. @param {Attachment[]} all @returns {Promise<void>} rejects where there is no room */
  async write(all) {
    const files = all.map(({ picture, blob }) => ({ name: picture.file, blob }));
    if (files.length) await this.store.put(this.entry, all.map(({ picture, from }) => ({ picture, from })), { files });
    else await this.store.remove(this.entry.id);
    drafts.set(PLACE, files.length ? this.entry.id : "");
  }
}
