/**
 * pyapp for pages of your own: models in a worker of the browser, without the page of this site (docs/javascript.md).
 *
 *     const engine = new Engine();
 *     const story = await engine.load("generate", "stories");
 *     for await (const event of story.run("Once upon a time", { max_new_tokens: 100 })) if (event.type === "token") show(event.text);
 *
 * This file works beside the other files of the site, in any folder of the host of your page, or on another one that lets your
 * page read them (CORS). Nothing shows, and nothing is stored but the models that are downloaded.
 *
 * @typedef {import("./modules/embed/tasks.js").Tasks} Tasks
 * @typedef {import("./modules/shared/registry.js").Model & {state: "ready" | "partial" | "absent"}} ListedModel "ready": it is downloaded
 * @typedef {{done: number, total: number | null, what: string, unit: string}} Progress `total` is null where it is not known
 * @typedef {{signal?: AbortSignal, onProgress?: (progress: Progress) => void}} LoadOptions
 * @typedef {{threads: number, isolated: boolean, instructionSet: string, pyodide: string}} About `isolated`: the page may have threads
 */
import { Microphone } from "./modules/audio/microphone.js";
import { Listening, Run } from "./modules/embed/run.js";
import { LISTEN, TASKS } from "./modules/embed/tasks.js";
import { Engine as WorkerEngine } from "./modules/page/engine.js";
import { moduleWorker } from "./modules/shared/module-worker.js";
import { UserError } from "./modules/shared/protocol.js";
import { DEFAULT_HUB } from "./modules/shared/registry.js";
import { siteUrl } from "./modules/shared/site.js";

export { Microphone, UserError };

/** One worker with Python and the kernels, and the models that it has loaded: one of each task at a time. */
export class Engine {
  /**
   * @param {object} [options]
   * @param {number | "auto"} [options.threads] at most 8; more than one only where the page is isolated from other origins
   * @param {string} [options.hub] where models are found by name
   * @param {"fast" | "exact"} [options.precision] "fast": floating-point weights become 8-bit while they are read
   * @param {keyof Tasks} [options.task] what it does first: the parts that this needs are fetched while Python starts
   * @param {(progress: Progress) => void} [options.onProgress] of the start
   * @throws {UserError} for options that there are not, and for values that do not fit
   */
  constructor({ threads = "auto", hub = DEFAULT_HUB, precision = "fast", task, onProgress = () => {}, ...unknown } = {}) {
    for (const name of Object.keys(unknown)) throw new UserError(`There is no option "${name}".`, { hint: "The options are threads, hub, precision, task and onProgress." });
    if (threads !== "auto" && !(threads >= 1)) throw new UserError("This is no number of threads.", { where: String(threads), hint: 'Give one from 1 to 8, or "auto".' });
    if (!["fast", "exact"].includes(precision)) throw new UserError(`There is no precision "${precision}".`, { hint: 'Give "fast" or "exact".' });
    if (task !== undefined) checkTask(task);
    checkAddress(hub);
    this.hub = hub;
    this.precision = precision;
    /** The files of the user or of the page, by the id of their model: a worker that is started anew gets them again. @type {Map<string, {task: keyof Tasks, files: {file: File, path: string}[]}>} */
    this.given = new Map();
    this.lastGiven = 0;
    this.onProgress = onProgress;
    /** @type {{resolve: (about: About) => void, reject: (error: Error) => void}} */
    let settle = { resolve: () => {}, reject: () => {} };
    /** What the engine runs on, as soon as it runs. @type {Promise<About>} */
    this.ready = new Promise((resolve, reject) => (settle = { resolve, reject }));
    this.ready.catch(() => {}); // every request reports it, too
    /** Requests of the worker by their names, for what this class has no function for (modules/worker/handlers.js). */
    this.worker = new WorkerEngine(new URL(siteUrl("worker.js")), () => [String(threads), task ?? "none"], (_, name) => moduleWorker("worker.js", name));
    this.worker.addEventListener("notice", ({ detail }) => this.#notice(detail, settle));
    this.worker.addEventListener("restarted", () => this.#set());
    this.#set();
  }

  /** What a new worker must know. */
  #set() {
    this.worker.call("models.precision", { precision: this.precision }).catch(() => {}); // a worker that failed has said so
    for (const [id, model] of this.given) this.worker.call("models.add", { id, ...model }).catch(() => {}); // it has taken them before
  }

  /** @param {any} notice @param {{resolve: (about: About) => void, reject: (error: Error) => void}} settle */
  #notice({ notice, event, ...about }, settle) {
    if (notice === "ready") settle.resolve(about);
    else if (notice === "failed") settle.reject(new UserError(event.what, event));
    else if (notice === "stage") this.onProgress({ what: about.what, done: 0, total: null, unit: "" });
    else if (notice === "bytes") this.onProgress({ what: "Loading the engine", done: about.done, total: about.total, unit: "bytes" });
  }

  /** The models that this site names, and those that were downloaded. @param {keyof Tasks} [task] @returns {Promise<ListedModel[]>} */
  async models(task) {
    if (task !== undefined) checkTask(task);
    const { models } = await this.worker.call("models.list");
    return models.filter((/** @type {ListedModel} */ model) => !task || model.task === task);
  }

  /**
   * Loads a model, which is downloaded first if it must be; the browser keeps it.
   * @template {keyof Tasks} K
   * @param {K} task
   * @param {string | (File | URL)[] | FileList} source its id in `models`, its name or address on the hub ("owner/name", "owner/name/file"),
   *   or its files: those that a user picked, or addresses that are fetched
   * @param {LoadOptions} [options] @returns {Promise<Model<K>>} throws UserError: `what`, `where`, `hint`
   */
  async load(task, source, { signal, onProgress = () => {} } = {}) {
    checkTask(task);
    const onEvent = (/** @type {import("./modules/shared/protocol.js").TaskEvent} */ event) => event.type === "progress" && onProgress(event);
    const id = typeof source === "string" ? await this.#named(task, source, { signal, onEvent }) : await this.#files(task, filesOf(source), signal);
    const { type: _, reason: __, ...about } = await this.worker.call(TASKS[task].load, { model: id, task }, { signal, onEvent });
    signal?.throwIfAborted();
    return new Model(this, task, id, about);
  }

  /** @param {keyof Tasks} task @param {string} name @param {{signal?: AbortSignal, onEvent: (event: any) => void}} options @returns {Promise<string>} the model's id */
  async #named(task, name, { signal, onEvent }) {
    let model = (await this.models()).find(({ id }) => id === name);
    if (!model && name.includes("/")) {
      const { models } = await this.worker.call("models.look", { name, task, hub: this.hub }, { signal });
      model = models.find((/** @type {ListedModel} */ { state }) => state === "ready") ?? models[0];
    }
    if (!model) throw new UserError("There is no such model.", { where: name, hint: "Give the id of one in `models`, or a name on the hub: owner/name." });
    if (model.state !== "ready") await this.worker.call("models.download", { model: model.id, hub: this.hub }, { signal, onEvent });
    signal?.throwIfAborted();
    return model.id;
  }

  /** @param {keyof Tasks} task @param {(File | URL)[]} sources @param {AbortSignal} [signal] @returns {Promise<string>} the model's id */
  async #files(task, sources, signal) {
    const paths = sources.map((source) => (source instanceof File ? source.webkitRelativePath || source.name : pathOf(source)));
    const folder = commonFolder(paths);
    const files = await Promise.all(sources.map(async (source, i) => ({
      file: source instanceof File ? source : await fetched(source, signal),
      path: paths[i].slice(folder.length),
    })));
    this.lastGiven += 1;
    const id = `file:${this.lastGiven}`;
    await this.worker.call("models.add", { id, task, files });
    this.given.set(id, { task, files });
    return id;
  }

  /** Forgets a model from files, which are in memory as long as it is known. @param {Model<any>} model */
  async forget({ id }) {
    if (this.given.delete(id)) await this.worker.call("models.forget", { id });
  }

  /** Starts the worker anew, after an error whose `action` is "restart". Models are read again when they run. */
  restart() {
    this.worker.restart("The engine was restarted.");
  }

  /** Ends the worker, with all its models. */
  close() {
    this.worker.close();
  }
}

/** A model that is loaded. @template {keyof Tasks} K */
export class Model {
  /** @param {Engine} engine @param {K} task @param {string} id @param {object} about */
  constructor(engine, task, id, about) {
    this.engine = engine;
    this.task = task;
    this.id = id;
    /** What the worker tells of it: `name`, `config`, `languages`, `voices` …, as its task has them. @type {any} */
    this.about = about;
  }

  /** What every request says. */
  get #request() {
    return { model: this.id, hub: this.engine.hub };
  }

  /**
   * Runs the model, at once. The options are those of the task in Python (docs/javascript.md).
   * @param {Tasks[K]["input"]} input @param {object} [options] @param {{signal?: AbortSignal}} [control]
   * @returns {Run<Tasks[K]["result"]>}
   */
  run(input, options, control) {
    return new Run(this.engine.worker, TASKS[this.task], this.#request, input, options ?? {}, control?.signal);
  }

  /** Transcribes sound while it comes, by `push` and `finish` of what this returns. @param {object} [options] @param {{signal?: AbortSignal}} [control] */
  listen(options, control) {
    if (this.task !== "transcribe") throw new UserError("This model does not transcribe speech.", { where: this.id, hint: 'Load one for the task "transcribe".' });
    return new Listening(this.engine.worker, LISTEN, this.#request, options ?? {}, control?.signal);
  }
}

export { Listening, Run };

/** @param {string} task */
function checkTask(task) {
  if (!Object.hasOwn(TASKS, task)) throw new UserError(`There is no task "${task}".`, { hint: `The tasks are ${Object.keys(TASKS).join(", ")}.` });
}

/** @param {string} hub */
function checkAddress(hub) {
  try {
    new URL(hub);
  } catch {
    throw new UserError("This is no address of a hub.", { where: String(hub), hint: `Give it whole, as "${DEFAULT_HUB}".` });
  }
}

/** What was given as the files of a model. @param {any} source @returns {(File | URL)[]} */
function filesOf(source) {
  const given = source?.[Symbol.iterator] ? [...source] : [];
  const wrong = given.findIndex((/** @type {unknown} */ one) => !(one instanceof File || one instanceof URL));
  if (given.length > 0 && wrong < 0) return given;
  throw new UserError(wrong < 0 ? "There are no files of a model." : "This is no file and no address of one.", {
    where: String(wrong < 0 ? source : given[wrong]),
    hint: 'Give the id of a model, its name on the hub, or files: those that a visitor picked (input.files), or [new URL("model/config.json", location.href), …].',
  });
}

/** The path of an address, with its letters where they can be read. @param {URL} address */
function pathOf({ pathname }) {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}

/** What all paths begin with: a folder, or nothing. @param {string[]} paths */
function commonFolder(paths) {
  const [first = "", last = first] = [...paths].sort().filter((_, i, all) => i === 0 || i === all.length - 1);
  let length = 0;
  while (length < first.length && first[length] === last[length]) length += 1;
  const same = first.slice(0, length);
  return same.slice(0, same.lastIndexOf("/") + 1);
}

/** @param {URL} address @param {AbortSignal} [signal] @returns {Promise<File>} */
async function fetched(address, signal) {
  const hint = "Check the address, and that its server lets this page read it (CORS).";
  const failed = (/** @type {unknown} */ error) => {
    throw signal?.aborted ? error : new UserError("A file of the model could not be fetched.", { where: address.href, hint });
  };
  const response = await fetch(address, { signal }).catch(failed);
  if (!response.ok) throw new UserError(`A file of the model could not be fetched: the server answered ${response.status}.`, { where: address.href, hint });
  return new File([await response.blob().catch(failed)], pathOf(address).split("/").at(-1) ?? "");
}

