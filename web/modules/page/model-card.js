/**
 * The card that shows the model in use, opens the list of models, and offers to keep a model of this visit.
 */
import { megabytes } from "../shared/protocol.js";
import { find, h } from "./dom.js";

export class ModelCard {
  /**
   * @param {HTMLElement} card
   * @param {import("./model-choice.js").ModelChoice} choice
   * @param {import("./models.js").Models} models
   * @param {import("./announcer.js").Announcer} announcer
   */
  constructor(card, choice, models, announcer) {
    /** @type {string | null} */
    let shown = null;
    const keep = h("button", { type: "button", class: "secondary keep-model", hidden: true, onclick: () => models.open(choice, choice.model?.id) });
    const open = find(card, "button");
    open.before(keep);
    open.addEventListener("click", () => models.open(choice));
    const show = () => {
      const { model } = choice;
      find(card, ".model-name").textContent = model?.title ?? "No model yet";
      find(card, ".model-text").textContent = model?.description ?? "Choose one: it is downloaded once, then stored here.";
      open.textContent = model ? "Choose another model…" : "Choose a model…";
      keep.hidden = model?.kind !== "file";
      keep.textContent = model ? `Keep it here (${megabytes(model.bytes)})…` : "";
      if (model && shown && shown !== model.id) announcer.say(`The model is ${model.title}.`);
      shown = model?.id ?? shown;
    };
    choice.addEventListener("model", show);
    choice.addEventListener("models", () => choice.model === null && show());
  }
}
