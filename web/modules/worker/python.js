/**
 * Starts Python in this worker, runs tasks of its adapter `pyapp.browser` by name, and cancels them by the request's id.
 */
import { present } from "../shared/present.js";
import { Cancelled, UserError, eventFromError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { mayShare } from "../shared/threads.js";
import { PYODIDE, fetchParts, fetchWheel, readNow } from "./parts.js";
import { openPool } from "./pool.js";
import { MEMORY_BYTES, startRuntime } from "./runtime.js";
import { createEncoder, loadTokenizers } from "./tokenizer.js";
import { addLibrary, unpackWheel } from "./unpack.js";

/** What the first story and the first transcript do without (scripts/archive_parts.py): the rest of Python's library, and of pyapp. */
const LIBRARY_LATER = "python-later";
/** @type {("python-later" | "pyapp-later")[]} */
export const LATER = [LIBRARY_LATER, "pyapp-later"];

export class Python {
  /**
   * @param {Promise<import("./store.js").Store | null>} storePromise
   * @param {(notice: object) => void} notify
   */
  constructor(storePromise, notify) {
    this.storePromise = storePromise;
    this.notify = notify;
    /** @type {Promise<import("./runtime.js").Runtime> | null} */
    this.runtime = null;
    /** Rejects when Python has ended by an error: what runs does not end then. @type {Promise<never> | null} */
    this.dead = null;
    /** The id of the request to stop, in memory shared with an isolated page. @type {Int32Array | null} */
    this.stopFlag = null;
    /** @type {import("./pool.js").Pool | null} null on one thread */
    this.pool = null;
    /** The graphics card, once Python has asked for it; or why there is none. @type {any} */
    this.card = null;
    /** @type {Record<string, Promise<void>>} by package */
    this.installed = {};
    /** @type {Set<string>} packages whose files are there */
    this.unpacked = new Set();
  }

  /**
   * Starts Python, and reports each stage to the page.
   * @param {string[]} early packages to fetch at once @param {number} threads
   */
  start(early, threads) {
    const onStage = (/** @type {string} */ what) => this.notify({ notice: "stage", what });
    this.runtime = this.#start(onStage, early, threads);
    this.runtime.then(
      (runtime) => this.notify({ notice: "ready", ...this.about(runtime) }),
      (error) => this.notify({ notice: "failed", event: { fatal: true, ...eventFromError(error) } }),
    );
  }

  /** @param {(what: string) => void} onStage @param {string[]} early @param {number} threads */
  async #start(onStage, early, threads) {
    const parts = fetchParts(early);
    const opening = openPool(threads);
    const tokenizers = loadTokenizers();
    tokenizers.catch(() => {}); // reported below, where it is awaited
    const runtime = await startRuntime({ store: await this.storePromise, onStage, parts });
    const { pyodide, marks } = runtime;
    this.dead = deathOf(pyodide._api);
    if (mayShare()) this.stopFlag = new Int32Array(new SharedArrayBuffer(4));
    this.browser = pyodide.pyimport("pyapp.browser");
    await tokenizers;
    const isStopped = (/** @type {number} */ id) => this.stopFlag !== null && Atomics.load(this.stopFlag, 0) === id;
    this.pool = await opening;
    this.pool?.attach(pyodide._module);
    this.browser.install({ createEncoder, readInto, isStopped, pool: this.pool ?? undefined, parts: this.#laterParts(runtime), openGraphicsCard: async () => (this.card = await openGraphicsCard(pyodide)) });
    marks.ready = performance.now();
    return runtime;
  }

  /** @param {import("./runtime.js").Runtime} runtime */
  about({ pyodide, marks, fromSnapshot }) {
    return {
      marks,
      origin: performance.timeOrigin,
      fromSnapshot,
      isolated: mayShare(),
      stopFlag: this.stopFlag,
      pyodide: pyodide.version,
      instructionSet: this.browser.instruction_set(),
      threads: this.pool?.threads ?? 1,
      memory: this.pool?.most ?? MEMORY_BYTES, // bytes that models may take
    };
  }

  /**
   * Installs a wheel of the site, once. NumPy is installed when a task needs it, or in idle time: stories do not need it.
   * "numpy-later" is the part of NumPy that transcription does not need.
   * @param {"numpy" | "numpy-later" | "jinja2" | "markupsafe" | "micropip" | "misaki-english" | "pyapp-english" | "python-later" | "pyapp-later"} name
   */
  async install(name) {
    const runtime = await present(this.runtime, "Python");
    const { lock, wheels } = runtime;
    this.installed[name] ??= (wheels[name] ?? fetchWheel(lock, name)).then((wheel) => this.#unpack(runtime, name, wheel)).catch((error) => {
      delete this.installed[name];
      delete wheels[name]; // the page was offline: the next call fetches it again
      if (error instanceof UserError) error.fatal = false; // Python runs, and does other work
      throw error;
    });
    return this.installed[name];
  }

  /** Installs what the first story and the first transcript do without. Every other task waits for it. */
  async installLater() {
    await Promise.all(LATER.map((name) => this.install(name)));
  }

  /** @param {import("./runtime.js").Runtime} runtime @param {string} name @param {ArrayBuffer} archive */
  #unpack({ pyodide, lock }, name, archive) {
    if (this.unpacked.has(name)) return; // an import needed it at once
    if (name === LIBRARY_LATER) addLibrary(pyodide, archive);
    else unpackWheel(pyodide, archive, lock);
    this.unpacked.add(name);
  }

  /**
   * For imports of modules that are not there yet (pyapp/late_parts.py).
   * @param {import("./runtime.js").Runtime} runtime
   */
  #laterParts(runtime) {
    const { packages, info } = runtime.lock;
    const owners = new Map(Object.entries(info.later ?? {}).flatMap(([name, modules]) => modules.split(" ").map((module) => /** @type {const} */ ([module, name]))));
    return {
      find: (/** @type {string} */ module) => {
        const name = owners.get(module) ?? "";
        return name && !this.unpacked.has(name) ? { name, url: PYODIDE + packages[name].file_name, sha256: packages[name].sha256 } : undefined;
      },
      read: readNow,
      install: (/** @type {{name: string}} */ { name }, /** @type {Uint8Array<ArrayBuffer>} */ bytes) => this.#unpack(runtime, name, bytes.buffer),
    };
  }

  /** @param {{size: number, read: Function}} source @param {AbortSignal} signal @returns {Promise<string>} hexadecimal */
  async sha256(source, signal) {
    await this.runtime;
    const digest = await this.browser.sha256(source, () => signal.aborted);
    if (signal.aborted) throw new Cancelled();
    return digest;
  }

  /** What the page is told: an error after a thread or the graphics card was lost is about that. @param {{type: string}[]} events */
  #told(events) {
    const lost = this.pool?.lost;
    return events.map((event) => (event.type !== "error" ? event : lost != null ? threadLost(lost) : (this.card?.told?.(event) ?? event)));
  }

  /**
   * Runs a short task of pyapp.browser to its end. @param {string} method @param {object} params
   * @returns {Promise<object>} its done event; throws UserError for an error event
   */
  async ask(method, params) {
    await this.runtime;
    this.asked = (this.asked ?? 0) - 1; // requests of the page have positive numbers
    /** @type {any} */
    let last = null;
    await Promise.race([this.browser.run(this.asked, method, params, (/** @type {string} */ json) => (last = JSON.parse(json).at(-1))), this.dead]);
    if (last?.type === "error") throw new UserError(last.what, last);
    return last;
  }

  /**
   * Runs a task of pyapp.browser and forwards its events.
   * @param {string} method
   * @param {object} params plain values; byte sources stay JavaScript objects
   * @param {{id: number, emit: (...events: object[]) => void, signal: AbortSignal}} context
   * @returns {Promise<null>} null, because the task has sent its own last event
   */
  async run(method, params, { id, emit, signal }) {
    await this.runtime;
    if (signal.aborted) throw new Cancelled();
    const cancel = () => this.browser.cancel(id);
    signal.addEventListener("abort", cancel);
    try {
      await Promise.race([this.browser.run(id, method, params, (/** @type {string} */ json) => emit(...this.#told(JSON.parse(json)))), this.dead]);
    } catch (error) {
      throw asUserError(error);
    } finally {
      signal.removeEventListener("abort", cancel);
    }
    return null;
  }
}

/**
 * Rejects with the error by which Pyodide ends, which it throws into its own event loop.
 * @param {any} api Pyodide's @returns {Promise<never>}
 */
export function deathOf(api) {
  const { fatal_error: end } = api;
  /** @type {Promise<never>} */
  const death = new Promise((_, reject) => {
    api.fatal_error = (/** @type {any} */ error) => {
      try {
        return end(error);
      } catch (thrown) {
        if (/** @type {any} */ (thrown).pyodide_fatal_error) reject(thrown);
        throw thrown;
      }
    };
  });
  death.catch(() => {}); // whoever waits for Python gets it
  return death;
}

/** The browser's graphics card, for Python's device "webgpu". @param {any} pyodide */
const openGraphicsCard = async (pyodide) => (await import(siteUrl("modules/worker/webgpu.js"))).openGraphicsCard(pyodide._module);

/** @param {string} why */
const threadLost = (why) =>
  eventFromError(new UserError("A thread of the engine stopped working.", {
    where: why,
    hint: "The engine is being restarted. No stored data is lost. Try again.",
    fatal: true,
    action: "restart",
  }));

/** @param {{readInto: Function}} source @param {any} view a Python memoryview of writable bytes @param {number} offset @returns {boolean} false: the file cannot be read */
function readInto(source, view, offset) {
  const buffer = view.getBuffer("u8");
  try {
    return source.readInto(buffer.data, offset) !== false;
  } finally {
    buffer.release();
  }
}

/** pyapp.browser turns Python's exceptions into events. So an exception here may mean that Python itself no longer works. @param {any} error */
function asUserError(error) {
  const fatal = error instanceof WebAssembly.RuntimeError || error instanceof RangeError || error?.pyodide_fatal_error;
  if (!fatal) return error;
  return new UserError("The engine stopped working.", {
    where: String(error?.message ?? error),
    hint: "It is being restarted. No stored data is lost.",
    fatal: true,
    action: "restart",
  });
}
