/**
 * The elements of the chat view; they are not in index.html, because the page starts without them.
 */
import { find, h } from "../../page/dom.js";

/** Where what is written goes, if this tab computes. */
export const NOWHERE = "Ask something. Nothing that you write leaves this device; conversations are kept in this browser only.";

/** @param {HTMLElement} view the empty section */
export function buildChat(view) {
  view.replaceChildren(main(), side());
  view.removeAttribute("aria-label");
  view.setAttribute("aria-labelledby", "chat-title");
  // On a phone the conversation comes first; the settings are folded.
  if (matchMedia("(max-width: 60rem)").matches) find(view, "details").open = false;
}

function main() {
  return h("div", { class: "workspace-main chat-main" },
    h("h1", { class: "view-title", id: "chat-title" }, "Talk with a model ", h("em", {}, "in this tab.")),
    h("p", { class: "chat-template", id: "chat-template", role: "status", hidden: true }),
    h("p", { class: "chat-template", id: "chat-storyteller", hidden: true },
      "The model that comes with the page only tells little stories: it writes on from your words, and answers no question. ",
      h("button", { class: "quiet", type: "button", id: "chat-talker", "aria-haspopup": "dialog" }, "Choose a model to talk with…")),
    h("section", { class: "chat-log", "aria-labelledby": "chat-log-title" },
      h("h2", { class: "visually-hidden", id: "chat-log-title" }, "The conversation"),
      h("p", { class: "chat-empty", id: "chat-empty" }, NOWHERE),
      h("ol", { class: "chat-turns", id: "chat-turns", "data-setting": "messages" })),
    h("div", { class: "progress-line", id: "chat-progress", hidden: true }),
    h("div", { class: "error-slot", id: "chat-error" }),
    h("p", { class: "chat-note", id: "chat-note", role: "status", hidden: true }),
    h("button", { type: "button", class: "secondary", id: "chat-answer", hidden: true }, "Answer this"),
    h("p", { class: "chat-note", id: "chat-unseen", role: "status", hidden: true }, "This model sees no pictures. Take them away, or choose a model that does, such as SmolVLM."),
    h("form", { class: "composer card chat-composer", id: "chat-form", autocomplete: "off" },
      h("ul", { class: "chat-attachments", id: "chat-attachments", "aria-label": "Pictures of your message", hidden: true }),
      h("label", { class: "visually-hidden", for: "chat-field" }, "Your message"),
      h("textarea", { id: "chat-field", dir: "auto", rows: 1, spellcheck: "true", placeholder: "Ask something", "aria-describedby": "chat-keys" }),
      h("button", { class: "primary", id: "chat-send", type: "submit" }, "Send"),
      h("div", { class: "chat-tools" },
        h("span", { class: "chat-attach", id: "chat-attach", role: "group", "aria-label": "Add pictures", hidden: true },
          h("label", { class: "quiet file-button" }, h("input", { type: "file", id: "chat-pictures", multiple: true, accept: "image/*", "aria-describedby": "chat-attach-hint" }), h("span", {}, "Picture…")),
          h("label", { class: "quiet file-button chat-camera" }, h("input", { type: "file", id: "chat-camera", accept: "image/*", capture: "environment" }), h("span", {}, "Camera…")),
          h("span", { class: "visually-hidden", id: "chat-attach-hint" }, "Pictures can be dropped or pasted, too.")),
        h("p", { class: "chat-keys", id: "chat-keys" }, "Enter sends, Shift+Enter begins a line, Escape stops."))),
    h("p", { class: "visually-hidden", id: "chat-announcer", role: "status", "aria-live": "polite" }));
}

function side() {
  return h("div", { class: "workspace-side" },
    h("section", { class: "card model-card", id: "chat-model", "aria-labelledby": "chat-model-title" },
      h("h2", { class: "card-title", id: "chat-model-title" }, "Model"),
      h("p", { class: "model-name" }, "…"), h("p", { class: "model-text" }),
      h("button", { class: "secondary", type: "button", "aria-haspopup": "dialog" }, "Choose another model…"),
      h("div", { class: "offer", id: "chat-offer", hidden: true },
        h("p", { class: "offer-text" }, "To talk, choose one of these. It is downloaded once, then stored:"),
        h("ul", { class: "offer-list", id: "chat-offer-list" }))),
    h("details", { class: "card settings", id: "chat-settings", open: true },
      h("summary", { class: "card-title" }, h("h2", {}, "Settings")),
      h("div", { class: "settings-fields" },
        h("div", {}, h("label", { class: "field-label", for: "chat-system" }, "System prompt"),
          h("textarea", { id: "chat-system", dir: "auto", rows: 3, placeholder: "How the model should behave" }))),
      h("div", { class: "settings-fields", id: "chat-settings-fields" }),
      h("div", { class: "settings-fields" },
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "chat-rolling", "data-setting": "rolling" }), "Leave out the oldest text when the context is full"))));
}
