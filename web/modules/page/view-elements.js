/**
 * Elements that several views have. They are not in index.html, because the page starts without these views.
 */
import { h } from "./dom.js";

/**
 * Fills the empty section of a view. On a phone the work comes first: the settings are folded.
 * @param {HTMLElement} view @param {string} title the id of its heading @param {...HTMLElement} parts
 */
export function fillView(view, title, ...parts) {
  view.replaceChildren(...parts);
  view.removeAttribute("aria-label");
  view.setAttribute("aria-labelledby", title);
  const settings = view.querySelector("details.settings");
  if (settings && matchMedia("(max-width: 60rem)").matches) /** @type {HTMLDetailsElement} */ (settings).open = false;
}

/** A field with its label, and what helps to fill it. @param {string} label @param {HTMLInputElement | HTMLSelectElement} field @param {string} [help] */
export function labelled(label, field, help) {
  if (help) field.setAttribute("aria-describedby", `${field.id}-help`);
  return h("div", { class: "field" },
    h("label", { class: "field-label", for: field.id }, label), field, help ? h("p", { class: "help", id: `${field.id}-help` }, help) : null);
}

/**
 * The card of a model (model-card.js). @param {string} id @param {string} title @param {HTMLElement} offer models to choose from
 * @param {{hidden?: boolean, class?: string, heading?: "h2" | "h3"}} [more]
 */
export function modelCard(id, title, offer, { heading = "h2", ...more } = {}) {
  return h("section", { class: "card model-card", id, "aria-labelledby": `${id}-title`, ...more },
    h(heading, { class: "card-title", id: `${id}-title` }, title),
    h("p", { class: "model-name" }, "…"), h("p", { class: "model-text" }),
    h("button", { class: "secondary", type: "button", "aria-haspopup": "dialog" }, "Choose a model…"),
    offer);
}

/** A list of models of the hub, with a sentence before it. @param {string} text @param {{id?: string, hidden?: boolean}} [more] */
export const offerList = (text, { id, hidden = false } = {}) =>
  h("div", { class: "offer", id, hidden }, h("p", { class: "offer-text" }, text), h("ul", { class: "offer-list", id: id && `${id}-list` }));

/** The settings of a view, which can be folded. @param {string} id @param {...HTMLElement} parts */
export const settingsCard = (id, ...parts) =>
  h("details", { class: "card settings", id, open: true }, h("summary", { class: "card-title" }, h("h2", {}, "Settings")), ...parts);

/** What tells screen readers what happens (announcer.js). @param {string} id */
export const announcerLine = (id) => h("p", { class: "visually-hidden", id, role: "status", "aria-live": "polite" });

/** A small button of a picture's toolbar. @param {string} id @param {string} text @param {string} title */
export const tool = (id, text, title) => h("button", { class: "read-tool", type: "button", id, title, "aria-label": title }, text);
