/**
 * Says beside a transcript that it may be a guess, and offers better models.
 */
import { byId, h, showRows } from "../../page/dom.js";
import { megabytes } from "../../shared/protocol.js";

const OFFERED = 3; // models

export class GuessBanner {
  /** @param {import("../../page/model-choice.js").ModelChoice} choice @param {import("../../page/models.js").Models} models */
  constructor(choice, models) {
    this.choice = choice;
    this.models = models;
    this.banner = byId("guess");
    this.text = h("p", { class: "guess-text" });
    this.buttons = h("div", { class: "guess-models" });
    this.banner.append(this.text, this.buttons);
    for (const type of ["models", "model"]) choice.addEventListener(type, () => this.banner.hidden || this.#offer());
  }

  /** @param {number | null} share of the text that may be a guess; null: the model was sure */
  show(share) {
    this.banner.hidden = share === null;
    if (share === null) return;
    this.text.textContent = share >= 0.5
      ? "This may be a guess: the model hardly understood the recording. Do not rely on the text."
      : `About ${Math.round(100 * share)} % of this may be a guess: it is marked at its left.`;
    this.#offer();
  }

  #offer() {
    const { model, models } = this.choice;
    const better = models.filter(({ kind, bytes }) => kind === "hub" && bytes > (model?.bytes ?? 0)).sort((a, b) => a.bytes - b.bytes).slice(0, OFFERED);
    showRows(this.buttons, better.map((other) => {
      const size = other.state === "ready" ? "on this device" : megabytes(other.bytes);
      const take = () => (other.state === "ready" ? this.choice.choose(other) : this.models.open(this.choice, other.id));
      return h("button", { type: "button", class: "secondary", onclick: take }, `${other.title}, ${size}`);
    }));
  }
}
