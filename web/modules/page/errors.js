/**
 * Shows errors where they happened: what happened, where, what to do, and a button that does it.
 */
import { eventFromError } from "../shared/protocol.js";
import { h } from "./dom.js";

/** Labels of the buttons, by action. */
const LABELS = { restart: "Restart the engine", retry: "Try again", storage: "Open storage", models: "Open models", reload: "Reload" };

/**
 * @param {HTMLElement} slot
 * @param {any} error an exception or an error event
 * @param {Record<string, () => void>} [actions] functions for "restart", "retry" …
 */
export function showError(slot, error, actions = {}) {
  const event = error?.type === "error" ? error : eventFromError(error);
  if (event.type !== "error") return clearError(slot); // cancelled: not an error
  const run = actions[event.action];
  const button = run && h("button", { class: "secondary", type: "button", onclick: () => (clearError(slot), run()) }, LABELS[event.action]);
  const [what, where] = named(slot, event);
  const dismiss = h("button", { class: "quiet", type: "button", onclick: () => clearError(slot) }, "Dismiss");
  const box = h("div", { class: "error-box", role: "alert" },
    h("strong", {}, sentence(what)),
    event.hint ? h("p", {}, sentence(event.hint)) : null,
    where ? h("p", { class: "error-where" }, h("code", {}, shorten(where))) : null,
    h("div", { class: "error-actions" }, button ?? null, dismiss));
  slot.replaceChildren(box);
  box.scrollIntoView({ block: "nearest" });
}

/**
 * An error of a setting, with the label of its field instead of the engine's name for it (`data-setting`).
 * @param {HTMLElement} slot @param {{what: string, where?: string | null}} event @returns {[string, string | null]} what and where
 */
function named(slot, { what, where = null }) {
  const field = where && /^[a-z_]+$/.test(where) ? (slot.closest(".view") ?? document).querySelector(`[data-setting="${where}"]`) : null;
  const label = field && document.querySelector(`label[for="${field.id}"]`)?.textContent;
  return label ? [`“${label}” ${what}`, null] : [what, where];
}

/** @param {HTMLElement} slot */
export function clearError(slot) {
  slot.replaceChildren();
}

/** The text with a capital letter and a full stop. @param {string} text */
function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?…]$/.test(trimmed) ? "" : "."}`;
}

const shorten = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);
