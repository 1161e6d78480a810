/**
 * The elements of the translate view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, labelled, modelCard, offerList, settingsCard } from "../../page/view-elements.js";

/** @param {HTMLElement} view the empty section */
export function buildTranslate(view) {
  fillView(view, "translate-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main" },
    h("h1", { class: "view-title", id: "translate-title" }, "Translate a text, or sum it up, ", h("em", {}, "in this tab.")),
    h("form", { class: "composer card", id: "translate-form", autocomplete: "off" },
      h("label", { class: "field-label", for: "translate-text" }, "Your text"),
      h("textarea", { id: "translate-text", rows: 4, dir: "auto", spellcheck: "true", placeholder: "Write or paste a text, or drop a text file", "aria-describedby": "translate-keys" }),
      h("div", { class: "translate-note", id: "translate-note", role: "status" }),
      h("div", { class: "composer-foot" },
        h("div", { class: "translate-languages", id: "translate-languages", hidden: true },
          h("label", {}, h("span", { class: "field-label" }, "From"), h("select", { id: "translate-from" })),
          h("label", {}, h("span", { class: "field-label" }, "To"), h("select", { id: "translate-to" }))),
        h("button", { class: "primary", id: "translate-run", type: "submit", "aria-keyshortcuts": "Control+Enter" }, "Translate")),
      h("p", { class: "visually-hidden", id: "translate-keys" }, "Control and Enter translate, Escape stops.")),
    h("div", { class: "error-slot", id: "translate-error" }),
    h("article", { class: "sheet card", id: "translate-sheet", "data-state": "empty", "aria-labelledby": "translate-sheet-title" },
      h("h2", { class: "visually-hidden", id: "translate-sheet-title" }, "What the model wrote"),
      h("div", { class: "progress-line", id: "translate-progress", hidden: true }),
      h("p", { class: "sheet-empty", id: "translate-empty" }, "The translation will appear here, part by part. Nothing that you type leaves this device."),
      h("div", { class: "story-text", id: "translate-output", dir: "auto", tabindex: 0, role: "group", "aria-labelledby": "translate-sheet-title", hidden: true }),
      h("footer", { class: "sheet-foot", id: "translate-foot", hidden: true },
        h("p", { class: "ending", id: "translate-ending" }),
        h("div", { class: "story-actions", id: "translate-actions" },
          h("button", { class: "quiet", id: "translate-copy", type: "button" }, "Copy text"),
          h("button", { class: "quiet", id: "translate-save", type: "button" }, "Save as TXT")))),
    announcerLine("translate-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("translate-model", "Model",
      offerList("No model for this comes with the page. These are on the hub; each is downloaded once, then stored:", { id: "translate-offer" })),
    settingsCard("translate-settings",
      h("div", { class: "settings-fields" },
        labelled("Parts", h("select", { id: "translate-division", "data-setting": "division" },
          h("option", { value: "sentences" }, "Sentence by sentence"), h("option", { value: "paragraphs" }, "Paragraph by paragraph"), h("option", { value: "whole" }, "The whole text at once")),
        "Translation models were trained on sentences. A summary needs the whole text."),
        labelled("Before each part", h("input", { type: "text", id: "translate-prefix", spellcheck: "false", autocapitalize: "off", list: "translate-prefixes" }),
          "T5 is told what to do: “translate English to German: ”, “summarize: ”. OPUS-MT with several languages is told which one: “>>fra<< ”."),
        h("datalist", { id: "translate-prefixes" }))));
}
