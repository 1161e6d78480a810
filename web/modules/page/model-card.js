/**
 * The card that shows the model in use, and opens the list of models.
 */
export class ModelCard {
  /**
   * @param {HTMLElement} card
   * @param {import("./model-choice.js").ModelChoice} choice
   * @param {import("./model-dialog.js").ModelDialog} dialog
   * @param {import("./announcer.js").Announcer} announcer
   */
  constructor(card, choice, dialog, announcer) {
    let shown = null;
    card.querySelector("button").addEventListener("click", () => dialog.open(choice));
    choice.addEventListener("model", () => {
      const { model } = choice;
      card.querySelector(".model-name").textContent = model.title;
      card.querySelector(".model-text").textContent = model.description ?? "";
      if (shown && shown !== model.id) announcer.say(`The model is ${model.title}.`);
      shown = model.id;
    });
  }
}
