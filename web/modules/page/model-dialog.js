/**
 * The list of models: choose, download, cancel, resume, delete; files from the computer; the hub's address.
 */
import { megabytes } from "../shared/protocol.js";
import { DEFAULT_HUB } from "./app.js";
import { byId, h, openDialog } from "./dom.js";
import { clearError, showError } from "./errors.js";

/** The accepted files of each task: a description and file suffixes. */
const FILES = {
  generate: {
    text: ["Drop a llama2.c checkpoint (", h("code", {}, ".bin"), ") and its ", h("code", {}, "tokenizer.bin"), " here, both together."],
    accept: ".bin,.json,.safetensors",
  },
  transcribe: {
    text: ["Drop the folder of a Whisper model here (", h("code", {}, "config.json"), ", ", h("code", {}, "model.safetensors"), ", ",
      h("code", {}, "tokenizer.json"), " …), a ", h("code", {}, "ggml-*.bin"), " of whisper.cpp, or OpenAI’s ", h("code", {}, ".pt"),
      " with its ", h("code", {}, "tokenizer.json"), "."],
    accept: ".bin,.json,.safetensors,.pt",
  },
  chat: {
    text: ["Drop a ", h("code", {}, ".gguf"), " file here, or the folder of a model (", h("code", {}, "config.json"), ", ",
      h("code", {}, "model.safetensors"), ", ", h("code", {}, "tokenizer.json"), " …)."],
    accept: ".gguf,.bin,.json,.safetensors,.model,.txt,.jinja,.tiktoken",
  },
};

export class ModelDialog {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** The choice whose models are shown. */
    this.choice = app.choices.generate;
    this.dialog = byId("model-dialog");
    /** Downloads that are running. @type {Map<string, {controller: AbortController, progress: object | null}>} */
    this.downloads = new Map();
    /** @type {Map<string, unknown>} */
    this.errors = new Map();
    for (const id of ["pick-files", "pick-folder"]) byId(id).addEventListener("change", (event) => this.#picked(event.target));
    for (const choice of Object.values(app.choices)) {
      choice.addEventListener("models", () => choice === this.choice && this.render());
    }
    app.actions.models = () => this.open();
    this.#hubField();
  }

  /**
   * @param {import("./model-choice.js").ModelChoice} [choice] by default the last one
   * @param {string} [id] the model to show first
   */
  open(choice = this.choice, id = undefined) {
    this.choice = choice;
    const { text, accept } = FILES[choice.task];
    byId("drop-text").replaceChildren(...text);
    byId("pick-files").accept = accept;
    clearError(byId("model-error"));
    byId("pick-folder").closest("label").hidden = choice.task === "generate";
    this.render();
    openDialog(this.dialog);
    if (id) /** @type {HTMLElement} */ (byId("model-list").querySelector(`[data-model="${CSS.escape(id)}"] button`))?.focus();
    this.app.refresh().catch((error) => showError(byId("model-error"), error, this.app.actions));
  }

  render() {
    const focused = document.activeElement?.getAttribute("data-key");
    byId("model-list").replaceChildren(...this.choice.models.map((model) => this.#row(model)));
    if (focused) /** @type {HTMLElement} */ (byId("model-list").querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
  }

  #row(model) {
    const selected = this.choice.model?.id === model.id;
    const download = this.downloads.get(model.id);
    const row = h("li", { class: "model-row", "data-selected": String(selected), "data-model": model.id },
      h("p", { class: "row-title" }, model.title, h("span", { class: "row-size" }, sizeText(model))),
      h("p", { class: "row-text" }, model.description ?? ""),
      h("div", { class: "row-actions" }, ...this.#buttons(model, selected, download)));
    if (download) row.append(progressOf(download.progress));
    if (this.errors.has(model.id)) {
      const slot = h("div", { class: "error-slot" });
      row.append(slot);
      const retry = () => this.download(model);
      showError(slot, this.errors.get(model.id), { ...this.app.actions, retry });
    }
    return row;
  }

  #buttons(model, selected, download) {
    const button = (label, action, style = "secondary") =>
      h("button", { type: "button", class: style, "data-key": `${model.id}/${label}`, "aria-label": `${label} ${model.title}`, onclick: action }, label);
    if (download) return [button("Cancel", () => download.controller.abort())];
    if (model.state === "ready" && selected) return [h("span", { class: "row-size" }, "In use")];
    if (model.state === "ready") return [button("Use", () => this.#use(model))];
    if (model.state === "partial") return [button("Resume", () => this.download(model))];
    return [button("Download", () => this.download(model))];
  }

  #use(model) {
    this.choice.choose(model);
    this.dialog.close();
  }

  async download(model) {
    const { choice } = this;
    const controller = new AbortController();
    const state = { controller, progress: null };
    this.downloads.set(model.id, state);
    this.errors.delete(model.id);
    navigator.storage?.persist?.(); // asks the browser not to delete files when space is short; it may refuse
    this.render();
    try {
      const onEvent = (event) => this.#progress(model, state, event);
      const done = await this.app.engine.call("models.download", { model: model.id, hub: this.app.hub }, { signal: controller.signal, onEvent });
      this.downloads.delete(model.id);
      await this.app.refresh();
      if (done.reason !== "cancelled") choice.chooseById(model.id);
    } catch (error) {
      this.downloads.delete(model.id);
      this.errors.set(model.id, error);
      await this.app.refresh().catch(() => this.render());
    }
  }

  #progress(model, state, event) {
    if (event.type !== "progress") return;
    state.progress = event;
    const row = byId("model-list").querySelector(`[data-model="${CSS.escape(model.id)}"] .row-progress`);
    row?.replaceWith(progressOf(event));
  }

  async #picked(input) {
    const files = [...input.files];
    input.value = "";
    const folder = files[0]?.webkitRelativePath.split("/")[0] || undefined;
    if (files.length) await this.addFiles(files, this.choice, folder);
  }

  /** Takes files of the file field, or dropped on the page. @param {File[]} files @param {string} [folder] that contained them */
  async addFiles(files, choice = this.choice, folder = undefined) {
    try {
      clearError(byId("model-error"));
      await this.app.addFiles(files, choice, folder);
      this.dialog.close();
    } catch (error) {
      if (!this.dialog.open || this.choice !== choice) this.open(choice);
      showError(byId("model-error"), error, this.app.actions);
    }
  }

  #hubField() {
    const field = byId("hub");
    field.value = this.app.hub;
    const set = (text) => {
      const address = parseHub(text);
      byId("hub-error").textContent = address ? "" : "This is not an address. An address begins with https:// (or http://localhost).";
      field.setAttribute("aria-invalid", String(!address));
      if (address) this.app.hub = field.value = address;
    };
    field.addEventListener("change", () => set(field.value || DEFAULT_HUB));
    byId("hub-default").addEventListener("click", () => set(DEFAULT_HUB));
  }
}

/** The address with a slash at its end; null if it is invalid. The content policy permits http for this machine only. */
function parseHub(text) {
  try {
    const url = new URL(text.trim());
    const local = url.protocol === "http:" && ["localhost", "127.0.0.1"].includes(url.hostname);
    if (url.protocol !== "https:" && !local && url.origin !== location.origin) return null;
    return url.href.endsWith("/") ? url.href : `${url.href}/`;
  } catch {
    return null;
  }
}

function sizeText({ kind, bytes, received, state }) {
  if (!bytes) return "";
  if (state === "partial") return `${megabytes(received)} of ${megabytes(bytes)}`;
  return kind === "hub" && state === "ready" ? `${megabytes(bytes)}, kept` : megabytes(bytes);
}

function progressOf(event) {
  const { what = "Asking the hub", done = 0, total = null } = event ?? {};
  const text = total ? `${what}: ${megabytes(done)} of ${megabytes(total)}` : `${what}…`;
  const bar = h("progress", { "aria-label": what });
  if (total) [bar.max, bar.value] = [total, done];
  return h("div", { class: "row-progress" }, h("span", {}, text), bar);
}
