/**
 * The elements of the chat view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, modelCard, offerList, settingsCard } from "../../page/view-elements.js";

/** Where what is written goes, if this tab computes. */
export const NOWHERE = "Ask something. Nothing that you write leaves this device; conversations are kept in this browser only.";

/** @param {HTMLElement} view the empty section */
export function buildChat(view) {
  fillView(view, "chat-title", main(), side());
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
    announcerLine("chat-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("chat-model", "Model",
      offerList("To talk, choose one of these. It is downloaded once, then stored:", { id: "chat-offer", hidden: true })),
    settingsCard("chat-settings",
      h("div", { class: "settings-fields" },
        h("div", {}, h("label", { class: "field-label", for: "chat-system" }, "System prompt"),
          h("textarea", { id: "chat-system", dir: "auto", rows: 3, placeholder: "How the model should behave" }))),
      h("div", { class: "settings-fields", id: "chat-settings-fields" }),
      h("div", { class: "settings-fields" },
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "chat-rolling", "data-setting": "rolling" }), "Leave out the oldest text when the context is full"))));
}
