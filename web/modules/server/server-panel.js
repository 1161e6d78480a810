/**
 * The fields of the card "Server": address, key, model. Loaded when the card is first opened, or if the last visit used a
 * server.
 */
import { h, memory, tabMemory } from "../page/dom.js";
import { clearError, showError } from "../page/errors.js";
import { UserError } from "../shared/protocol.js";
import { ServerEngine } from "./server-engine.js";

const KEY = "server-key"; // forgotten with the tab

export class ServerPanel {
  /** @param {import("../page/server-card.js").ServerCard} card */
  constructor(card) {
    const { task } = card;
    this.card = card;
    /** @type {import("./server-engine.js").ServedModel[]} */
    this.models = [];
    const last = memory.get(card.remembered, {});
    const id = (/** @type {string} */ name) => `${task}-server-${name}`;
    this.address = h("input", { type: "url", id: id("address"), required: true, maxlength: 300, autocapitalize: "off", spellcheck: "false", placeholder: "http://localhost:8000", value: typeof last.address === "string" ? last.address : location.origin });
    this.key = h("input", { type: "password", id: id("key"), maxlength: 500, autocomplete: "off", value: tabMemory.get(KEY) ?? "", placeholder: "If it asks for one" });
    this.model = h("select", { id: id("model"), onchange: () => this.#use() });
    this.connect = h("button", { type: "submit", class: "secondary" }, "Use this server");
    this.leave = h("button", { type: "button", class: "secondary", hidden: true, onclick: () => this.#leave() }, "Compute in this tab");
    this.slot = h("div", { class: "error-slot" });
    this.chosen = h("div", { hidden: true }, h("label", { class: "field-label", for: id("model") }, "Its model"), this.model);
    const privacy = task === "chat" ? "What you write is sent to it." : "Recordings are sent to it; the microphone is heard in this tab.";
    this.form = h("form", { class: "settings-fields", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), this.begin()) },
      h("p", { class: "model-text" }, `A server with OpenAI’s interface, such as pyapp serve, computes in place of this tab. ${privacy}`),
      h("div", { class: "field" }, h("label", { class: "field-label", for: id("address") }, "Address"), this.address),
      h("div", { class: "field" }, h("label", { class: "field-label", for: id("key") }, "API key"), this.key),
      this.chosen, this.connect, this.leave, this.slot);
    card.element.append(this.form);
  }

  /** Asks the server for its models, and uses the one of the last visit, or the first. */
  async begin() {
    clearError(this.slot);
    this.connect.disabled = true;
    const engine = new ServerEngine(this.address.value.trim(), this.key.value.trim());
    try {
      if (!/^https?:\/\/./.test(engine.address)) throw new UserError("This is not the address of a server.", { where: engine.address, hint: "Give one such as http://localhost:8000." });
      const models = await engine.models(this.card.served);
      if (!models.length) throw new UserError(this.card.task === "chat" ? "The server has no language model." : "The server has no speech model.", { where: engine.address, hint: "Start it with one: pyapp serve MODEL." });
      const last = memory.get(this.card.remembered, {});
      this.engine = engine;
      this.models = models;
      this.model.replaceChildren(...models.map((model) => h("option", { value: model.id }, model.id)));
      if (models.some((model) => model.id === last.model)) this.model.value = last.model;
      this.#use();
    } catch (error) {
      this.#leave(false);
      showError(this.slot, error, { retry: () => this.begin() });
    } finally {
      this.connect.disabled = false;
    }
  }

  #use() {
    const model = this.models.find((one) => one.id === this.model.value);
    if (!this.engine || !model) return;
    memory.set(this.card.remembered, { address: this.engine.address, model: model.id });
    tabMemory.set(KEY, this.engine.key || null);
    this.#show(true);
    this.card.use({ engine: this.engine, model });
  }

  /** @param {boolean} [forget] also for later visits */
  #leave(forget = true) {
    if (forget) memory.set(this.card.remembered, null);
    this.#show(false);
    this.card.use(null);
  }

  /** @param {boolean} used */
  #show(used) {
    this.chosen.hidden = this.leave.hidden = !used;
    this.connect.textContent = used ? "Ask it again" : "Use this server";
  }
}
