/**
 * Shows errors where they happened: what happened, where, what to do, and a button that does it.
 */
import { eventFromError } from "../shared/protocol.js";
import { focusAgain, h } from "./dom.js";

/** Labels of the buttons, by action. @type {Record<string, string>} */
const LABELS = { restart: "Restart the engine", retry: "Try again", storage: "Open storage", models: "Open models", threads: "Compute on the threads", reload: "Reload" };

/**
 * @param {HTMLElement} slot
 * @param {any} error an exception or an error event
 * @param {Record<string, () => void>} [actions] functions for "restart", "retry" …
 * @returns {HTMLElement | null} what is shown; null: nothing, because the user stopped it
 */
export function showError(slot, error, actions = {}) {
  const event = error?.type === "error" ? error : eventFromError(error);
  if (event.type !== "error") {
    clearError(slot); // cancelled: not an error
    return null;
  }
  const run = actions[event.action];
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const close = () => {
    clearError(slot);
    focusAgain(before);
  };
  const button = run && h("button", { class: "secondary", type: "button", onclick: () => (close(), run()) }, LABELS[event.action]);
  const [what, where] = named(slot, event);
  const hint = event.hint?.replace(/`([a-z_]+)`/g, (/** @type {string} */ name, /** @type {string} */ setting) => `${quoted(slot, setting) || name}`);
  const dismiss = h("button", { class: "quiet", type: "button", onclick: close }, "Dismiss");
  const box = h("div", { class: "error-box", role: "alert", "data-action": event.action ?? "" },
    h("strong", {}, sentence(what)),
    hint ? h("p", {}, sentence(hint)) : null,
    where ? h("p", { class: "error-where" }, h("code", {}, shorten(where))) : null,
    h("div", { class: "error-actions" }, button ?? null, dismiss));
  slot.replaceChildren(box);
  box.scrollIntoView({ block: "nearest" });
  return box;
}

/**
 * The error that a part of the page is not there, with the button that tries again.
 * @param {string} what says which part, in a sentence @param {any} error why
 */
export function failedPart(what, error) {
  if (error?.name !== "UserError") return { type: "error", what, where: String(error), hint: "Try again. If it happens again, reload the page.", action: "retry" };
  return { type: "error", what: `${what} ${error.what}`, where: error.where, hint: error.hint, action: "retry" };
}

/**
 * An error of a setting, with the label of its field instead of the engine's name for it.
 * @param {HTMLElement} slot @param {{what: string, where?: string | null}} event @returns {[string, string | null]} what and where
 */
function named(slot, { what, where = null }) {
  const label = quoted(slot, where);
  return label === null ? [what, where] : [label ? `${label} ${what}` : what, null];
}

/**
 * What the view calls a setting of the engine: the label of its field (`data-setting`), in quotation marks. "": a part of the view
 * without a label, which needs no name. null: the view has no such setting.
 * @param {HTMLElement} slot @param {string | null} setting
 */
function quoted(slot, setting) {
  const field = setting && /^[a-z_]+$/.test(setting) ? (slot.closest(".view") ?? document).querySelector(`[data-setting="${setting}"]`) : null;
  const label = field && (/** @type {HTMLInputElement} */ (field).labels?.[0] ?? field.querySelector("legend"))?.textContent;
  return field && (label ? `“${label}”` : "");
}

/** @param {HTMLElement} slot */
export function clearError(slot) {
  slot.replaceChildren();
}

/** Removes an error that asked for a restart of the engine. Others stay: a restart does not answer them. @param {HTMLElement} slot */
export function clearRestartError(slot) {
  slot.querySelector('.error-box[data-action="restart"]')?.remove();
}

/** The text with a capital letter and a full stop. @param {string} text */
function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?…]$/.test(trimmed) ? "" : "."}`;
}

/** @param {string} text */
const shorten = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);
