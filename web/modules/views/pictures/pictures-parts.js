/**
 * The elements of the view of pictures; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView, modelCard, offerList, tool } from "../../page/view-elements.js";
import { cameraPanel } from "../../pictures/camera.js";
import { LOOKS } from "./looks.js";

/** @param {HTMLElement} view the empty section */
export function buildPictures(view) {
  fillView(view, "look-title", main(), side());
}

function main() {
  return h("div", { class: "workspace-main read-main" },
    h("h1", { class: "view-title", id: "look-title" }, "Show a picture. What is in it is found ", h("em", {}, "in this tab.")),
    h("section", { class: "card read-intake", "aria-labelledby": "look-intake-title" },
      h("h2", { class: "field-label", id: "look-intake-title" }, "Which picture?"),
      h("div", { class: "read-actions" },
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "look-files", accept: "image/*", "aria-describedby": "look-hint" }), h("span", {}, "Choose a picture…")),
        h("button", { class: "secondary", type: "button", id: "look-camera" }, "Camera…"),
        h("p", { class: "read-hint", id: "look-hint" }, "or drop or paste one here: PNG, JPEG, WebP, SVG")),
      cameraPanel("look"),
      h("div", { class: "read-samples" },
        h("span", { class: "read-hint", id: "look-examples-label" }, "Or try a drawing:"),
        h("div", { class: "openings", id: "look-examples", role: "group", "aria-labelledby": "look-examples-label" })),
      h("fieldset", { class: "look-choice" },
        h("legend", { class: "field-label" }, "What to do with it"),
        h("div", { class: "look-choices", id: "look-choices" }, ...LOOKS.map(({ task, label }) =>
          h("label", {}, h("input", { type: "radio", name: "look", value: task }), h("span", {}, label)))),
        h("p", { class: "read-hint", id: "look-about" })),
      h("div", { class: "field", id: "look-words-field", hidden: true },
        h("label", { class: "field-label", for: "look-words" }, "Your words, one in each line"),
        h("textarea", { id: "look-words", "data-setting": "labels", rows: 3, dir: "auto", placeholder: "a cat\na dog\na red car" }))),
    h("div", { class: "error-slot", id: "look-error" }),
    h("article", { class: "sheet card read-sheet", id: "look-sheet", "data-state": "empty", "aria-labelledby": "look-sheet-title" },
      h("h2", { class: "visually-hidden", id: "look-sheet-title" }, "The picture and what is in it"),
      h("header", { class: "read-head", id: "look-head", hidden: true },
        h("div", { class: "read-page" }, h("p", { class: "read-name", id: "look-name" }), h("p", { class: "read-facts", id: "look-facts" })),
        h("button", { class: "primary", type: "button", id: "look-start", "aria-keyshortcuts": "Control+Enter" }, "Find objects")),
      h("div", { class: "progress-line", id: "look-progress", hidden: true }),
      h("p", { class: "sheet-empty", id: "look-empty" }, "The picture will appear here, and beside it what was found. No picture leaves this device."),
      h("div", { class: "read-sides look-sides", id: "look-sides", hidden: true },
        h("div", { class: "look-picture" },
          h("div", { class: "read-tools", role: "toolbar", "aria-label": "Picture" },
            tool("look-smaller", "−", "Smaller"), tool("look-larger", "+", "Larger"), tool("look-fit", "Fit", "Fit the picture to its place"), tool("look-turn", "↻", "Turn the picture by a quarter")),
          h("div", { class: "read-box look-box", id: "look-box", tabindex: 0, role: "group", "aria-label": "The picture" }, h("div", { class: "read-stage look-stage", id: "look-stage" }))),
        h("div", { class: "look-side" },
          h("div", { class: "look-tools", id: "look-cutting", hidden: true },
            h("p", { class: "read-hint", id: "look-keys" }, "Click what belongs to it; with Shift, what does not. With keys: arrows move the cross, Enter sets a point, the minus key one that leaves out, Backspace takes the last one away."),
            h("div", { class: "read-actions" },
              h("button", { class: "quiet", type: "button", id: "look-minus", "aria-pressed": "false" }, "Leave parts out"),
              h("button", { class: "quiet", type: "button", id: "look-unpoint" }, "Undo point"),
              h("button", { class: "quiet", type: "button", id: "look-unpoint-all" }, "Start over"))),
          h("div", { class: "slider look-tools", id: "look-threshold-field", hidden: true },
            h("label", { class: "field-label", for: "look-threshold" }, "Minimum probability"), h("output", { id: "look-threshold-value", for: "look-threshold" }),
            h("input", { type: "range", id: "look-threshold", "data-setting": "threshold", min: 0.05, max: 0.95, step: 0.05 })),
          h("div", { class: "slider look-tools", id: "look-opacity-field", hidden: true },
            h("label", { class: "field-label", for: "look-opacity" }, "Opacity of the map"), h("output", { id: "look-opacity-value", for: "look-opacity" }),
            h("input", { type: "range", id: "look-opacity", min: 0, max: 1, step: 0.05 })),
          h("div", { id: "look-found", class: "look-results", role: "group", "aria-label": "What was found", dir: "auto" }),
          h("p", { class: "read-nothing", id: "look-nothing" }))),
      h("footer", { class: "sheet-foot", id: "look-foot", hidden: true },
        h("p", { class: "ending", id: "look-ending" }),
        h("div", { class: "read-buttons" },
          h("button", { class: "quiet", type: "button", id: "look-copy" }, "Copy text"),
          h("div", { class: "read-saving", role: "group", "aria-labelledby": "look-saving-label" },
            h("span", { class: "read-saving-label", id: "look-saving-label" }, "Save as"),
            h("div", { class: "read-formats", id: "look-formats" }))))),
    announcerLine("look-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    ...LOOKS.map(({ task, label, offers }) => modelCard(`look-model-${task}`, `Model for “${label}”`,
      offerList(`From the hub, ${offers.length > 1 ? "such as these" : "such as this"}:`), { hidden: true })));
}
