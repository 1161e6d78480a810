/**
 * Asks for the password of a PDF: a field below the message, as long as the PDF is wanted.
 */
import { Cancelled, throwIfCancelled } from "../../shared/protocol.js";
import { byId, h } from "../../page/dom.js";

export class PasswordForm {
  /** @param {HTMLElement} host where it appears */
  constructor(host) {
    this.host = host;
  }

  /**
   * @param {string} name of the PDF @param {boolean} wrong whether the last password did not open it @param {AbortSignal} [signal]
   * @returns {Promise<string | null>} null: the user has none
   */
  async ask(name, wrong, signal) {
    throwIfCancelled(signal);
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const field = h("input", { type: "password", id: "read-password", autocomplete: "off", spellcheck: "false", required: true, "aria-invalid": wrong ? "true" : null, "aria-describedby": "read-password-says" });
    const cancel = h("button", { class: "quiet", type: "button" }, "Cancel");
    const form = h("form", { class: "card read-password", "aria-labelledby": "read-password-title" },
      h("p", { id: "read-password-title" }, h("strong", {}, name), " is locked with a password."),
      h("p", { class: wrong ? "read-wrong" : "help", id: "read-password-says", role: wrong ? "alert" : null }, wrong ? "That password is wrong. Capital letters count." : "It stays in this tab, and is forgotten with it."),
      h("div", { class: "read-actions" },
        h("label", { class: "field-label", for: "read-password" }, "Password"), field,
        h("button", { class: "primary", type: "submit" }, "Open"), cancel));
    this.host.replaceChildren(form);
    field.focus();
    form.scrollIntoView({ block: "nearest" });
    try {
      return await new Promise((resolve, reject) => {
        form.addEventListener("submit", (event) => {
          event.preventDefault();
          resolve(field.value);
        });
        cancel.addEventListener("click", () => resolve(null));
        form.addEventListener("keydown", (event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation(); // the queue goes on
          resolve(null);
        });
        signal?.addEventListener("abort", () => reject(new Cancelled()), { once: true });
      });
    } finally {
      const focused = form.contains(document.activeElement);
      form.remove();
      if (focused) (before?.isConnected && before !== document.body ? before : byId("read-files")).focus();
    }
  }
}
