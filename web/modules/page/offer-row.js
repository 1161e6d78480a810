/**
 * Rows of a list of models that a view offers beside the one in use: buttons with a name and a size.
 *
 * @typedef {{name: string, size: string, about?: string}} HubModel a model of the hub, with its size in words
 */
import { megabytes } from "../shared/protocol.js";
import { h } from "./dom.js";

/** A name that no line ends in the middle of "8-bit". @param {string} name */
const lineParts = (name) => name.split(/(\d-bit)/).map((part, i) => (i % 2 ? h("span", { class: "whole" }, part) : part));

/** @param {string} name @param {string} size @param {() => unknown} open @param {string} [about] what the model is for */
const offerRow = (name, size, open, about) =>
  h("li", {}, h("button", { type: "button", class: "offer-row", onclick: open },
    h("span", {}, ...lineParts(name)), h("span", { class: "row-size" }, size), about ? h("span", { class: "row-about" }, about) : ""));

/**
 * The row of a listed model: one that is stored is used, another one shown in the list of models, where it can be downloaded.
 * @param {import("./model-choice.js").ListedModel} model @param {import("./model-choice.js").ModelChoice} choice @param {import("./models.js").Models} models
 */
export function modelRow({ id, title, state, bytes }, choice, models) {
  if (state === "ready") return offerRow(title, "kept", () => choice.chooseById(id));
  return offerRow(title, bytes ? megabytes(bytes) : "", () => models.open(choice, id));
}

/**
 * The row of a model of the hub that need not be listed: the list of models shows it, or finds it on the hub.
 * @param {HubModel} model
 * @param {import("./model-choice.js").ModelChoice} choice @param {import("./models.js").Models} models
 */
export function hubRow({ name, size, about }, choice, models) {
  const open = () => {
    const here = choice.models.find(({ id }) => id.startsWith(`hub:${name}@`));
    models.open(choice, here?.id, here ? undefined : name);
  };
  return offerRow(name.split("/")[1], size, open, about);
}
