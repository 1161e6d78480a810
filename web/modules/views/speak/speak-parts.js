/**
 * The elements of the speak view; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, labelled, modelCard, offerList, settingsCard } from "../../page/view-elements.js";

/** How fast, beside the voice's own rate. */
const RATES = [["0.6", "Slow"], ["0.8", "Rather slow"], ["1", "As the voice speaks"], ["1.2", "Rather fast"], ["1.5", "Fast"], ["2", "Twice as fast"]];

/** @param {HTMLElement} view the empty section */
export function buildSpeak(view) {
  fillView(view, "speak-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main" },
    h("h1", { class: "view-title", id: "speak-title" }, "Hear a text, spoken ", h("em", {}, "in this tab.")),
    h("form", { class: "composer card", id: "speak-form", autocomplete: "off" },
      h("label", { class: "field-label", for: "speak-text" }, "Your text"),
      h("textarea", { id: "speak-text", rows: 4, dir: "auto", spellcheck: "true", placeholder: "Write or paste a text, or drop a text file", "aria-describedby": "speak-keys" }),
      h("div", { class: "speak-note", id: "speak-note", role: "status" }),
      h("div", { class: "composer-foot" },
        h("label", { class: "speak-voice", id: "speak-voices", hidden: true }, h("span", { class: "field-label" }, "Voice"), h("select", { id: "speak-voice" })),
        h("button", { class: "primary", id: "speak-run", type: "submit", "aria-keyshortcuts": "Control+Enter" }, "Speak")),
      h("p", { class: "visually-hidden", id: "speak-keys" }, "Control and Enter speak, Escape stops.")),
    h("div", { class: "error-slot", id: "speak-error" }),
    h("article", { class: "sheet card", id: "speak-sheet", "data-state": "empty", "aria-labelledby": "speak-sheet-title" },
      h("h2", { class: "visually-hidden", id: "speak-sheet-title" }, "What was spoken"),
      h("div", { class: "progress-line", id: "speak-progress", hidden: true }),
      h("p", { class: "sheet-empty", id: "speak-empty" }, "The speech will be here, to hear again and to save. Nothing that you type leaves this device."),
      h("audio", { class: "speak-player", id: "speak-player", controls: true, preload: "metadata", hidden: true }),
      h("div", { class: "story-text", id: "speak-output", dir: "auto", tabindex: 0, role: "group", "aria-labelledby": "speak-sheet-title", hidden: true }),
      h("footer", { class: "sheet-foot", id: "speak-foot", hidden: true },
        h("p", { class: "ending", id: "speak-ending" }),
        h("div", { class: "story-actions", id: "speak-actions" },
          h("button", { class: "quiet", id: "speak-save", type: "button" }, "Save as WAV")))),
    announcerLine("speak-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    modelCard("speak-model", "Model",
      offerList("No voice comes with the page. These are on the hub; each is downloaded once, then stored:", { id: "speak-offer" })),
    settingsCard("speak-settings",
      h("div", { class: "settings-fields" },
        labelled("Speed", h("select", { id: "speak-rate", "data-setting": "rate" }, ...RATES.map(([value, name]) => h("option", { value }, name)))),
        labelled("Pause between sentences", h("input", { type: "number", id: "speak-pause", "data-setting": "pause", min: "0", max: "5", step: "0.1", inputmode: "decimal" }), "In seconds."),
        labelled("Seed", h("input", { type: "number", id: "speak-seed", "data-setting": "seed", min: "0", max: "4294967295", step: "1", inputmode: "numeric" }), "The same seed gives the same speech; another one, a slightly different one."),
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "speak-play", "data-setting": "play" }), " Play while it is computed"))));
}
