/**
 * The Lab's Python in its worker: starts it when it is first needed, runs cells in turn, stops them.
 *
 * Fires: "state" (detail: {state, text}), "file" (detail: {name, bytes}; bytes null: it was deleted), "restarted".
 */
import { Engine } from "../../page/engine.js";
import { threadsNow } from "../../page/engine-settings.js";
import { megabytes } from "../../shared/protocol.js";
import { ANSWERED, ASKING, INTERRUPT, LONGEST_ANSWER, REFUSED } from "../../shared/lab-protocol.js";
import { siteUrl } from "../../shared/site.js";

/** @typedef {import("./notebook-files.js").Output} Output */

const GONE = "Its variables are gone; the notebook and its files are stored.";

export class LabPython extends EventTarget {
  /** @param {string} hosts that cells may reach */
  constructor(hosts) {
    super();
    this.hosts = hosts;
    /** @type {Engine | null} null before the first start */
    this.engine = null;
    this.running = 0;
  }

  /** Starts Python, if it does not run. @returns {Engine} */
  start() {
    return this.engine ?? this.#start();
  }

  #start() {
    const engine = (this.engine = new Engine(this.#url, () => [threadsNow(undefined)]));
    this.#tell("starting", "Starting Python");
    engine.addEventListener("notice", ({ detail }) => {
      if (detail.notice === "bytes" && this.ready) return; // files that only some cells need arrive later
      if (detail.notice === "bytes") this.#tell("starting", `Loading Python: ${megabytes(detail.done)} of ${megabytes(detail.total)}`);
      else if (detail.notice === "stage") this.#tell("starting", detail.what);
      else if (detail.notice === "ready") this.#tellIdle();
      else if (detail.notice === "late") this.#tell("starting", "Python has not started yet", detail.event);
      else this.#tell("failed", "Python does not run", detail.event);
    });
    engine.addEventListener("restarted", () => {
      this.#tell("starting", "Restarting Python");
      this.dispatchEvent(new CustomEvent("restarted"));
    });
    return engine;
  }

  get #url() {
    return new URL(`${siteUrl("lab-worker.js")}?hosts=${encodeURIComponent(this.hosts)}`);
  }

  /** Sets the hosts that cells may reach, from the next start of Python on. @param {string} hosts */
  allow(hosts) {
    this.hosts = hosts;
    if (this.engine) this.engine.url = this.#url;
  }

  get ready() {
    return Boolean(this.engine?.about);
  }

  /** Whether completion would be answered at once. */
  get idle() {
    return this.ready && this.running === 0;
  }

  /** The number of a signal that Python reads, in shared memory; null where the page is not isolated. @type {Int32Array | null} */
  get #interrupts() {
    return /** @type {any} */ (this.engine?.about)?.interrupts ?? null;
  }

  /** Shared memory for the line of `input()`. @type {import("../../worker/lab-answers.js").Answers | null} */
  get #answers() {
    return /** @type {any} */ (this.engine?.about)?.answers ?? null;
  }

  /** Gives a cell that waits for a line what the reader wrote. @param {string} line */
  answer(line) {
    const answers = this.#answers;
    if (!answers) return; // Python was started anew: nothing waits
    const { state, text } = answers;
    const bytes = new TextEncoder().encode(line.slice(0, LONGEST_ANSWER / 4));
    text.set(bytes);
    Atomics.store(state, 1, bytes.length);
    this.#wake(ANSWERED);
  }

  /** @param {number} state */
  #wake(state) {
    const answers = this.#answers;
    if (answers && Atomics.compareExchange(answers.state, 0, ASKING, state) === ASKING) Atomics.notify(answers.state, 0);
  }

  /** Whether a cell can be stopped without losing the variables. */
  get stopsGently() {
    return Boolean(this.#interrupts);
  }

  /** @param {string} state @param {string} text @param {object} [event] an error */
  #tell(state, text, event) {
    this.dispatchEvent(new CustomEvent("state", { detail: { state, text, event } }));
  }

  #tellIdle() {
    if (this.running) this.#tell("busy", "Running");
    else this.#tell("ready", "Python is ready");
  }

  /**
   * Runs a request whose events are outputs. @param {string} method @param {object} params
   * @param {(output: Output) => void} onOutput @param {() => void} onAsked when it waits for a line (`answer`)
   * @returns {Promise<string>} "complete", "failed", "stopped" or "gone"
   */
  async #outputs(method, params, onOutput, onAsked) {
    const engine = this.start();
    this.running += 1;
    if (this.ready) this.#tellIdle();
    try {
      const { reason = "complete" } = await engine.call(method, params, { onEvent: (event) => {
        if (event.type === "output") onOutput(event.output);
        else if (event.type === "asked") onAsked();
        else if (event.type === "file") this.dispatchEvent(new CustomEvent("file", { detail: event }));
      } });
      return reason;
    } finally {
      this.running -= 1;
      if (this.ready) this.#tellIdle();
    }
  }

  /** @param {string} source @param {string} name what errors call the cell @param {(output: Output) => void} onOutput @param {() => void} onAsked */
  run(source, name, onOutput, onAsked) {
    return this.#outputs("run", { source, name }, onOutput, onAsked);
  }

  /** @param {string} field @param {number[]} pixels @param {(output: Output) => void} onOutput @param {() => void} onAsked */
  drawn(field, pixels, onOutput, onAsked) {
    return this.#outputs("drawn", { field, pixels }, onOutput, onAsked);
  }

  /** Asks the running cell to end. Without shared memory Python can only be restarted. */
  stop() {
    if (!this.running) return;
    if (this.ready && !this.stopsGently) return this.restart("The cell was stopped.");
    const interrupts = this.#interrupts;
    if (this.ready && interrupts) {
      Atomics.store(interrupts, 0, INTERRUPT);
      Atomics.notify(interrupts, 0); // of time.sleep
      this.#wake(REFUSED);
    }
    this.engine?.worker.postMessage({ method: "stop" });
    this.#tell("busy", "Stopping");
  }

  /** Forgets all variables and files, for another notebook. */
  async reset() {
    if (this.engine) await this.engine.call("reset");
  }

  /** Ends Python with all variables, and starts it anew. @param {string} [why] */
  restart(why = "Python was restarted.") {
    if (!this.engine) this.start();
    else this.engine.restart(`${why} ${GONE}`);
  }

  /** @param {string} method @param {object} params @returns {Promise<any>} null while a cell runs, or if there is no answer */
  async ask(method, params) {
    if (!this.engine || !this.idle) return null;
    return this.engine.call(method, params).catch(/** @returns {null} */ () => null);
  }

  /** Puts files into the folder of the cells. @param {{name: string, bytes: Uint8Array}[]} files */
  async putFiles(files) {
    if (!files.length) return;
    await this.start().call("files.put", { files });
  }

  /** @param {string} name */
  async removeFile(name) {
    if (this.engine) await this.engine.call("files.remove", { name });
  }
}
