/**
 * The models that the page can use, and where their bytes are: in the site (embedded), in the user's files (dropped), or in
 * the store (downloaded from a hub).
 *
 * @typedef {import("../shared/registry.js").Model} Model
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { readRegistry } from "../shared/registry.js";
import { download } from "./download.js";
import { sortFiles } from "./dropped-files.js";
import { sha256 } from "./parts.js";
import { FileSource, MemorySource, openEntry } from "./sources.js";

export class ModelFiles {
  /** @param {Promise<import("./store.js").Store | null>} storePromise @param {import("./python.js").Python} python */
  constructor(storePromise, python) {
    this.storePromise = storePromise;
    this.python = python;
    /** @type {Map<string, Promise<ArrayBuffer>>} */
    this.embedded = new Map();
    /** @type {Map<string, {title: string, task: string, files: import("./dropped-files.js").RoleFile[]}>} */
    this.dropped = new Map();
    /** Downloads in browsers that do not store files. @type {Map<string, ArrayBuffer>} */
    this.inMemory = new Map();
  }

  /**
   * Fetches an embedded model while Python starts, because the page will load it first.
   * @param {string} task @param {string} [id] by default the first model of the task
   */
  prefetch(task, id) {
    this.registry = readRegistry();
    this.registry
      .then(({ models }) => {
        const model = models.find((one) => one.id === id) ?? models.find((one) => one.kind === "embedded" && (one.task ?? "generate") === task);
        if (model?.kind !== "embedded") return;
        for (const { path } of model.files) this.#embeddedFile(path).catch(() => {});
      })
      .catch(() => {}); // reported by `find` and `list`
  }

  #embeddedFile(path) {
    if (!this.embedded.has(path)) {
      const bytes = fetch(siteUrl(path)).then((response) => {
        if (response.ok) return response.arrayBuffer();
        throw new UserError(`The embedded model is missing on the server (status ${response.status}).`, { where: path });
      });
      bytes.catch(() => this.embedded.delete(path));
      this.embedded.set(path, bytes);
    }
    return this.embedded.get(path);
  }

  /** @param {string} id @returns {Promise<Model>} */
  async find(id) {
    const model = (await this.registry).models.find((candidate) => candidate.id === id);
    if (model) return model;
    throw new UserError("The page does not have this model.", { where: id, hint: "Choose another one from the list." });
  }

  /** All models, and how much of each is stored. */
  async list() {
    const store = await this.storePromise;
    const kept = new Map((await store?.list() ?? []).map((journal) => [journal.name, journal]));
    const known = (await this.registry).models.map((model) => ({ ...model, ...this.#stateOf(model, kept) }));
    const dropped = [...this.dropped].map(([id, { title, task, files }]) => ({
      id, title, task, description: "From your computer. It is neither copied nor stored.", kind: "file", state: "ready",
      bytes: files.reduce((sum, { file }) => sum + file.size, 0),
    }));
    known.sort((a, b) => (a.kind === "embedded" ? 0 : 1) - (b.kind === "embedded" ? 0 : 1));
    return [...known, ...dropped];
  }

  #stateOf(model, kept) {
    const weights = model.files.find(({ role }) => role === "model")?.size; // if it is not known, a sum would mislead
    const bytes = weights ? model.files.reduce((sum, file) => sum + (file.size ?? 0), 0) : 0;
    if (model.kind === "embedded") return { bytes, state: "ready", received: bytes };
    const journals = model.files.map((file) => kept.get(nameOf(model, file)));
    const inMemory = model.files.every((file) => this.inMemory.has(nameOf(model, file)));
    const received = journals.reduce((sum, journal) => sum + (journal?.received ?? 0), 0);
    const complete = inMemory || journals.every((journal) => journal?.complete);
    return { bytes, received, state: complete ? "ready" : received > 0 ? "partial" : "absent" };
  }

  /**
   * Downloads, resumes and verifies the missing files of a hub model.
   * @param {Model} model @param {string} hub base address
   * @param {{emit: Function, signal: AbortSignal}} context
   */
  async fetch(model, hub, { emit, signal }) {
    const store = await this.storePromise;
    const total = model.files.reduce((sum, file) => sum + (file.size ?? 0), 0) || null;
    let before = 0;
    let emitted = 0; // time of the last progress event, ms
    for (const file of model.files) {
      const name = nameOf(model, file);
      const wanted = { name, url: hubUrl(hub, model, file), size: file.size, sha256: file.sha256, group: model.id };
      const onProgress = (done, all) => {
        const now = performance.now();
        if (now - emitted < 60 && done !== all) return;
        emitted = now;
        emit({ type: "progress", what: "Downloading", done: before + done, total: total ?? all, unit: "bytes" });
      };
      const onWait = () => emit({ type: "progress", what: "Another tab is downloading it", done: 0, total: null, unit: "" });
      const hash = (entry) => this.#hash(entry, emit, signal);
      if (store) await download(wanted, store, { signal, onProgress, onWait, hash });
      else this.inMemory.set(name, await downloadToMemory(wanted, signal, onProgress));
      before += file.size ?? 0;
    }
  }

  async #hash(entry, emit, signal) {
    emit({ type: "progress", what: "Checking", done: 0, total: null, unit: "" });
    const source = await openEntry(entry, entry.key);
    try {
      return await this.python.sha256(source, signal);
    } finally {
      source.close();
    }
  }

  /**
   * Opens the byte sources of a model, by role. The caller closes each one after reading. The key identifies the model.
   * @param {string} id
   * @returns {Promise<{key: string, sources: Record<string, {name: string, size: number, close: () => void}>}>}
   */
  async open(id) {
    const dropped = this.dropped.get(id);
    const model = dropped ?? (await this.find(id));
    const source = dropped ? ({ file }) => new FileSource(file, file.name) : (file) => this.#source(model, file);
    const opened = await Promise.allSettled(model.files.map(async (file) => [file.role, await source(file)]));
    const pairs = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const failed = opened.find((one) => one.status === "rejected");
    if (failed) {
      for (const [, one] of pairs) one.close(); // a file that stays open cannot be deleted
      throw failed.reason;
    }
    const key = [id, ...pairs.map(([, { size }]) => size)].join(" ");
    return { key, sources: Object.fromEntries(pairs) };
  }

  async #source(model, file) {
    const shortName = file.path.split("/").pop();
    if (model.kind === "embedded") return new MemorySource(await this.#embeddedFile(file.path), shortName);
    const name = nameOf(model, file);
    if (this.inMemory.has(name)) return new MemorySource(this.inMemory.get(name), shortName);
    const store = await this.storePromise;
    const entry = await store?.entry(name);
    if (!(await entry?.journal())?.complete) {
      throw new UserError("This model is not downloaded, or not completely.", {
        where: model.title,
        hint: "Open the list of models and press Download.",
        action: "models",
      });
    }
    return openEntry(entry, shortName);
  }

  /**
   * Adds a model from the user's files.
   * @param {File[]} files @param {"generate" | "transcribe" | "chat"} task the model's task
   * @param {string} [folder] the name of the folder that contained them
   * @returns {string} the id of the new model
   */
  add(files, task, folder) {
    const { title, files: sorted } = sortFiles(files, task);
    const id = `file:${this.dropped.size + 1}`;
    this.dropped.set(id, { title: folder ?? title, task, files: sorted });
    return id;
  }
}

/** The name of a file in the store. It does not contain the hub's address, so that mirrors share it. */
const nameOf = (model, file) => `${file.repo ?? model.repo}/${file.revision ?? model.revision ?? "main"}/${file.path}`;

/** The address of a file on a hub, in the layout of huggingface.co. */
function hubUrl(hub, model, file) {
  const base = hub.endsWith("/") ? hub : `${hub}/`;
  const path = `${file.repo ?? model.repo}/resolve/${file.revision ?? model.revision ?? "main"}/${file.path}`;
  return new URL(path.split("/").map(encodeURIComponent).join("/"), base).href;
}

/** Downloads a file into memory, for browsers that do not store files. */
async function downloadToMemory(wanted, signal, onProgress) {
  const lost = new UserError("The connection was lost.", {
    where: wanted.url,
    hint: "Check your connection and try again.",
    action: "retry",
  });
  const response = await fetch(wanted.url, { signal, credentials: "omit" }).catch((error) => {
    throw signal.aborted ? error : lost;
  });
  if (!response.ok) throw new UserError(`The hub answered ${response.status}.`, { where: wanted.url });
  const parts = [];
  let done = 0;
  try {
    for await (const part of readParts(response.body)) {
      parts.push(part);
      done += part.length;
      onProgress(done, wanted.size);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    throw lost;
  }
  const bytes = await new Blob(parts).arrayBuffer();
  if (wanted.sha256 && crypto.subtle && (await sha256(bytes)) !== wanted.sha256) {
    throw new UserError("The downloaded file is damaged.", { where: wanted.url, hint: "Download it again.", action: "retry" });
  }
  return bytes;
}

async function* readParts(body) {
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
