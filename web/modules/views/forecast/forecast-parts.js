/**
 * The elements of the forecast view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, labelled, modelCard, offerList, settingsCard } from "../../page/view-elements.js";

/** @param {HTMLElement} view the empty section */
export function buildForecast(view) {
  fillView(view, "forecast-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main" },
    h("h1", { class: "view-title", id: "forecast-title" }, "See where your numbers may go, ", h("em", {}, "in this tab.")),
    h("form", { class: "composer card", id: "forecast-form", autocomplete: "off" },
      h("label", { class: "field-label", for: "forecast-text" }, "Your numbers"),
      h("textarea", { id: "forecast-text", rows: 5, spellcheck: "false", wrap: "off", placeholder: "date,visitors\n2026-01-01,182\n2026-01-02,195\n…", "aria-describedby": "forecast-hint forecast-keys" }),
      h("div", { class: "forecast-intake" },
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "forecast-file", accept: ".csv,.tsv,.txt,text/*", "aria-describedby": "forecast-hint" }), h("span", {}, "Choose a CSV file…")),
        h("p", { class: "forecast-hint", id: "forecast-hint" }, "or drop one anywhere: a line for each moment, at equal distances, the newest last")),
      h("div", { class: "forecast-intake", id: "forecast-samples-group" },
        h("span", { class: "forecast-hint", id: "forecast-samples-label" }, "Or try a sample:"), h("div", { class: "openings", id: "forecast-samples", role: "group", "aria-labelledby": "forecast-samples-label" })),
      h("div", { class: "forecast-note", id: "forecast-note", role: "status" }),
      h("div", { class: "composer-foot" },
        h("div", { class: "forecast-choices" },
          h("label", { id: "forecast-columns", hidden: true }, h("span", { class: "field-label" }, "Column"), h("select", { id: "forecast-column" })),
          h("label", { id: "forecast-dates-choice", hidden: true }, h("span", { class: "field-label" }, "Dates"), h("select", { id: "forecast-dates" })),
          h("label", {}, h("span", { class: "field-label" }, "Values ahead"), h("input", { type: "number", id: "forecast-horizon", "data-setting": "horizon", min: "1", max: "16384", step: "1", inputmode: "numeric" }))),
        h("button", { class: "primary", id: "forecast-run", type: "submit", "aria-keyshortcuts": "Control+Enter" }, "Forecast")),
      h("p", { class: "visually-hidden", id: "forecast-keys" }, "Control and Enter forecast, Escape stops.")),
    h("div", { class: "error-slot", id: "forecast-error" }),
    h("article", { class: "sheet card", id: "forecast-sheet", "data-state": "empty", "aria-labelledby": "forecast-sheet-title" },
      h("h2", { class: "visually-hidden", id: "forecast-sheet-title" }, "The forecast"),
      h("div", { class: "progress-line", id: "forecast-progress", hidden: true }),
      h("p", { class: "sheet-empty", id: "forecast-empty" }, "The curve of your numbers will be here, and how it may go on. They do not leave this device."),
      h("p", { class: "forecast-caption", id: "forecast-caption", hidden: true }),
      h("div", { id: "forecast-chart", hidden: true }),
      h("ul", { class: "forecast-legend", id: "forecast-legend", hidden: true }),
      h("details", { class: "more", id: "forecast-numbers", hidden: true }, h("summary", {}, "The numbers"),
        h("div", { class: "forecast-table", tabindex: 0, role: "group", "aria-label": "The numbers of the forecast" }, h("table", { id: "forecast-table" }))),
      h("footer", { class: "sheet-foot", id: "forecast-foot", hidden: true },
        h("p", { class: "ending", id: "forecast-ending" }),
        h("div", { class: "story-actions" },
          h("button", { class: "quiet", id: "forecast-copy", type: "button" }, "Copy numbers"),
          h("button", { class: "quiet", id: "forecast-save", type: "button" }, "Save as CSV")))),
    announcerLine("forecast-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("forecast-model", "Model",
      offerList("No model for this comes with the page. These are on the hub; each is downloaded once, then stored:", { id: "forecast-offer" })),
    settingsCard("forecast-settings",
      h("div", { class: "settings-fields" },
        labelled("Quantile levels", h("input", { type: "text", id: "forecast-levels", "data-setting": "quantiles", spellcheck: "false", inputmode: "text" }),
          "Below the level 0.1 lies a tenth of what may come. The band goes from the first level to the last one."),
        h("div", { class: "forecast-drawing-fields", id: "forecast-drawing-fields", hidden: true },
          labelled("Paths", h("input", { type: "number", id: "forecast-samples-count", "data-setting": "samples", min: "1", max: "16384", step: "1", inputmode: "numeric" }), "How many futures the model draws; the quantiles are computed from them."),
          labelled("Seed", h("input", { type: "number", id: "forecast-seed", "data-setting": "seed", min: "0", max: "4294967295", step: "1", inputmode: "numeric" }), "The same seed draws the same paths.")),
        h("div", { id: "forecast-frequency-field", hidden: true },
          labelled("Distance of the values", h("select", { id: "forecast-frequency", "data-setting": "frequency" },
            h("option", { value: "0" }, "Up to a day"), h("option", { value: "1" }, "A week or a month"), h("option", { value: "2" }, "A quarter or a year")), "This model has to be told.")))));
}
