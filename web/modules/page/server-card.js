/**
 * The card "Server" of a view: a server that computes in place of this tab. Its fields are fetched when they are needed.
 *
 * Fires: "change" (another server or model, or none, is used).
 * @typedef {{engine: import("../server/server-engine.js").ServerEngine, model: import("../server/server-engine.js").ServedModel}} Used
 */
import { importPart } from "../shared/site-parts.js";
import { h, memory } from "./dom.js";
import { failedPart, showError } from "./errors.js";

export class ServerCard extends EventTarget {
  /**
   * @param {HTMLElement} model the card of the model in the tab, after which this one comes
   * @param {"chat" | "transcribe"} task @param {import("./announcer.js").Announcer} announcer
   */
  constructor(model, task, announcer) {
    super();
    this.model = model;
    this.task = task;
    /** The task of models, as the server names it. */
    this.served = task === "chat" ? "generate" : task;
    this.announcer = announcer;
    this.remembered = `${task}-server`;
    /** @type {Used | null} null: this tab computes */
    this.used = null;
    /** @type {Promise<import("../server/server-panel.js").ServerPanel> | null} */
    this.panel = null;
    this.element = h("details", { class: "card settings", id: `${task}-server` }, h("summary", { class: "card-title" }, h("h2", {}, "Server")));
    model.after(this.element);
    this.element.addEventListener("toggle", () => this.element.open && this.#fields());
    const last = memory.get(this.remembered, {});
    /** Resolved when a server of the last visit has answered, or has failed to. */
    this.ready = typeof last.address === "string" ? this.#again() : Promise.resolve();
    // A server of pyapp sends the page with this cookie: it can compute too.
    if (last.address || document.cookie.includes("pyapp-server=1")) this.element.open = true;
  }

  async #again() {
    const panel = await this.#fields();
    await panel?.begin();
  }

  async #fields() {
    this.panel ??= importPart("modules/server/server-panel.js").then(({ ServerPanel }) => new ServerPanel(this));
    try {
      return await this.panel;
    } catch (error) {
      this.panel = null;
      const slot = h("div", { class: "error-slot" });
      this.element.append(slot);
      showError(slot, failedPart("The fields for a server could not be loaded.", error), { retry: () => (slot.remove(), this.#fields()) });
      return null;
    }
  }

  /** @param {Used | null} used */
  use(used) {
    const before = this.used;
    this.used = used;
    this.model.hidden = used !== null;
    if (used || before) this.announcer.say(used ? `The server’s model ${used.model.id} is used.` : "This tab computes.");
    this.dispatchEvent(new CustomEvent("change"));
  }
}
