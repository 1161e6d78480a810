/**
 * The elements of the read view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, labelled, modelCard, offerList, settingsCard, tool } from "../../page/view-elements.js";
import { cameraPanel } from "../../pictures/camera.js";

/** @param {HTMLElement} view the empty section */
export function buildRead(view) {
  fillView(view, "read-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main read-main" },
    h("h1", { class: "view-title", id: "read-title" }, "Drop a picture. Its text is read ", h("em", {}, "in this tab.")),
    h("section", { class: "card read-intake", "aria-labelledby": "read-intake-title" },
      h("h2", { class: "field-label", id: "read-intake-title" }, "What should be read?"),
      h("div", { class: "read-actions" },
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "read-files", multiple: true, accept: "image/*,application/pdf,.pdf", "aria-describedby": "read-hint" }), h("span", {}, "Choose pictures or a PDF…")),
        h("button", { class: "secondary", type: "button", id: "read-camera" }, "Camera…"),
        h("p", { class: "read-hint", id: "read-hint" }, "or drop or paste some anywhere: PNG, JPEG, WebP, PDF")),
      cameraPanel("read"),
      h("div", { class: "read-samples", id: "read-samples-group", hidden: true },
        h("span", { class: "read-hint", id: "read-samples-label" }, "Or try a sample:"),
        h("div", { class: "openings", id: "read-samples", role: "group", "aria-labelledby": "read-samples-label" })),
      h("ol", { class: "read-queue", id: "read-queue", "aria-label": "Pages", hidden: true }),
      h("p", { class: "read-hint", id: "read-removed", role: "status", hidden: true })),
    h("div", { class: "error-slot", id: "read-locked" }),
    h("div", { class: "error-slot", id: "read-error" }),
    h("article", { class: "sheet card read-sheet", id: "read-sheet", "data-state": "empty", "aria-labelledby": "read-sheet-title" },
      h("h2", { class: "visually-hidden", id: "read-sheet-title" }, "The page and its text"),
      h("header", { class: "read-head", id: "read-head", hidden: true },
        h("div", { class: "read-page" }, h("p", { class: "read-name", id: "read-name" }), h("p", { class: "read-facts", id: "read-facts" })),
        h("button", { class: "primary", type: "button", id: "read-start", "aria-keyshortcuts": "Control+Enter" }, "Read")),
      h("div", { class: "progress-line", id: "read-progress", hidden: true }),
      h("p", { class: "sheet-empty", id: "read-empty" }, "The picture and its text will appear here, side by side. No picture leaves this device."),
      h("div", { class: "read-sides", id: "read-sides", hidden: true },
        h("div", { class: "read-picture" },
          h("div", { class: "read-tools", role: "toolbar", "aria-label": "Picture" },
            tool("read-smaller", "−", "Smaller"), tool("read-larger", "+", "Larger"), tool("read-fit", "Fit", "Fit the picture to its place"), tool("read-turn", "↻", "Turn the picture by a quarter")),
          h("div", { class: "read-box", id: "read-box", tabindex: 0, role: "group", "aria-label": "The picture" }, h("div", { class: "read-stage", id: "read-stage" }))),
        h("div", { class: "read-text-side" },
          h("p", { class: "visually-hidden", id: "read-help" }, "Arrow keys go from line to line. The picture shows where each one stands."),
          h("div", { class: "read-text", id: "read-text", role: "group", "aria-label": "The text", "aria-describedby": "read-help", dir: "auto" }),
          h("p", { class: "read-nothing", id: "read-nothing", hidden: true }))),
      h("section", { class: "read-questions", id: "read-questions", "aria-labelledby": "read-question-label", hidden: true },
        h("form", { id: "read-question-form", autocomplete: "off" },
          h("label", { class: "field-label", for: "read-question", id: "read-question-label" }, "Ask about this page"),
          h("div", { class: "inline-field" },
            h("input", { type: "text", id: "read-question", maxlength: 1000, dir: "auto", enterkeyhint: "send", placeholder: "What is the total?" }),
            h("button", { class: "secondary", type: "submit", id: "read-ask" }, "Ask"))),
        h("ol", { class: "read-asked", id: "read-asked", "aria-label": "Questions and answers" })),
      h("footer", { class: "sheet-foot", id: "read-foot", hidden: true },
        h("dl", { class: "metrics" },
          figure("Words", "read-words"), figure("Lines", "read-lines"), figure("Tables", "read-tables"), figure("Confidence", "read-confidence")),
        h("p", { class: "ending", id: "read-ending" }),
        h("div", { class: "read-buttons" },
          h("button", { class: "quiet", type: "button", id: "read-back", hidden: true }, "Back to the edited text"),
          h("button", { class: "quiet", type: "button", id: "read-undo", hidden: true }, "Undo edit"),
          h("button", { class: "quiet", type: "button", id: "read-edit", "aria-pressed": "false" }, "Edit text"),
          h("button", { class: "quiet", type: "button", id: "read-copy" }, "Copy text"),
          h("div", { class: "read-saving", role: "group", "aria-labelledby": "read-saving-label" },
            h("label", { class: "read-scope", hidden: true }, h("span", { class: "visually-hidden" }, "Pages to save"),
              h("select", { id: "read-scope" }, h("option", { value: "page" }, "This page"), h("option", { value: "all" }, "All pages"))),
            h("span", { class: "read-saving-label", id: "read-saving-label" }, "Save as"),
            h("div", { class: "read-formats", id: "read-formats" }))))),
    announcerLine("read-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("read-model", "Model",
      offerList("For handwriting, choose a TrOCR model of the hub. It is downloaded once, then stored:", { id: "read-offer" })),
    modelCard("answer-model", "Model for questions",
      offerList("It marks the words of a page that answer a question. From the hub, such as these:"), { hidden: true }),
    settingsCard("read-settings",
      h("div", { class: "settings-fields" },
        labelled("Layout", h("select", { id: "read-layout", "data-setting": "layout" },
          h("option", { value: "page" }, "A page: find its lines"), h("option", { value: "line" }, "One line of text")), "A picture of a single line needs no search for lines."),
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "read-find-tables", "data-setting": "tables" }), h("span", {}, "Find ruled tables")),
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "read-straighten", "data-setting": "straighten" }), h("span", {}, "Straighten the page")),
        labelled("Minimum confidence", h("input", { type: "number", id: "read-threshold", "data-setting": "threshold", min: 0, max: 1, step: 0.05, inputmode: "decimal", required: true }), "Lines that the model is less sure of are left out: in photos they may be no text."),
        labelled("Pages of PDFs", h("input", { type: "text", id: "read-pdf-pages", "data-setting": "pdf_pages", spellcheck: "false", placeholder: "all" }), "Such as 1-3, 7. It counts for PDFs that you add from now on."))));
}

/** @param {string} name @param {string} id */
const figure = (name, id) => h("div", {}, h("dt", {}, name), h("dd", { id }, "–"));
