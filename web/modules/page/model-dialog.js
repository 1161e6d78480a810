/**
 * The list of models: choose, download, cancel, resume; find on the hub by name; files from the computer; precision; the
 * hub's address. A model is loaded before it replaces the one in use.
 *
 * @typedef {import("../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("./model-choice.js").ListedModel} ListedModel
 * @typedef {import("./models.js").Download} Download
 */
import { present } from "../shared/present.js";
import { megabytes } from "../shared/protocol.js";
import { DEFAULT_HUB } from "../shared/registry.js";
import { byId, find, h, openDialog, showRows } from "./dom.js";
import { clearError, showError } from "./errors.js";
import { taskOf } from "./file-kinds.js";

/** @param {string} text */
const code = (text) => h("code", {}, text);
const FOLDER = (last = "tokenizer.json") => [code("config.json"), ", ", code("model.safetensors"), ", ", code(last), " …"];
const PICTURE_FILES = ".bin,.ckpt,.json,.pt,.pth,.safetensors,.model,.txt";
/** @param {string} what @param {string} example */
const picturing = (what, example) => ({ text: () => [`Drop the folder of ${what} here (`, ...FOLDER("preprocessor_config.json"), ")."], accept: PICTURE_FILES, example, load: "look.load", view: "Pictures" });
const TEXT_FILES = ".gguf,.bin,.ckpt,.json,.pt,.pth,.safetensors,.model,.txt,.jinja,.tiktoken";
/** By task: the files it takes (a description and suffixes), an example of a name on the hub, the request that loads a model, the view that uses it. */
const TASKS = {
  generate: {
    text: () => ["Drop a llama2.c checkpoint (", code(".bin"), ") and its ", code("tokenizer.bin"), " here, both together, a ", code(".gguf"), " file, or the folder of a model (", ...FOLDER(), ")."],
    accept: TEXT_FILES, example: "ggml-org/tiny-llamas", load: "load", view: "Story",
  },
  transcribe: {
    text: () => ["Drop the folder of a Whisper model here (", ...FOLDER(), "), a ", code("ggml-*.bin"), " of whisper.cpp, or OpenAI’s ", code(".pt"),
      " with its ", code("tokenizer.json"), "."],
    accept: ".bin,.json,.safetensors,.pt", example: "ggerganov/whisper.cpp", load: "speech.load", view: "Transcribe",
  },
  chat: {
    text: () => ["Drop a ", code(".gguf"), " file here, or the folder of a model (", ...FOLDER(), ")."],
    accept: TEXT_FILES, example: "Qwen/Qwen2.5-0.5B-Instruct-GGUF", load: "chat.load", view: "Chat",
  },
  embed: {
    text: () => ["Drop the folder of an encoder here (", ...FOLDER(), "), as transformers or sentence-transformers write it, or a ", code(".gguf"), " file."],
    accept: TEXT_FILES, example: "sentence-transformers/all-MiniLM-L6-v2", load: "search.load", view: "Search",
  },
  translate: {
    text: () => ["Drop the folder of a model that translates or summarises here, such as OPUS-MT, T5, M2M100 or BART (", ...FOLDER(), "), or a ", code(".gguf"), " file of T5."],
    accept: `${TEXT_FILES},.spm`, example: "Helsinki-NLP/opus-mt-en-de", load: "translate.load", view: "Translate",
  },
  read: {
    text: () => ["Drop the folder of a model that writes what a picture says, such as TrOCR, here (", ...FOLDER(), ")."],
    accept: PICTURE_FILES, example: "microsoft/trocr-small-handwritten", load: "read.load", view: "Read",
  },
  answer: {
    text: () => ["Drop the folder of a model that answers questions by parts of a text here, such as LayoutLM, RoBERTa or BERT (", ...FOLDER(), ")."],
    accept: PICTURE_FILES, example: "impira/layoutlm-document-qa", load: "answer.load", view: "Read",
  },
  speak: {
    text: () => ["Drop the folder of a voice here: of VITS or MMS (", code("config.json"), ", ", code("model.safetensors"), ", ", code("vocab.json"), ", ", code("tokenizer_config.json"), "), or of Kokoro, with its folder ", code("voices"), "."],
    accept: ".bin,.json,.safetensors,.pth", example: "hexgrad/Kokoro-82M", load: "speak.load", view: "Speak",
  },
  forecast: {
    text: () => ["Drop the folder of a model that forecasts series here, such as Chronos-Bolt, Chronos or TimesFM (", code("config.json"), ", ", code("model.safetensors"), ")."],
    accept: ".bin,.ckpt,.json,.pt,.pth,.safetensors", example: "amazon/chronos-bolt-tiny", load: "forecast.load", view: "Forecast",
  },
  "label-sound": {
    text: () => ["Drop the folder of a model that labels the moments of sound here, such as wav2vec 2.0 or WavLM with a head for frames (", ...FOLDER("preprocessor_config.json"), ")."],
    accept: ".bin,.ckpt,.json,.pt,.pth,.safetensors", example: "anton-l/wav2vec2-base-superb-sd", load: "label-sound.load", view: "Transcribe",
  },
  detect: picturing("a model that finds objects, such as YOLOS, DETR or RT-DETR, or the .pt file of YOLOv8 or YOLO11", "hustvl/yolos-tiny"),
  segment: picturing("a model that labels all pixels, such as SegFormer,", "nvidia/segformer-b0-finetuned-ade-512-512"),
  "cut-out": picturing("Segment Anything", "facebook/sam-vit-base"),
  depth: picturing("a Depth Anything model", "depth-anything/Depth-Anything-V2-Small-hf"),
  "classify-image": picturing("a model that labels pictures, such as ViT, ResNet or ConvNeXt,", "google/vit-base-patch16-224"),
  "match-image": picturing("a CLIP or SigLIP model", "openai/clip-vit-base-patch32"),
  "image-to-text": picturing("a model that captions pictures, such as BLIP,", "Salesforce/blip-image-captioning-base"),
};

/** An error of files that are a model of another view names that view. @param {unknown} error @param {File[]} files */
async function ofAnotherView(error, files) {
  const told = /** @type {{what?: string}} */ (error);
  if (!told.what?.includes(" are not for ")) return error;
  const { view = null } = /** @type {Record<string, {view: string}>} */ (TASKS)[(await taskOf(files)) ?? ""] ?? {};
  return view ? Object.assign(told, { hint: `It is a model for ${view}: choose it there.` }) : error;
}

export class ModelDialog {
  /** @param {import("./models.js").Models} models */
  constructor(models) {
    this.models = models;
    this.app = models.app;
    this.downloads = models.downloads;
    /** The choice whose models are shown. */
    this.choice = this.app.choices.generate;
    this.dialog = byId("model-dialog");
    /** What the hub has under the name that was looked up. @type {import("./model-choice.js").ListedModel[]} */
    this.found = [];
    /** @type {Map<string, unknown>} */
    this.errors = new Map();
    this.exact = h("details", { class: "exact-models" }, h("summary", {}, "Exact: full precision"), h("ul", { class: "model-list" }));
    this.name = h("input", { type: "text", id: "hub-name", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
    this.findButton = h("button", { type: "submit", class: "secondary", id: "hub-find" }, "Find");
    this.findError = h("div", { class: "error-slot", id: "hub-find-error" });
    this.results = h("ul", { class: "model-list", id: "hub-found", "aria-label": "Models found on the hub" });
    /** The search on the hub that runs. @type {AbortController | null} */
    this.looking = null;
    byId("model-list").after(this.exact, this.#finder());
    byId("drop-zone").after(this.#precision());
    for (const id of ["pick-files", "pick-folder"]) byId(id).addEventListener("change", ({ target }) => this.#picked(/** @type {HTMLInputElement} */ (target)));
    for (const choice of Object.values(this.app.choices)) {
      choice.addEventListener("models", () => choice === this.choice && this.render());
    }
    this.#hubField();
  }

  /**
   * @param {import("./model-choice.js").ModelChoice} [choice] by default the last one
   * @param {string} [id] the model to show first @param {string} [name] to look up on the hub
   */
  open(choice = this.choice, id = undefined, name = undefined) {
    if (choice !== this.choice) this.found = [];
    this.choice = choice;
    const { text, accept, example } = TASKS[choice.task];
    byId("drop-text").replaceChildren(...text());
    byId("pick-files").accept = accept;
    this.name.placeholder = example;
    clearError(byId("model-error"));
    clearError(this.findError);
    present(byId("pick-folder").closest("label"), "the label of pick-folder").hidden = false;
    this.render();
    openDialog(this.dialog);
    if (id) this.#focus(id);
    if (name) {
      this.name.value = name;
      if (!this.looking) this.find();
    }
    this.app.refresh().catch((error) => showError(byId("model-error"), error, this.app.actions));
  }

  /** The shown row of a model. @param {string} id */
  #rowOf(id) {
    return this.dialog.querySelector(`[data-model="${CSS.escape(id)}"]`);
  }

  /** @param {string} id */
  #focus(id) {
    const row = this.#rowOf(id);
    const folded = row?.closest("details");
    if (folded) folded.open = true;
    /** @type {HTMLElement | null} */ (row?.querySelector("button"))?.focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  render() {
    const focused = document.activeElement?.getAttribute("data-key");
    const { models } = this.choice;
    const quantised = models.some(({ kind, precision = "" }) => kind === "hub" && !precision.startsWith("float"));
    const isExact = (/** @type {ListedModel} */ { kind, precision = "", state }) => quantised && kind === "hub" && precision.startsWith("float") && state === "absent";
    showRows(byId("model-list"), models.filter((model) => !isExact(model)).map((model) => this.#row(model)));
    const exact = models.filter(isExact);
    this.exact.hidden = !exact.length;
    showRows(find(this.exact, "ul"), exact.map((model) => this.#row(model)));
    const listed = new Set(models.map(({ id }) => id));
    showRows(this.results, this.found.filter(({ id }) => !listed.has(id)).map((model) => this.#row(model)));
    if (!focused) return;
    const again = [`[data-key="${CSS.escape(focused)}"]`, `[data-model="${CSS.escape(focused.slice(0, focused.lastIndexOf("/")))}"] button`, "#pick-files"]; // the last: the row is gone
    /** @type {HTMLElement | null} */ (again.map((one) => this.dialog.querySelector(one)).find((one) => one))?.focus();
  }

  /** @param {ListedModel} model */
  #row(model) {
    const selected = this.choice.model?.id === model.id;
    const download = this.downloads.get(model.id);
    const row = h("li", { class: "model-row", "data-selected": String(selected), "data-model": model.id },
      h("p", { class: "row-title" }, model.title, h("span", { class: "row-size" }, sizeText(model, download))),
      h("p", { class: "row-text" }, model.description ?? "", model.memory && model.kind !== "embedded" ? h("span", { class: "row-memory" }, this.#memoryText(model.memory)) : null),
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

  /** @param {number} needed bytes */
  #memoryText(needed) {
    const most = this.app.engine.about?.memory ?? Infinity;
    return ` Needs about ${megabytes(needed)} of memory${needed > most ? `: more than the ${megabytes(most)} that this page may use` : ""}.`;
  }

  /** @param {ListedModel} model @param {boolean} selected @param {Download | undefined} download */
  #buttons(model, selected, download) {
    const button = (/** @type {string} */ label, /** @type {() => unknown} */ action, style = "secondary") =>
      h("button", { type: "button", class: style, "data-key": `${model.id}/${label}`, "aria-label": `${label} ${model.title}`, onclick: action }, label);
    if (download) return [button("Cancel", () => download.controller.abort())];
    const keep = model.kind === "file" ? [button("Keep here", () => this.keep(model))] : [];
    if (model.state === "ready" && selected) return [h("span", { class: "row-size" }, "In use"), ...keep];
    if (model.state === "ready") return [button("Use", () => this.use(model)), ...keep];
    if (model.state === "partial") return [button("Resume", () => this.download(model))];
    return [button("Download", () => this.download(model))];
  }

  /**
   * Loads a model, and if that works, chooses it; else the one in use stays.
   * @param {ListedModel} model @param {import("./model-choice.js").ModelChoice} [choice]
   */
  async use(model, choice = this.choice) {
    const controller = new AbortController();
    this.errors.delete(model.id);
    try {
      const { reason } = await this.#during(model, controller, "Loading", (onEvent) =>
        this.app.engine.call(TASKS[choice.task].load, { model: model.id, task: choice.task }, { signal: controller.signal, onEvent }));
      if (reason === "cancelled") return false;
      choice.chooseById(model.id);
      this.dialog.close();
      return true;
    } catch (error) {
      if (controller.signal.aborted) return false; // the engine had to be started anew
      this.errors.set(model.id, error);
      this.render();
      return false;
    }
  }

  /** @param {ListedModel} model */
  async download(model) {
    const { choice } = this;
    const controller = new AbortController();
    this.errors.delete(model.id);
    navigator.storage?.persist?.(); // asks the browser not to delete files when space is short; it may refuse
    try {
      const done = await this.#during(model, controller, "Asking the hub", (onEvent) =>
        this.app.engine.call("models.download", { model: model.id, hub: this.app.hub }, { signal: controller.signal, onEvent }));
      await this.app.refresh();
      if (done.reason !== "cancelled") await this.use(choice.models.find(({ id }) => id === model.id) ?? model, choice);
    } catch (error) {
      this.errors.set(model.id, error);
      await this.app.refresh().catch(() => this.render());
    }
  }

  /** Copies a model of this visit into the browser's storage. @param {ListedModel} model */
  async keep(model) {
    const { choice } = this;
    const controller = new AbortController();
    this.errors.delete(model.id);
    navigator.storage?.persist?.();
    try {
      const { id, reason } = await this.#during(model, controller, "Copying", (onEvent) =>
        this.app.engine.call("models.keep", { id: model.id }, { signal: controller.signal, onEvent }));
      if (reason !== "cancelled") this.app.given.delete(model.id);
      await this.app.refresh();
      if (reason === "cancelled") return;
      if (choice.model?.id === model.id) choice.chooseById(id);
      this.#focus(id);
    } catch (error) {
      this.errors.set(model.id, error);
      this.render();
    }
  }

  /**
   * Shows the progress of work on a model in its row; `what` until the first event.
   * @template T @param {ListedModel} model @param {AbortController} controller of its Cancel @param {string} what @param {(onEvent: (event: TaskEvent) => void) => Promise<T>} work @returns {Promise<T>}
   */
  async #during(model, controller, what, work) {
    const state = { controller, progress: { what } };
    this.downloads.set(model.id, state);
    this.render();
    try {
      return await work((event) => this.#progress(model, state, event));
    } finally {
      this.downloads.delete(model.id);
      this.render();
    }
  }

  /** @param {ListedModel} model @param {Download} state @param {TaskEvent} event */
  #progress(model, state, event) {
    if (event.type !== "progress") return;
    state.progress = event;
    this.#rowOf(model.id)?.querySelector(".row-progress")?.replaceWith(progressOf(event));
  }

  /** @param {HTMLInputElement} input */
  async #picked(input) {
    const files = [...(input.files ?? [])];
    input.value = "";
    const folder = files[0]?.webkitRelativePath.split("/")[0] || undefined;
    if (files.length) await this.addFiles(files, this.choice, folder);
  }

  /** Takes files of the file field, or dropped on the page. @param {File[]} files @param {string} [folder] that contained them */
  async addFiles(files, choice = this.choice, folder = undefined) {
    if (!this.dialog.open || this.choice !== choice) this.open(choice);
    const arriving = progressOf({ what: `Reading ${folder ?? files[0].name}` }); // the engine may have to start first
    byId("model-list").before(arriving);
    arriving.scrollIntoView({ block: "nearest" });
    const picked = files.map((file) => ({ file, path: folder && file.webkitRelativePath ? file.webkitRelativePath.split("/").slice(1).join("/") : file.name }));
    try {
      clearError(byId("model-error"));
      const id = await this.app.give({ files: picked, task: choice.task, folder });
      await this.app.refresh();
      arriving.remove();
      this.#rowOf(id)?.scrollIntoView({ block: "nearest" });
      if (await this.use(present(choice.models.find((model) => model.id === id), `the model ${id}`), choice)) return;
      const error = this.errors.get(id);
      this.errors.delete(id);
      await this.app.takeBack(id);
      await this.app.refresh();
      if (error) throw error; // none: it was cancelled
    } catch (error) {
      showError(byId("model-error"), await ofAnotherView(error, files), this.app.actions);
    } finally {
      arriving.remove();
    }
  }

  /** The field for a name on the hub, and what was found there. */
  #finder() {
    const form = h("form", { class: "hub-finder", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      if (this.looking) this.looking.abort();
      else this.find();
    } }, h("label", { class: "field-label", for: "hub-name" }, "Another model of the hub: owner/name, or owner/name/file"),
    h("div", { class: "inline-field" }, this.name, this.findButton), this.findError, this.results);
    return form;
  }

  /** Looks a name up on the hub: lists the files, and checks the architecture. */
  async find() {
    if (!this.name.value.trim()) return this.name.focus();
    this.looking = new AbortController();
    this.findButton.textContent = "Cancel";
    clearError(this.findError);
    this.found = [];
    this.render();
    const { choice } = this;
    try {
      const { models } = await this.app.engine.call("models.look", { name: this.name.value, task: choice.task, hub: this.app.hub }, { signal: this.looking.signal });
      if (this.choice === choice) this.found = models ?? [];
      this.render();
      if (this.found.length) this.#focus(this.found[0].id);
    } catch (error) {
      showError(this.findError, error, { ...this.app.actions, retry: () => this.find() });
    } finally {
      this.looking = null;
      this.findButton.textContent = "Find";
    }
  }

  /** The precision in which models are loaded. */
  #precision() {
    const select = h("select", { id: "model-precision", "aria-describedby": "model-precision-help" },
      h("option", { value: "fast" }, "Fast: 8-bit"), h("option", { value: "exact" }, "Exact: as in the file"));
    select.value = this.models.precision;
    select.addEventListener("change", () => {
      this.models.precision = /** @type {"fast" | "exact"} */ (select.value);
      this.app.refresh().catch((error) => showError(byId("model-error"), error, this.app.actions));
    });
    return h("div", { class: "precision" }, h("label", { class: "field-label", for: "model-precision" }, "Precision of models in full precision"), select,
      h("p", { class: "help", id: "model-precision-help" }, "8-bit weights take a quarter of the memory and compute two to four times as fast; the results hardly differ. Quantised files and small models stay as they are."));
  }

  #hubField() {
    const field = byId("hub");
    field.value = this.app.hub;
    const set = (/** @type {string} */ text) => {
      const address = parseHub(text);
      byId("hub-error").textContent = address ? "" : "This is not an address. An address begins with https:// (or http://localhost).";
      field.setAttribute("aria-invalid", String(!address));
      if (address) this.app.hub = field.value = address;
    };
    field.addEventListener("change", () => set(field.value || DEFAULT_HUB));
    byId("hub-default").addEventListener("click", () => set(DEFAULT_HUB));
  }
}

/** The address with a slash at its end; null if it is invalid. The content policy permits http for this machine only. @param {string} text */
function parseHub(text) {
  try {
    const url = new URL(text.trim());
    const local = url.protocol === "http:" && ["localhost", "127.0.0.1"].includes(url.hostname);
    if (url.protocol !== "https:" && !local && url.origin !== location.origin) return null;
    url.search = url.hash = ""; // the paths of files come behind it
    return url.href.endsWith("/") ? url.href : `${url.href}/`;
  } catch {
    return null;
  }
}

/** @param {ListedModel} model @param {Download} [download] which says itself how far it is */
function sizeText({ kind, bytes, received, state }, download) {
  if (!bytes) return "";
  if (state === "partial" && !download) return `${megabytes(received ?? 0)} of ${megabytes(bytes)}`;
  return kind !== "embedded" && kind !== "file" && state === "ready" ? `${megabytes(bytes)}, kept` : megabytes(bytes);
}

/** @param {{what: string, done?: number, total?: number | null}} event */
function progressOf(event) {
  const { what, done = 0, total = null } = event;
  const text = total ? `${what}: ${megabytes(done)} of ${megabytes(total)}` : `${what}…`;
  const bar = h("progress", { "aria-label": what });
  if (total) [bar.max, bar.value] = [total, done];
  return h("div", { class: "row-progress" }, h("span", {}, text), bar);
}
