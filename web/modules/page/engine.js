/**
 * The page's side of the protocol: one worker, requests with ids, events as async iterables, restarts.
 *
 * Fires: "notice" (detail: progress of the start), "restarted" (detail: {why}), "silent" (a request has sent no event for a
 * while), "answering" (it sends events again).
 * @typedef {import("../shared/protocol.js").TaskEvent} TaskEvent
 */
import { present } from "../shared/present.js";
import { UserError } from "../shared/protocol.js";

const STOP_PATIENCE = 2000; // ms from Stop until the worker is terminated
const SILENCE = 20000; // ms without an event until the page shows it
const START_SILENCE = 40000; // ms without a notice of the start until the page offers to restart

/** @type {import("../shared/protocol.js").ErrorEvent} */
const LATE = {
  type: "error",
  what: "The engine has not started yet.",
  hint: "On a slow connection or a busy device it takes longer: wait, or restart it. If that does not help, close all tabs of this page, and open it again.",
  where: null,
  action: "restart",
  fatal: false,
};

/** @type {import("../shared/protocol.js").ErrorEvent} */
const CLOSED = { type: "error", what: "The engine was closed.", hint: "Start a new one." };

/** The worker that boot.js started, for the first call only. @returns {{worker: Worker, heard: Event[]} | null} */
function takeEarly() {
  const early = globalThis.pyappEarly ?? null;
  globalThis.pyappEarly = null;
  return early;
}

export class Engine extends EventTarget {
  /**
   * @param {URL} url of worker.js @param {() => string[]} shown the words of its name: threads, task, chosen model
   * @param {(url: string, name: string) => Worker} [start] makes the worker; by default boot.js
   */
  constructor(url, shown = () => [], start = (address, name) => present(globalThis.pyappStartWorker, "boot.js")(address, name)) {
    super();
    this.url = url;
    this.shown = shown;
    this.start = start;
    /** @type {Map<number, Request>} */
    this.requests = new Map();
    this.lastId = 0;
    /** How often the engine itself failed. */
    this.crashes = 0;
    this.closed = false;
    /** @type {Record<string, any> | null} the worker's message when it was ready */
    this.about = null;
    /** The id of the request to stop, in memory that an isolated worker shares. @type {Int32Array | null} */
    this.stopFlag = null;
    this.worker = this.#spawn();
  }

  /** Starts a worker. @returns {Worker} */
  #spawn() {
    this.about = null;
    this.stopFlag = null;
    const early = takeEarly();
    const worker = early?.worker ?? this.start(this.url.href, ["pyapp", ...this.shown()].join(" "));
    this.#awaitStart();
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => (this.about ? this.#suspect(event) : this.#broken(event));
    queueMicrotask(() => { // the creator of this engine adds its listeners first
      for (const event of early?.heard ?? []) /** @type {any} */ (worker)[`on${event.type}`](event);
    });
    return worker;
  }

  /** A start may wait for an answer of the browser that never comes. Each notice begins the time anew. */
  #awaitStart() {
    clearTimeout(this.startTimer);
    if (!this.about) this.startTimer = setTimeout(() => this.#tell({ notice: "late", event: LATE }), START_SILENCE);
  }

  /** @param {object} notice */
  #tell(notice) {
    this.dispatchEvent(new CustomEvent("notice", { detail: notice }));
  }

  /** Terminates the worker with all its requests, and starts another. @param {string} why for the user */
  restart(why) {
    this.worker.terminate();
    for (const request of this.requests.values()) {
      request.push({ type: "error", what: why, hint: "No stored data is lost. Try again.", action: "retry" });
    }
    this.requests.clear();
    this.worker = this.#spawn();
    this.dispatchEvent(new CustomEvent("restarted", { detail: { why } }));
  }

  /** Terminates the worker for good. Its requests end with an error, as do later ones. */
  close() {
    clearTimeout(this.startTimer);
    this.worker.terminate();
    this.closed = true;
    for (const request of this.requests.values()) request.push(CLOSED);
  }

  /**
   * Runs a request. Yields its events as they arrive, and returns the last one.
   * @param {string} method @param {object} [params] @param {AbortSignal} [signal]
   * @param {(id: number) => void} [onStart] gets the request's id, for `aside`
   * @returns {AsyncGenerator<TaskEvent, import("../shared/protocol.js").DoneEvent>} throws UserError for an error event
   */
  async *stream(method, params = {}, signal, onStart) {
    this.lastId += 1;
    const request = new Request(this, this.lastId);
    this.requests.set(request.id, request);
    onStart?.(request.id);
    const stop = () => this.#cancel(request);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      if (this.closed) request.push(CLOSED);
      else this.worker.postMessage({ id: request.id, method, params });
      if (signal?.aborted) stop();
      for (;;) {
        const event = await request.next();
        if (event.type === "error") {
          if (event.fatal && this.about) {
            this.crashes += 1;
            this.restart(event.what);
            throw new UserError(event.what, { ...event, action: "retry" }); // the restart that it asks for is under way
          }
          throw new UserError(event.what, event);
        }
        if (event.type === "done") return event;
        yield event;
      }
    } finally {
      request.close();
      this.requests.delete(request.id);
      signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Runs a request to its end.
   * @param {string} method @param {object} [params]
   * @param {{signal?: AbortSignal, onEvent?: (event: any) => void, onStart?: (id: number) => void}} [options]
   * @returns {Promise<import("../shared/protocol.js").DoneEvent>} its done event
   */
  async call(method, params = {}, { signal, onEvent, onStart } = {}) {
    const events = this.stream(method, params, signal, onStart);
    for (;;) {
      const { done, value } = await events.next();
      if (done) return value;
      onEvent?.(value);
    }
  }

  /**
   * Sends a message to a running request. The worker does not answer it.
   * @param {string} method @param {{id: number, samples?: Float32Array}} params @param {Transferable[]} [transfer]
   */
  aside(method, params, transfer = []) {
    this.worker.postMessage({ method, params }, transfer);
  }

  /**
   * Asks the worker to stop a request: by a message, and if memory is shared, by a flag that Python reads while it computes.
   * After STOP_PATIENCE, terminates the worker.
   * @param {Request} request
   */
  #cancel(request) {
    const worker = this.worker;
    if (!this.about) request.push({ type: "done", reason: "cancelled" }); // still starting: there is nothing to stop
    const pending = () => this.worker === worker && this.requests.has(request.id);
    worker.postMessage({ method: "cancel", params: { id: request.id } });
    if (this.stopFlag) Atomics.store(this.stopFlag, 0, request.id);
    setTimeout(() => {
      if (pending()) this.restart("The engine did not stop by itself, so it was restarted.");
    }, STOP_PATIENCE);
  }

  /** @param {any} message of the worker */
  #receive({ id, events, ...notice }) {
    if (id !== undefined) {
      const request = this.requests.get(id);
      if (request) for (const event of events) request.push(event);
      return;
    }
    if (notice.notice === "ready") {
      this.about = notice;
      this.stopFlag = notice.stopFlag;
    }
    this.#awaitStart();
    if (notice.notice === "failed") clearTimeout(this.startTimer);
    this.#tell(notice);
  }

  /** An error in the worker outside a request. The worker may still work. @param {ErrorEvent} event */
  async #suspect(event) {
    event.preventDefault();
    const silence = new Promise((resolve) => setTimeout(resolve, STOP_PATIENCE, "silent"));
    const answer = await Promise.race([this.call("ping"), silence]).catch(() => "silent");
    if (answer === "silent") this.#broken(event);
  }

  /** The worker's script or one of its modules did not load, or the worker ran out of memory. @param {ErrorEvent} event */
  #broken(event) {
    event.preventDefault?.();
    const what = this.about ? "The engine stopped working." : "The engine could not be loaded.";
    const hint = this.about ? "Restart it. No stored data is lost." : "Check your connection, then restart it.";
    /** @type {import("../shared/protocol.js").ErrorEvent} */
    const error = { type: "error", what, hint, where: event.message ?? null, action: "restart", fatal: false };
    this.about = null;
    clearTimeout(this.startTimer);
    for (const request of [...this.requests.values()]) request.push(error);
    this.#tell({ notice: "failed", event: error });
  }
}

/** The events of a request: a queue with one reader. */
class Request {
  /** @param {Engine} engine @param {number} id */
  constructor(engine, id) {
    this.engine = engine;
    this.id = id;
    /** @type {any[]} */
    this.queue = [];
    /** @type {((value?: any) => void) | null} */
    this.wake = null;
    this.silent = false;
    this.#listen();
  }

  /** @param {TaskEvent} event */
  push(event) {
    this.queue.push(event);
    this.wake?.();
    if (this.silent) this.engine.dispatchEvent(new CustomEvent("answering", { detail: { id: this.id } }));
    this.silent = false;
    this.#listen();
  }

  #listen() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.engine.about) return this.#listen(); // still starting: the page shows that already
      this.silent = true;
      this.engine.dispatchEvent(new CustomEvent("silent", { detail: { id: this.id } }));
    }, SILENCE);
  }

  async next() {
    while (this.queue.length === 0) await new Promise((resolve) => (this.wake = resolve));
    return this.queue.shift();
  }

  close() {
    clearTimeout(this.timer);
  }
}
