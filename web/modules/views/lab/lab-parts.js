/**
 * The elements of the Lab; they are not in index.html, because the page starts without them.
 */
import { h } from "../../page/dom.js";
import { announcerLine, fillView } from "../../page/view-elements.js";

/** @param {HTMLElement} view the empty section */
export function buildLab(view) {
  fillView(view, "lab-title", main(), side());
}

const button = (/** @type {string} */ id, /** @type {string} */ kind, /** @type {string} */ text) => h("button", { type: "button", class: kind, id }, text);

function main() {
  return h("div", { class: "workspace-main lab-main" },
    h("h1", { class: "view-title", id: "lab-title" }, "Write Python, train models, ", h("em", {}, "in this tab.")),
    h("div", { class: "lab-top" }, h("div", { class: "card lab-bar" },
      h("label", { class: "visually-hidden", for: "lab-name" }, "Name of the notebook"),
      h("input", { type: "text", id: "lab-name", class: "lab-name", dir: "auto", maxlength: 200, spellcheck: "false" }),
      h("div", { class: "lab-actions" },
        h("button", { type: "button", class: "primary", id: "lab-run" }, "Run all"),
        h("button", { type: "button", class: "secondary", id: "lab-stop", disabled: true }, "Stop"),
        h("button", { type: "button", class: "quiet", id: "lab-restart" }, "Restart Python"),
        h("p", { class: "engine-status lab-status", id: "lab-status", role: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { id: "lab-status-text" })))),
    h("div", { class: "lab-note", id: "lab-note", role: "status", hidden: true })),
    h("div", { class: "error-slot", id: "lab-error" }),
    h("ol", { class: "lab-cells", id: "lab-cells" }),
    h("div", { class: "cell-add lab-add" }, button("lab-add-code", "quiet", "+ Code"), button("lab-add-text", "quiet", "+ Text")),
    announcerLine("lab-announcer"));
}

function side() {
  return h("div", { class: "workspace-side" },
    h("section", { class: "card lab-card", "aria-labelledby": "lab-lessons-title" },
      h("h2", { class: "card-title", id: "lab-lessons-title" }, "Lessons"), h("ul", { class: "lab-lessons", id: "lab-lessons" })),
    h("section", { class: "card lab-card", "aria-labelledby": "lab-notebook-title" },
      h("h2", { class: "card-title", id: "lab-notebook-title" }, "Notebook"),
      h("div", { class: "lab-buttons" },
        button("lab-new", "secondary", "New"),
        h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "lab-open", accept: ".ipynb,.py" }), h("span", {}, "Open…")),
        button("lab-save-ipynb", "secondary", "Save as .ipynb"), button("lab-save-py", "secondary", "Save as .py"), button("lab-link", "secondary", "Copy a link"))),
    h("section", { class: "card lab-card", "aria-labelledby": "lab-files-title" },
      h("h2", { class: "card-title", id: "lab-files-title" }, "Files"),
      h("p", { class: "lab-hint" }, "Cells read and write these files by name. They are stored with the notebook; a click saves one to this device."),
      h("ul", { class: "lab-files", id: "lab-files" }),
      h("label", { class: "secondary file-button" }, h("input", { type: "file", id: "lab-add-files", multiple: true }), h("span", {}, "Add files…"))),
    h("details", { class: "card settings lab-help" },
      h("summary", { class: "card-title" }, h("h2", {}, "Keys and settings")),
      h("dl", { class: "settings-fields lab-keys" },
        ...[["Shift+Enter", "runs the cell and goes to the next one"], ["Ctrl+Enter", "runs the cell"], ["Escape", "leaves the editor; arrow keys then go from cell to cell, Tab goes on, Enter edits"],
          ["Tab", "indents, or takes a completion"], ["Ctrl+Space", "completes a name"]].map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))),
      h("div", { class: "settings-fields" },
        h("div", { class: "field" }, h("label", { class: "field-label", for: "lab-hosts" }, "Hosts that cells may reach"),
          h("input", { type: "text", id: "lab-hosts", spellcheck: "false", autocapitalize: "off", placeholder: "example.org files.example.org", "aria-describedby": "lab-hosts-help" }),
          h("p", { class: "help", id: "lab-hosts-help" }, "Cells reach this site only, and the hosts that you name here: for data, and for packages of await lab.install(…). The browser refuses all others. A change takes effect when Python restarts.")))));
}
