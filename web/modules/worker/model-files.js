/**
 * The models that the page can use, and where their bytes are: in the site (embedded), in the user's files (of this visit,
 * or copied to the store), or in the store (downloaded from a hub).
 *
 * @typedef {import("../shared/registry.js").Task} Task
 * @typedef {import("../shared/registry.js").WantedFile} WantedFile
 * @typedef {import("../shared/registry.js").Model} Model
 * @typedef {(...events: object[]) => void} Emit sends events of a request to the page
 * @typedef {{id?: string, kind: Model["kind"], repo?: string, revision?: string}} StoredModel
 */
import { BUSY_HINT, isBusy } from "../shared/busy-hub.js";
import { UNREADABLE, UserError, nameOf as errorName, storageFull, throwIfCancelled, unreadable } from "../shared/protocol.js";
import { randomId } from "../shared/random-id.js";
import { fetchWhole, lost } from "../shared/sent.js";
import { siteUrl } from "../shared/site.js";
import { readRegistry } from "../shared/registry.js";
import { lastPart } from "../shared/words.js";
import { download } from "./download.js";
import { sha256 } from "./parts.js";
import { FileSource, MemorySource, openEntry } from "./sources.js";
import { noStore } from "./store.js";
import { watched } from "./watched.js";

const SHOWN_EVERY = 60; // ms between two progress events
/** Bytes of a weight in memory by the precision of the file, where weights become 8-bit while they are read. @type {Record<string, number>} */
const QUICK_SHRINK = { float32: 0.27, float: 0.27, float16: 0.54 };
const SMALLEST = 8 << 20; // bytes of the weights: smaller models stay as they are (pyapp/models/loading/precision.py)
const WORKING_BYTES = 60e6; // what a model needs beside its weights: caches, activations

let failed = 0; // some browsers remember that a script did not arrive, by its address

/** A part that is fetched when it is first needed. @param {string} address */
async function fetched(address) {
  try {
    return await import(failed ? `${address}?try=${failed}` : address);
  } catch {
    failed += 1;
    throw lost(address, { action: "retry" });
  }
}

/** For models on a hub. @type {() => Promise<typeof import("./hub-listing.js")>} */
const hubListing = () => fetched(siteUrl("modules/worker/hub-listing.js"));

/** For the user's files. @type {() => Promise<typeof import("./dropped-files.js")>} */
const droppedFiles = () => fetched(siteUrl("modules/worker/dropped-files.js"));

export class ModelFiles {
  /** @param {Promise<import("./store.js").Store | null>} storePromise @param {import("./python.js").Python} python */
  constructor(storePromise, python) {
    this.storePromise = storePromise;
    this.python = python;
    /** "fast": floating-point weights become 8-bit while they are read; "exact": as in the file. */
    this.precision = "fast";
    /** @type {Map<string, Promise<ArrayBuffer>>} */
    this.embedded = new Map();
    /** @type {Map<string, {title: string, task: Task, kind: "file", precision?: string, files: import("./dropped-files.js").RoleFile[]}>} */
    this.dropped = new Map();
    /** The latest `add`: the page may ask for a model before it has that answer. @type {Promise<unknown>} */
    this.adding = Promise.resolve();
    /** What `look` found in this visit. @type {Map<string, Model>} */
    this.found = new Map();
    /** Downloads in browsers that do not store files. @type {Map<string, ArrayBuffer>} */
    this.inMemory = new Map();
    /** @type {ReturnType<typeof readRegistry> | null} null: it has to be read, again if that failed */
    this.registry = null;
  }

  #registered() {
    this.registry ??= readRegistry().catch((error) => {
      this.registry = null;
      throw error;
    });
    return this.registry;
  }

  /** The models that the user has added. @returns {Promise<Model[]>} */
  async #added() {
    const models = await (await this.storePromise)?.models() ?? [];
    return models.filter(({ id, files }) => typeof id === "string" && Array.isArray(files));
  }

  /** The journals of the stored files, and the models that the user has added. */
  async #stored() {
    const store = await this.storePromise;
    const [all, added] = await Promise.all([store?.list() ?? [], this.#added()]);
    return { journals: new Map(all.map((journal) => [journal.name, journal])), added };
  }

  /**
   * Fetches an embedded model while Python starts, because the page will load it first. Stories and speech have an embedded
   * model; other tasks prefetch one only if it was chosen at the last visit.
   * @param {string} task @param {string} [id] by default the embedded model of the task
   */
  prefetch(task, id) {
    this.#registered()
      .then(({ models }) => {
        const model = models.find((one) => one.id === id) ?? models.find((one) => one.kind === "embedded" && one.task === task);
        if (model?.kind !== "embedded") return;
        for (const { path } of model.files) this.#embeddedFile(path).catch(() => {});
      })
      .catch(() => {}); // reported by `find` and `list`
  }

  /** @param {string} path */
  #embeddedFile(path) {
    let bytes = this.embedded.get(path);
    if (!bytes) {
      bytes = fetchWhole(path, (response) => response.arrayBuffer(), { what: "The embedded model", next: "reload the page", action: "reload" });
      bytes.catch(() => this.embedded.delete(path));
      this.embedded.set(path, bytes);
    }
    return bytes;
  }

  /** @param {string} id @returns {Promise<Model>} */
  async find(id) {
    const { models } = await this.#registered();
    const isIt = (/** @type {Model} */ one) => one.id === id;
    const model = models.find(isIt) ?? (await this.#added()).find(isIt) ?? this.found.get(id);
    if (model) return model;
    throw new UserError("The page does not have this model.", { where: id, hint: "Choose another one from the list." });
  }

  /** All models, and how much of each is stored. */
  async list() {
    await this.adding;
    const [{ models }, { journals, added }] = await Promise.all([this.#registered(), this.#stored()]);
    const all = [...models, ...added];
    for (const [id, model] of this.found) if (all.every((one) => one.id !== id)) all.push(model);
    const known = all.filter(({ network }) => !network).map((model) => ({ ...model, ...this.#stateOf(model, journals) }));
    // Models that the user added, and then deleted, are in no list any more.
    const shown = known.filter(({ id, kind, state }) => state !== "absent" || (kind === "hub" && !id.startsWith("hub:")));
    const dropped = [...this.dropped].map(([id, { title, task, files, precision }]) => ({
      id, title, task, description: "From your computer: gone when this page is closed.", kind: "file", state: "ready",
      ...this.#sizesOf(files.map(({ role, file }) => ({ role, size: file.size })), precision),
    }));
    shown.sort((a, b) => (a.kind === "embedded" ? 0 : 1) - (b.kind === "embedded" ? 0 : 1));
    return [...shown, ...dropped];
  }

  /**
   * Bytes of the files, and about how many of memory the model takes; 0 if the size of the weights is unknown.
   * @param {{role: string, size: number | null}[]} files @param {string} [precision]
   */
  #sizesOf(files, precision) {
    const weights = Math.max(...files.map(({ size }) => size ?? 0));
    const known = files.find(({ role }) => role === "model")?.size ?? weights;
    if (!known) return { bytes: 0, memory: 0 }; // a sum of the others would mislead
    const bytes = files.reduce((sum, { size }) => sum + (size ?? 0), 0);
    const shrink = this.precision === "fast" && weights >= SMALLEST ? QUICK_SHRINK[precision ?? ""] ?? 1 : 1;
    return { bytes, memory: Math.round(bytes * shrink * 1.1 + WORKING_BYTES) };
  }

  /** @param {Model} model @param {Map<string, import("./store.js").Journal>} kept */
  #stateOf(model, kept) {
    const { bytes, memory } = this.#sizesOf(model.files, model.precision);
    if (model.kind === "embedded") return { bytes, memory, state: "ready", received: bytes };
    const journals = model.files.map((file) => kept.get(nameOf(model, file)));
    const inMemory = model.files.every((file) => this.inMemory.has(nameOf(model, file)));
    const received = journals.reduce((sum, journal) => sum + (journal?.received ?? 0), 0);
    const complete = inMemory || journals.every((journal) => journal?.complete);
    const partial = model.kind === "kept" ? "absent" : "partial"; // a copy that was cut off cannot go on
    return { bytes, memory, received, state: complete ? "ready" : received > 0 ? partial : "absent" };
  }

  /**
   * The models of a repository on the hub for a task. Their architecture is checked before any weights are downloaded.
   * @param {string} name owner/name, owner/name/file or an address @param {Task} task @param {string} hub base address
   * @param {{signal: AbortSignal}} context @returns {Promise<object[]>} as in `list`
   */
  async look(name, task, hub, { signal }) {
    const watch = watched(signal);
    try {
      return await this.#look(name, task, hub, watch);
    } catch (error) {
      throwIfCancelled(signal);
      if (watch.signal.aborted) throw new UserError("The hub does not answer.", { where: hub, hint: "Check your connection and the hub address, then try again.", action: "retry" });
      throw error;
    } finally {
      watch.end();
    }
  }

  /** @param {string} name @param {Task} task @param {string} hub @param {ReturnType<typeof watched>} context @returns {Promise<object[]>} */
  async #look(name, task, hub, context) {
    const { listFiles, modelsOf, parseHubName } = await hubListing();
    const wanted = parseHubName(name);
    const base = hub.endsWith("/") ? hub : `${hub}/`;
    const files = await listFiles(base, wanted, context.signal);
    const models = modelsOf(wanted, files, task);
    if (!models.length) {
      const has = files.map(({ path }) => path).filter((path) => /\.(gguf|safetensors|bin|pth?|ckpt|onnx)$/i.test(path)).slice(0, 8).join(", ");
      throw new UserError(wanted.file ? "The repository has no such model file." : "There is no model for this view in the repository.", {
        where: `${wanted.repo}: ${wanted.file ?? (has || "no weights")}`,
        hint: wanted.file && has ? `It has ${has}.` : task === "transcribe" ? "A Whisper model has model.safetensors, or ggml-*.bin." : "Choose a repository with a .gguf file, or with config.json and model.safetensors.",
      });
    }
    await this.#checkArchitecture(models, files, base, task, context);
    for (const model of models) this.found.set(model.id, model);
    const ids = new Set(models.map(({ id }) => id));
    const stored = new Map((await (await this.storePromise)?.list() ?? []).map((journal) => [journal.name, journal]));
    return models.filter(({ id }) => ids.has(id)).map((model) => ({ ...model, ...this.#stateOf(model, stored) }));
  }

  /** @param {Model[]} models @param {import("./hub-listing.js").HubFile[]} files @param {string} hub @param {Task} task @param {ReturnType<typeof watched>} context */
  async #checkArchitecture(models, files, hub, task, context) {
    const gguf = models.find(({ files: [{ path }] }) => /\.gguf$/i.test(path));
    const whole = models.find(({ files: all }) => all.some(({ path }) => path === "config.json"));
    const config = files.find(({ path }) => path === "config.json");
    const { firstBytes, textOf } = await hubListing();
    if (whole && config) {
      const json = await textOf(hubUrl(hub, whole, config), context.signal);
      await this.python.ask("check.config", { json, task, where: `${whole.repo}/config.json` });
      if (/"(?:torch_)?dtype"\s*:\s*"b?float16"/.test(json)) for (const model of models) if (model.precision === "float") model.precision = "float16";
      context.heard(); // Python may have had to start first
    }
    if (gguf) {
      const bytes = await firstBytes(hubUrl(hub, gguf, gguf.files[0]), context.signal);
      await this.python.ask("check.header", { bytes, task, where: `${gguf.repo}/${gguf.files[0].path}` });
    }
  }

  /**
   * Downloads, resumes and verifies the missing files of a hub model.
   * @param {Model} model @param {string} hub base address
   * @param {{emit: Emit, signal: AbortSignal}} context
   */
  async fetch(model, hub, { emit, signal }) {
    const store = await this.storePromise;
    if (this.found.has(model.id)) await store?.changeModels((models) => [...models.filter(({ id }) => id !== model.id), model]);
    const total = model.files.reduce((sum, file) => sum + (file.size ?? 0), 0) || null;
    let before = 0;
    const report = reporter(emit, "Downloading");
    // The small files first: they are checked before the weights.
    for (const file of [...model.files].sort((a, b) => (a.size ?? 0) - (b.size ?? 0))) {
      const name = nameOf(model, file);
      const wanted = { name, url: hubUrl(hub, model, file), size: file.size, sha256: file.sha256, group: model.id };
      const onProgress = (/** @type {number} */ done, /** @type {number | null} */ all) => report(before + done, total ?? all, done === all);
      const onWait = () => emit({ type: "progress", what: "Another tab is downloading it", done: 0, total: null, unit: "" });
      const onRetry = (/** @type {number} */ attempt, /** @type {number} */ attempts) => emit({ type: "progress", what: `No answer from the hub: attempt ${attempt} of ${attempts}`, done: 0, total: null, unit: "" });
      const hash = (/** @type {import("./store.js").Entry} */ entry) => this.#hash(entry, emit, signal);
      if (store) await download(wanted, store, { signal, onProgress, onWait, onRetry, hash });
      else this.inMemory.set(name, await downloadToMemory(wanted, signal, onProgress));
      before += file.size ?? 0;
    }
  }

  /** @param {import("./store.js").Entry} entry @param {Emit} emit @param {AbortSignal} signal */
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
   * Opens the byte sources of a model, by role. Each has a `path` within the model. The caller closes each one after
   * reading. The key identifies the model.
   * @param {string} id
   * @returns {Promise<{key: string, sources: Record<string, {name: string, path: string, size: number, close: () => void}>}>}
   */
  async open(id) {
    await this.adding;
    const dropped = this.dropped.get(id);
    const model = dropped ?? (await this.find(id));
    const source = dropped
      ? (/** @type {any} */ { file }) => new FileSource(file, file.name)
      : (/** @type {any} */ file) => this.#source(/** @type {Model} */ (model), file);
    const weights = model.files.find(({ role }) => role === "model")?.path ?? "";
    const folder = weights.slice(0, weights.lastIndexOf("/") + 1);
    const opened = await Promise.allSettled(model.files.map(async (file) => {
      const one = await source(file);
      return /** @type {const} */ ([file.role, Object.assign(one, { path: file.path.startsWith(folder) ? file.path.slice(folder.length) : one.name })]);
    }));
    const pairs = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const failed = opened.find((one) => one.status === "rejected");
    if (failed) {
      for (const [, one] of pairs) one.close(); // a file that stays open cannot be deleted
      throw failed.reason;
    }
    const key = [id, ...pairs.map(([, { size }]) => size)].join(" ");
    return { key, sources: Object.fromEntries(pairs) };
  }

  /**
   * The bytes of an ONNX network beside a speech model, which is downloaded at its first use.
   * @param {File | string} wanted a file of the user, a name on the hub, or what the network is for, as in the registry
   * @param {string} hub base address @param {{emit: Emit, signal: AbortSignal}} context
   * @returns {Promise<{name: string, size: number, key: string, close: () => void}>}
   */
  async network(wanted, hub, context) {
    if (wanted instanceof File) {
      return Object.assign(new FileSource(wanted, wanted.name), { key: `${wanted.name} ${wanted.size} ${wanted.lastModified}` });
    }
    const [{ networks }, { listFiles, networkOf, parseHubName }] = await Promise.all([this.#registered(), hubListing()]);
    const name = parseHubName(networks[wanted] ?? wanted);
    const isIt = (/** @type {Model} */ { network, repo, revision, files: [{ path }] }) =>
      network && repo === name.repo && revision === name.revision && (!name.file || path === name.file);
    let model = [...this.found.values(), ...(await this.#added())].find(isIt);
    if (!model) {
      const base = hub.endsWith("/") ? hub : `${hub}/`;
      model = networkOf(name, await listFiles(base, name, context.signal));
      this.found.set(model.id, model);
    }
    await this.fetch(model, hub, context);
    return Object.assign(await this.#source(model, model.files[0]), { key: model.id });
  }

  /** @param {Model} model @param {WantedFile} file */
  async #source(model, file) {
    const shortName = lastPart(file.path);
    if (model.kind === "embedded") return new MemorySource(await this.#embeddedFile(file.path), shortName);
    const name = nameOf(model, file);
    const held = this.inMemory.get(name);
    if (held) return new MemorySource(held, shortName);
    const store = await this.storePromise;
    const entry = await store?.entry(name);
    if (!entry || !(await entry.journal())?.complete) {
      throw new UserError("This model is not downloaded, or not completely.", {
        where: model.title,
        hint: "Open the list of models and press Download.",
        action: "models",
      });
    }
    return openEntry(entry, shortName);
  }

  /**
   * Adds a model from the user's files for this visit.
   * @param {string} id of the page: a worker that takes the place of this one gets the same files under it
   * @param {import("./dropped-files.js").PickedFile[]} files @param {Task} task the model's task
   * @param {string} [folder] the name of the folder that contained them
   */
  async add(id, files, task, folder) {
    const added = this.#add(id, files, task, folder);
    this.adding = Promise.allSettled([this.adding, added]);
    await added;
  }

  /** @type {ModelFiles["add"]} */
  async #add(id, files, task, folder) {
    const { sortFiles, weightType } = await droppedFiles();
    const { title, files: sorted } = sortFiles(files, task);
    const [largest] = sorted.map(({ file }) => file).sort((a, b) => b.size - a.size);
    const precision = await weightType(largest).catch(() => undefined); // Python says what is wrong with the file
    this.dropped.set(id, { title: folder ?? title, task, kind: "file", files: sorted, precision });
  }

  /** Forgets a model that was added for this visit. @param {string} id */
  forget(id) {
    this.dropped.delete(id);
  }

  /**
   * Copies a model from the user's files to the store, so that it is there at the next visit.
   * @param {string} id @param {{emit: Emit, signal: AbortSignal}} context @returns {Promise<string>} its new id
   */
  async keep(id, { emit, signal }) {
    await this.adding;
    const dropped = this.dropped.get(id);
    const store = await this.storePromise;
    if (!dropped) throw new UserError("This model is not there any more.", { hint: "Choose its files again." });
    if (!store) throw noStore("Choose the files again at the next visit.");
    const total = dropped.files.reduce((sum, { file }) => sum + file.size, 0);
    await checkFree(total);
    const { title, task, precision } = dropped;
    const files = dropped.files.map(({ role, path, file }) => ({ role, path, size: file.size, sha256: /** @type {null} */ (null) }));
    const model = { id: `kept:${randomId()}`, title, task, description: "From your computer; a copy is kept here.", kind: /** @type {const} */ ("kept"), precision, files };
    const report = reporter(emit, "Copying");
    let done = 0;
    const written = [];
    try {
      for (const { path, file } of dropped.files) {
        const name = nameOf(model, { path });
        const entry = await store.entry(name);
        written.push(entry);
        await entry.open(0);
        let position = 0;
        for await (const part of readParts(file.stream())) {
          throwIfCancelled(signal);
          entry.write(part, position);
          position += part.length;
          done += part.length;
          report(done, total, done === total);
        }
        await entry.commit({ name, url: "", size: file.size, received: file.size, etag: null, sha256: null, complete: true, group: title, time: Date.now() });
        entry.close();
      }
      await store.changeModels((models) => [...models, model]);
    } catch (error) {
      for (const entry of written) {
        entry.close();
        await store.remove(entry.key);
      }
      throw UNREADABLE.includes(errorName(error)) ? unreadable(error, title) : error;
    }
    this.dropped.delete(id);
    return model.id;
  }
}

/**
 * Emits progress in bytes, not too often.
 * @param {Emit} emit @param {string} what @returns {(done: number, total: number | null, now: boolean) => void}
 */
function reporter(emit, what) {
  let shown = 0;
  return (done, total, now) => {
    const time = performance.now();
    if (time - shown < SHOWN_EVERY && !now) return;
    shown = time;
    emit({ type: "progress", what, done, total, unit: "bytes" });
  };
}

/** @param {number} needed bytes */
async function checkFree(needed) {
  const { quota, usage } = (await navigator.storage?.estimate?.()) ?? {};
  if (quota && usage !== undefined && needed > quota - usage) throw storageFull({ needed, free: Math.max(0, quota - usage) });
}

/**
 * The name of a file in the store. It does not contain the hub's address, so that mirrors share it.
 * @param {StoredModel} model @param {{path: string, repo?: string, revision?: string}} file
 */
function nameOf(model, file) {
  if (model.kind === "kept") return `${model.id}/${file.path}`;
  return `${file.repo ?? model.repo}/${file.revision ?? model.revision ?? "main"}/${file.path}`;
}

/**
 * The address of a file on a hub, in the layout of huggingface.co.
 * @param {string} hub @param {{repo?: string, revision?: string}} model @param {{path: string, repo?: string, revision?: string}} file
 */
function hubUrl(hub, model, file) {
  const base = hub.endsWith("/") ? hub : `${hub}/`;
  const path = `${file.repo ?? model.repo}/resolve/${file.revision ?? model.revision ?? "main"}/${file.path}`;
  return new URL(path.split("/").map(encodeURIComponent).join("/"), base).href;
}

/**
 * Downloads a file into memory, for browsers that do not store files.
 * @param {import("./download.js").Wanted} wanted @param {AbortSignal} signal @param {(done: number, total: number | null) => void} onProgress
 */
async function downloadToMemory(wanted, signal, onProgress) {
  const watch = watched(signal);
  try {
    return await receiveToMemory(wanted, signal, watch, onProgress);
  } finally {
    watch.end();
  }
}

/**
 * @param {import("./download.js").Wanted} wanted @param {AbortSignal} signal the user's @param {ReturnType<typeof watched>} watch
 * @param {(done: number, total: number | null) => void} onProgress
 */
async function receiveToMemory(wanted, signal, watch, onProgress) {
  const broken = new UserError("The connection was lost.", {
    where: wanted.url,
    hint: "Check your connection and try again.",
    action: "retry",
  });
  const response = await fetch(wanted.url, { signal: watch.signal, credentials: "omit" }).catch((error) => {
    throw signal.aborted ? error : broken;
  });
  if (!response.ok) throw new UserError(`The hub answered ${response.status}.`, { where: wanted.url, hint: isBusy(response.status) ? BUSY_HINT : "Check the model's name and the hub address.", action: "retry" });
  if (!response.body) throw new UserError("The hub's answer is empty.", { where: wanted.url });
  const parts = [];
  let done = 0;
  try {
    for await (const part of readParts(response.body)) {
      parts.push(part);
      done += part.length;
      watch.heard();
      onProgress(done, wanted.size);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    throw broken;
  }
  if (wanted.size && done !== wanted.size) throw new UserError(`The file has ${done} bytes instead of ${wanted.size}.`, { where: wanted.url, hint: "The hub has another version of it, or the address is wrong. Check the hub address." });
  const bytes = await new Blob(parts).arrayBuffer();
  if (wanted.sha256 && crypto.subtle && (await sha256(bytes)) !== wanted.sha256) {
    throw new UserError("The downloaded file is damaged.", { where: wanted.url, hint: "Download it again.", action: "retry" });
  }
  return bytes;
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} body */
async function* readParts(body) {
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
