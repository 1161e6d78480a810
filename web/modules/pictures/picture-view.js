/**
 * What the views of pictures have in common: a camera, and Ctrl+Enter instead of the button.
 */
import { byId } from "../page/dom.js";
import { showError } from "../page/errors.js";
import { WorkingView } from "../page/working-view.js";
import { UserError } from "../shared/protocol.js";
import { Camera } from "./camera.js";

export class PictureView extends WorkingView {
  /**
   * As WorkingView; its button is "start".
   * @param {import("../page/app.js").App} app @param {import("../page/models.js").Models} models @param {HTMLElement} view
   * @param {string} name @param {string} status
   */
  constructor(app, models, view, name, status) {
    super(app, models, view, name, "start", status);
    this.camera = new Camera(view, name, byId(`${name}-camera`));
    byId(`${name}-camera`).addEventListener("click", () => this.attempt(() => this.camera.open()));
    this.camera.addEventListener("lost", () => showError(this.slot, new UserError("The camera has stopped.", { hint: "Connect it, or permit it again; or choose a picture." }), this.actions));
    const files = /** @type {HTMLInputElement} */ (byId(`${name}-files`));
    files.addEventListener("change", () => {
      const chosen = [...(files.files ?? [])];
      files.value = "";
      if (chosen.length) this.add(chosen);
    });
    byId(`${name}-start`).addEventListener("click", () => this.pressed());
    view.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat && !this.button.running && this.shown) this.pressed();
    });
  }

  /** What is shown: there is something to work with. @returns {unknown} */
  get shown() {
    throw new TypeError("A view of pictures says what it shows.");
  }

  /** Takes pictures. @param {File[]} files @returns {unknown} */
  add(files) {
    throw new TypeError(`A view of pictures takes ${files.length} pictures.`);
  }

  /** The button is pressed. @returns {unknown} */
  pressed() {
    throw new TypeError("A view of pictures works when its button is pressed.");
  }
}
