/**
 * The choice of the graphics card (WebGPU) in the storage panel, and what the page says of it. engine-settings.js fetches this
 * file where the card may be chosen.
 */
import { UserError } from "../shared/protocol.js";
import { byId, h, memory } from "./dom.js";
import { clearError, showError } from "./errors.js";

/** Offers the choice where the browser has a card, and tells the engine where it is made. @param {import("./app.js").App} app */
export async function setUpCard(app) {
  const setting = new CardSetting(app);
  if (setting.wished) setting.tell();
  else if (!(await app.engine.call("models.cards")).card) return;
  setting.show();
}

class CardSetting {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** The card's name, while the engine computes there. */
    this.name = "";
    /** Why it does not. */
    this.problem = "";
    /** Whether the engine has failed with the card in this visit: then the threads compute until the page is loaded anew. */
    this.failed = false;
    this.select = h("select", { id: "computes-on", "aria-describedby": "computes-on-help", onchange: () => this.#change() },
      h("option", { value: "threads" }, "Processor (threads)"),
      h("option", { value: "card" }, "Graphics card (WebGPU)"));
    this.help = h("p", { class: "help", id: "computes-on-help", role: "status" });
    app.actions.threads = () => this.#use(false);
    app.engine.addEventListener("restarted", () => this.#restarted());
  }

  /** The user's setting. */
  get wished() {
    return memory.get("graphics-card", false) === true;
  }

  /** Adds the field below that of the threads. */
  show() {
    byId("threads-help").parentElement?.after(h("div", { class: "field" },
      h("label", { class: "field-label", for: "computes-on" }, "Stories and conversations compute on"), this.select, this.help));
    this.#explain();
  }

  /** The worker answers in order: requests for models that follow wait for the card. */
  async tell() {
    try {
      const { name } = await this.app.engine.call("models.card");
      this.name = name ?? "";
    } catch (/** @type {any} */ error) {
      this.problem = error.what ?? String(error);
    }
    this.#explain();
  }

  #change() {
    clearError(byId("storage-error"));
    if (this.app.busy) showError(byId("storage-error"), new UserError("The engine is working.", { hint: "Stop it first, then change where models compute." }), this.app.actions);
    else this.#use(this.select.value === "card");
    this.#explain();
  }

  /** @param {boolean} card */
  #use(card) {
    memory.set("graphics-card", card);
    this.failed = false;
    this.name = "";
    this.app.restart();
  }

  #restarted() {
    const { engine } = this.app;
    if (this.name && engine.crashes) {
      this.failed = true;
      engine.crashes = 0; // the threads were not the cause
    }
    this.name = this.problem = "";
    if (this.wished && !this.failed) this.tell();
    this.#explain();
  }

  #explain() {
    this.select.value = this.wished ? "card" : "threads";
    this.help.textContent = this.#words();
  }

  #words() {
    if (!this.wished) return "Which of them writes faster depends on the device and on the model. Other views compute on the threads.";
    if (this.failed) return "The engine has failed with the graphics card, so the threads compute. Reload the page to try the card again.";
    if (this.problem) return `The threads compute: ${this.problem}`;
    return this.name ? `They compute on the graphics card now (${this.name}). Other views compute on the threads.` : "The engine is starting.";
  }
}
