/**
 * Rows of a list of models that a view offers beside the one in use: buttons with a name and a size.
 */
import { megabytes } from "../shared/protocol.js";
import { h } from "./dom.js";

/** @param {string} name @param {string} size @param {() => unknown} open */
export const offerRow = (name, size, open) =>
  h("li", {}, h("button", { type: "button", class: "offer-row", onclick: open }, h("span", {}, name), h("span", { class: "row-size" }, size)));

/**
 * The row of a listed model: one that is stored is used, another one shown in the list of models, where it can be downloaded.
 * @param {import("./model-choice.js").ListedModel} model @param {import("./model-choice.js").ModelChoice} choice @param {import("./models.js").Models} models
 */
export function modelRow({ id, title, state, bytes }, choice, models) {
  if (state === "ready") return offerRow(title, "kept", () => choice.chooseById(id));
  return offerRow(title, bytes ? megabytes(bytes) : "", () => models.open(choice, id));
}
