/**
 * The Lab's worker: a Python of its own that runs the cells of a notebook, so that the other views live on.
 *
 * Requests (see modules/shared/protocol.js): "run", "drawn", "complete", "signature", "reset", "files.put", "files.remove".
 * `{method: "stop"}` has no answer. Events of a cell: `{type: "output", output}` (pyapp/lab/output.py),
 * `{type: "file", name, bytes}`, a file of its folder that is new or has changed, and `{type: "asked"}`, when it waits for a line.
 *
 * Its name is "pyapp" and the number of threads, as that of worker.js. `?hosts=` in its address names the hosts that cells may reach.
 */
import { allowOwnScripts } from "./modules/shared/trusted-types.js";
import { present } from "./modules/shared/present.js";
import { UserError, eventFromError, megabytes } from "./modules/shared/protocol.js";
import { siteUrl } from "./modules/shared/site.js";
import { mayShare, threadsFor } from "./modules/shared/threads.js";
import { makeAnswers, waitForAnswer } from "./modules/worker/lab-answers.js";
import { LARGEST_FILE, LabFiles } from "./modules/worker/lab-files.js";
import { limitNetwork } from "./modules/worker/lab-network.js";
import { readNow } from "./modules/worker/parts.js";
import { LATER, Python } from "./modules/worker/python.js";
import { openStore } from "./modules/worker/store.js";

const SCAN_INTERVAL = 2000; // ms between two looks for changed files while a cell runs

allowOwnScripts();
/** The hosts that cells may reach, as the visitor set them. */
const hosts = new URLSearchParams(location.search).get("hosts") ?? "";
limitNetwork(hosts);
/** The page writes INTERRUPT here, which Python reads while it computes. @type {Int32Array | null} */
const interrupts = mayShare() ? new Int32Array(new SharedArrayBuffer(4)) : null;
const answers = makeAnswers();
const python = new Python(openStore(), (notice) => postMessage("marks" in notice ? { ...notice, interrupts, answers } : notice));
const [, threads] = self.name.split(" ");
python.start(["numpy", "numpy-later", ...LATER], threadsFor(threads));
const started = start();
started.catch(() => {}); // "failed" was posted; requests report it too

async function start() {
  const { pyodide } = await present(python.runtime, "Python");
  await Promise.all([python.install("numpy"), python.install("numpy-later"), python.installLater()]);
  const lab = pyodide.pyimport("pyapp.lab.worker");
  lab.connect({
    site: siteUrl("./"),
    allowed: hosts,
    micropip: () => python.install("micropip"),
    read: (/** @type {string} */ path) => readNow(siteUrl(path)), // a file of the site
    ask: answers && interrupts ? () => ask(answers, interrupts) : undefined,
    sleep: interrupts ? (/** @type {number} */ seconds) => sleep(seconds, interrupts) : undefined,
  });
  lab.start();
  if (interrupts) {
    Atomics.store(interrupts, 0, 0); // Stop before this would end what is imported above; `stops` knows of it
    pyodide.setInterruptBuffer(interrupts);
  }
  return { lab, files: new LabFiles(pyodide.FS, lab.HOME) };
}

/** Waits as `time.sleep` does, until Stop ends it: Python then raises KeyboardInterrupt. @param {number} seconds @param {Int32Array} stop */
function sleep(seconds, stop) {
  const longest = 1e6; // ms; Python asks again for the rest
  Atomics.wait(stop, 0, 0, Math.min(seconds * 1000, longest));
}

/** The request whose code runs. */
let current = 0;

/**
 * A line that the reader writes. @param {import("./modules/worker/lab-answers.js").Answers} shared @param {Int32Array} stop
 * @returns {string | undefined} undefined: the cell is stopped
 */
function ask(shared, stop) {
  const line = waitForAnswer(shared, () => postMessage({ id: current, events: [{ type: "asked" }] }));
  if (line === undefined) Atomics.store(stop, 0, 0); // Python raises KeyboardInterrupt by itself
  return line;
}

/** Runs Python code that may be stopped, and sends its outputs. Cells come one after the other. */
let last = Promise.resolve();
let running = false;
let stops = 0; // cells that were sent before a stop do not begin

/** @param {number} id of the request @param {(lab: any, send: (json: string) => void) => Promise<string>} work */
function inTurn(id, work) {
  const sent = stops;
  const turn = last.then(async () => {
    const { lab, files } = await started;
    await new Promise((resolve) => setTimeout(resolve)); // a stop that came while Python was imported is read first
    if (sent !== stops) return "stopped";
    let looked = performance.now();
    const post = (/** @type {object[]} */ ...events) => postMessage({ id, events });
    const tellFiles = () => {
      for (const { name, bytes } of files.changed()) post({ type: "file", name, bytes });
      for (const name of files.removed()) post({ type: "file", name, bytes: null });
    };
    const tellLarge = () => { // at the end: one that is still being written would be told again and again
      for (const { name, size } of files.tooLarge()) {
        const text = `${name} has ${megabytes(size)}. Cells can read it until Python is restarted; files of more than ${megabytes(LARGEST_FILE)} are not kept with the notebook.`;
        post({ type: "output", output: { kind: "note", text } });
      }
    };
    const send = (/** @type {string} */ json) => {
      post({ type: "output", output: JSON.parse(json) });
      if (performance.now() - looked < SCAN_INTERVAL) return;
      tellFiles();
      looked = performance.now();
    };
    running = true;
    current = id;
    try {
      return await work(lab, send);
    } finally {
      running = false;
      if (interrupts) Atomics.store(interrupts, 0, 0);
      tellFiles();
      tellLarge();
    }
  });
  last = turn.then(() => {}, () => {});
  return turn;
}

/** @type {Record<string, (params: any, id: number) => Promise<object>>} */
const handlers = {
  ping: async () => ({}),

  /** @param {{source: string, name: string}} cell @param {number} id */
  run: async ({ source, name }, id) => ({ reason: await inTurn(id, (lab, send) => lab.run(source, name, send)) }),

  /** @param {{field: string, pixels: Float32Array}} drawing @param {number} id */
  drawn: async ({ field, pixels }, id) => ({ reason: await inTurn(id, (lab, send) => lab.drawn(field, pixels, send)) }),

  /** For another notebook: no variables, no files. */
  reset: async () => {
    const { lab, files } = await started;
    files.clear();
    lab.start();
    return {};
  },

  complete: async ({ text }) => JSON.parse((await started).lab.complete(text)),

  signature: async ({ text }) => ({ signature: JSON.parse((await started).lab.signature(text)) }),

  "files.put": async ({ files: given }) => {
    const { lab, files } = await started;
    for (const { name, bytes } of given) files.put(name, bytes);
    lab.files_changed();
    return {};
  },

  "files.remove": async ({ name }) => ((await started).files.remove(name), {}),

};

self.onmessage = ({ data: { id, method, params } }) => {
  if (method === "stop") {
    stops += 1;
    if (interrupts) Atomics.store(interrupts, 0, 0); // Python does not compute, so it did not take the signal
    if (running) started.then(({ lab }) => lab.stop(), () => {}); // a cell that waits
  } else if (method !== "cancel") answer(id, method, params ?? {});
};

// `os._exit` ends Python outside of the promise of its cell, which then never ends; so may a recursion that Python does not limit.
for (const kind of ["error", "unhandledrejection"]) {
  self.addEventListener(kind, (/** @type {any} */ event) => {
    const error = event.reason ?? event.error ?? event;
    const exited = ENDED.test(error?.message);
    if (!running || !(exited || isFatal(error))) return;
    event.preventDefault();
    postMessage({ id: current, events: [eventFromError(exited ? ended("A cell has ended Python.", error) : asLabError(error))] });
  });
}

/** @param {number} id @param {string} method @param {any} params */
async function answer(id, method, params) {
  try {
    if (!Object.hasOwn(handlers, method)) throw new UserError(`The Lab has no request "${method}".`);
    const result = await handlers[method](params, id);
    postMessage({ id, events: [{ type: "done", reason: "complete", ...result }] });
  } catch (error) {
    if (!(error instanceof UserError)) console.debug(error);
    postMessage({ id, events: [eventFromError(asLabError(error))] });
  }
}

/** Whether Python itself no longer works. Errors of cells are outputs. @param {any} error */
const isFatal = (error) => error instanceof WebAssembly.RuntimeError || error instanceof RangeError || Boolean(error?.pyodide_fatal_error);

/** @param {any} error */
function asLabError(error) {
  if (!isFatal(error)) return error;
  const deep = error instanceof RangeError; // the browser's stack is full
  return ended("Python stopped working.", error, deep ? "Functions have called one another too deeply for a browser. " : "It may have run out of memory. ");
}

/** Pyodide's message. */
const ENDED = /^(Uncaught Exit: |Uncaught Error: )?Program terminated with exit/;

/** An error after which Python is started anew. @param {string} what @param {any} error @param {string} [why] */
function ended(what, error, why = "") {
  return new UserError(what, {
    where: String(error?.message ?? error).slice(0, 300),
    hint: `${why}Python is being restarted: its variables are gone; the notebook and its files are stored.`,
    fatal: true,
  });
}
