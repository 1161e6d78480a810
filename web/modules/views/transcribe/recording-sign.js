/**
 * Shows from every view that the page records: in the title, and in a sign that leads back. Keeps the screen awake.
 */
import { find, h } from "../../page/dom.js";
import { isShown } from "../../page/shell.js";
import { clock } from "./times.js";

const MARK = "● ";

export class RecordingSign {
  /** @param {HTMLElement} view the transcribe view */
  constructor(view) {
    this.view = view;
    this.sign = h("a", { class: "recording-sign", href: "#transcribe", hidden: true });
    find(document, ".page-foot").append(this.sign); // a landmark, not a container: containers keep what is fixed inside of them
    this.recording = false;
    /** What the sign says. @type {string | null} */
    this.text = null;
    /** The page's title without the mark. */
    this.title = document.title;
    document.addEventListener("visibilitychange", () => this.recording && document.visibilityState === "visible" && this.#stayAwake());
    addEventListener("hashchange", () => this.recording && this.#place());
  }

  begin() {
    this.recording = true;
    this.show(0);
    this.#stayAwake();
  }

  /** @param {number} seconds */
  show(seconds) {
    const text = `Recording ${clock(seconds)}`;
    if (text === this.text) return;
    this.text = text;
    if (!document.title.startsWith(MARK)) this.title = document.title; // the frame sets it with the view
    document.title = `${MARK}${text}`;
    this.sign.textContent = `${MARK}${text}`;
    this.#place();
  }

  /** The view itself shows more. */
  #place() {
    this.sign.hidden = isShown(this.view);
  }

  end() {
    this.recording = false;
    this.text = null;
    this.sign.hidden = true;
    if (document.title.startsWith(MARK)) document.title = this.title;
    this.lock?.release().catch(() => {});
    this.lock = null;
  }

  /** Where the browser cannot, or may not, keep the screen on, the recording goes on without. */
  async #stayAwake() {
    this.lock = await navigator.wakeLock?.request("screen").catch(/** @returns {null} */ () => null);
    if (!this.recording) this.lock?.release().catch(() => {});
  }
}
