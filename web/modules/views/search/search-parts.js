/**
 * The elements of the search view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, labelled, modelCard, settingsCard } from "../../page/view-elements.js";

/** @param {HTMLElement} view the empty section */
export function buildSearch(view) {
  fillView(view, "search-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main search-main" },
    h("h1", { class: "view-title", id: "search-title" }, "Find by meaning in your texts, ", h("em", {}, "in this tab.")),
    h("form", { class: "composer card search-form", id: "search-form", autocomplete: "off", role: "search" },
      h("label", { class: "field-label", for: "search-question" }, "What do you look for?"),
      h("input", { type: "text", id: "search-question", dir: "auto", spellcheck: "true", placeholder: "A question or a thought" }),
      h("button", { class: "primary", id: "search-find", type: "submit" }, "Search")),
    h("div", { class: "error-slot", id: "search-error" }),
    h("div", { class: "progress-line", id: "search-progress", hidden: true }),
    h("p", { class: "search-note", id: "search-note", role: "status", hidden: true }),
    h("section", { class: "search-results", "aria-labelledby": "search-results-title" },
      h("h2", { class: "visually-hidden", id: "search-results-title" }, "Passages found"),
      h("p", { class: "search-empty", id: "search-empty" }),
      h("ol", { class: "search-list", id: "search-list" }),
      h("button", { type: "button", class: "secondary", id: "search-more", hidden: true }, "Show more")),
    h("section", { class: "card search-intake", "aria-labelledby": "search-intake-title" },
      h("h2", { class: "card-title", id: "search-intake-title" }, "Add texts"),
      h("p", { class: "search-hint" }, "Drop .txt, .md, .json or .csv files, or a folder, anywhere; or choose them. They stay on this device."),
      h("div", { class: "search-actions" },
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "search-files", multiple: true, accept: ".txt,.md,.markdown,.text,.json,.jsonl,.csv,.tsv,.log,.srt,.vtt,.html,text/*,application/json" }), h("span", {}, "Choose files…")),
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "search-folder", webkitdirectory: true }), h("span", {}, "Choose a folder…"))),
      h("label", { class: "field-label", for: "search-paste" }, "Or paste a text"),
      h("textarea", { id: "search-paste", dir: "auto", rows: 3, placeholder: "Paste here" }),
      h("div", { class: "search-actions" }, h("button", { type: "button", class: "secondary", id: "search-add" }, "Add this text"))),
    h("details", { class: "card more search-compare" }, h("summary", { class: "card-title" }, h("h2", {}, "Compare two texts")),
      h("div", { class: "search-compare-body" },
        h("label", { class: "field-label", for: "compare-one" }, "One text"), h("textarea", { id: "compare-one", dir: "auto", rows: 2 }),
        h("label", { class: "field-label", for: "compare-two" }, "Another text"), h("textarea", { id: "compare-two", dir: "auto", rows: 2 }),
        h("div", { class: "search-actions" }, h("button", { type: "button", class: "secondary", id: "compare" }, "Compare")),
        h("p", { class: "compare-result", id: "compare-result", role: "status" }))),
    announcerLine("search-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("search-model", "Model",
      h("ul", { class: "offer-list", id: "search-offer", hidden: true })),
    settingsCard("search-settings",
      h("div", { class: "settings-fields" },
        labelled("Length of a passage", h("input", { ...NUMBER, id: "search-size", "data-setting": "size", min: 16, max: 2048 }), "Maximum number of tokens (a word is one or a few). Shorter passages are found more exactly."),
        labelled("Overlap", h("input", { ...NUMBER, id: "search-overlap", "data-setting": "overlap", min: 0, max: 512 }), "Tokens at the end of a passage that the next one repeats."),
        labelled("Before a question", h("input", { ...TEXT, id: "search-query-prompt" }), "Some models were trained with a word before questions, such as “query: ”."),
        labelled("Before a passage", h("input", { ...TEXT, id: "search-passage-prompt" }), "Such as “passage: ”."))));
}

const NUMBER = { type: "number", step: 1, inputmode: "numeric", required: true };
const TEXT = { type: "text", spellcheck: "false" };
