/**
 * Work of a model: its events while it goes on, and its result.
 *
 * @typedef {import("../page/engine.js").Engine} Worker
 * @typedef {import("./tasks.js").Kind} Kind
 */
import { UserError, nameOf } from "../shared/protocol.js";

/** Work that has begun: `for await` gives its events as they come, `await` its result. Leaving the loop stops it. @template R */
export class Run {
  /** @type {any[]} */
  #events = [];
  /** @type {(() => void)[]} */
  #waiting = [];
  #stop = new AbortController();
  #over = false;
  /** @type {Promise<R>} */
  #result;

  /**
   * @param {Worker} worker @param {Kind} kind @param {object} about what every request says: the `model`
   * @param {any} input @param {object} options @param {AbortSignal} [signal] @param {(id: number) => void} [onStart] gets the number of the request
   */
  constructor(worker, kind, about, input, options, signal, onStart) {
    const stop = () => this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    this.#result = this.#work(worker, kind, about, input, options, onStart).finally(() => {
      signal?.removeEventListener("abort", stop);
      this.#over = true;
      this.#wake();
    });
    this.#result.catch(() => {}); // who reads the events or awaits the result gets it
  }

  /** @param {Worker} worker @param {Kind} kind @param {object} about @param {any} input @param {object} options @param {(id: number) => void} [onStart] */
  async #work(worker, kind, about, input, options, onStart) {
    const { signal } = this.#stop;
    let params = {};
    try {
      params = await kind.params(input, options, signal);
    } catch (error) {
      if (!signal.aborted) throw error; // decoding was stopped
    }
    if (signal.aborted && !onStart) return kind.result([], { type: "done", reason: "cancelled" });
    const onEvent = (/** @type {any} */ event) => {
      this.#events.push(kind.event ? kind.event(event) : event);
      this.#wake();
    };
    const done = await worker.call(kind.run, { ...about, ...params }, { signal, onEvent, onStart }).catch((error) => {
      throw nameOf(error) === "DataCloneError" ? new UserError("This cannot be sent to the engine's worker.", { where: error.message, hint: "Options are numbers, texts and lists. A signal is in the third argument: run(input, options, { signal })." }) : error;
    });
    return kind.result(this.#events, done);
  }

  #wake() {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Ends the work. The result is what there is until then, with the `reason` "cancelled" where it has one. */
  stop() {
    this.#stop.abort();
  }

  async *[Symbol.asyncIterator]() {
    let read = 0;
    try {
      for (;;) {
        while (read < this.#events.length) yield this.#events[read++];
        if (this.#over) break;
        await new Promise((resolve) => this.#waiting.push(() => resolve(undefined)));
      }
      await this.#result; // throws what it ended with
    } finally {
      if (!this.#over) this.stop();
    }
  }

  /**
   * @template [A=R], [B=never]
   * @param {((result: R) => A | PromiseLike<A>) | null} [resolved] @param {((error: any) => B | PromiseLike<B>) | null} [rejected]
   * @returns {Promise<A | B>}
   */
  then(resolved, rejected) {
    return this.#result.then(resolved, rejected);
  }
}

/** A Run over sound that comes meanwhile. @extends {Run<import("./tasks.js").Transcript>} */
export class Listening extends Run {
  /** @param {Worker} worker @param {Kind} kind @param {object} about @param {object} options @param {AbortSignal} [signal] */
  constructor(worker, kind, about, options, signal) {
    let started = (/** @type {number} */ _id) => {};
    const request = /** @type {Promise<number>} */ (new Promise((resolve) => (started = resolve)));
    super(worker, kind, about, null, options, signal, (id) => started(id));
    this.worker = worker;
    /** The number of the request. */
    this.request = request;
  }

  /** @param {Float32Array} samples of one channel, 16,000 a second; they are the worker's then */
  async push(samples) {
    if (!(samples instanceof Float32Array)) throw new UserError("These are no samples.", { hint: "Give a Float32Array of one channel, with 16,000 samples a second." });
    this.worker.aside("push", { id: await this.request, samples }, [samples.buffer]);
  }

  /** Ends the sound: the rest is transcribed. */
  async finish() {
    this.worker.aside("finish", { id: await this.request });
  }
}
