/**
 * Fetches and checks the program's own files. As soon as the worker runs, it requests everything that Python needs to start.
 * Pyodide's loader would request one file after the other.
 *
 * @typedef {{info: {version: string, python: string, stdlib_sha256?: string, sizes?: Record<string, number>, later?: Record<string, string>}, packages: Record<string, {file_name: string, sha256: string, version: string}>}} LockFile
 * @typedef {{lock: Promise<LockFile>, loader: Promise<any>, script: Promise<any>, program: Promise<WebAssembly.Module>,
 *   library: Promise<Response>, wheels: Record<string, Promise<ArrayBuffer>>}} Parts
 */
import { UserError } from "../shared/protocol.js";
import { bestInstructionSet } from "../shared/features.js";
import { checkSent, checkThere, lost } from "../shared/sent.js";
import { siteUrl } from "../shared/site.js";
import { compiled } from "./compile.js";

export const PYODIDE = siteUrl("pyodide/");
const LOCK_FILE = "pyodide-lock.json";
const PROGRAM = "pyodide.asm.wasm";
const LIBRARY = "python_stdlib.zip";

/** The package with the best kernels for this browser that were built. @param {LockFile} lock */
const kernelsOf = ({ packages }) => (packages[`pyapp-${bestInstructionSet()}`] ? `pyapp-${bestInstructionSet()}` : "pyapp-simd");

/** In the service worker's bookkeeping: this cache exists after the first visit. */
const VISITED = "pyapp-meta";
const TELL_INTERVAL = 60; // ms between two notices
const RESTART = { action: "restart", fatal: true };

/** Counts the bytes of the files that Python needs, while they arrive at a first visit; later ones are on this device. */
class Arrival {
  constructor() {
    this.first = globalThis.caches?.has(VISITED).then((visited) => !visited, () => true) ?? Promise.resolve(true);
    this.done = 0;
    /** Bytes of all files after decompression; null until the lock file is there. @type {number | null} */
    this.total = null;
    this.told = 0;
  }

  /** @param {Record<string, number>} sizes by name @param {string[]} names */
  expect(sizes, names) {
    this.total = names.reduce((sum, name) => sum + sizes[name], 0);
  }

  /** @param {Response} response @returns {Promise<Response>} the same, counted */
  async counted(response) {
    if (!response.body || !(await this.first)) return response;
    const count = new TransformStream({
      transform: (/** @type {Uint8Array} */ bytes, controller) => {
        this.done += bytes.length;
        this.#tell();
        controller.enqueue(bytes);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(count), { status, statusText, headers });
  }

  #tell() {
    const { done, total } = this;
    const now = performance.now();
    if (!total || done > total || (now - this.told < TELL_INTERVAL && done < total)) return;
    this.told = now;
    postMessage({ notice: "bytes", done, total });
  }
}

const arrival = new Arrival();

/** The error if the connection was lost, or if a file is not a script. @param {string} url */
const notLoaded = (url) => lost(url, { next: "reload the page", ...RESTART });

/** A module, for which a lost connection is tried once more: by another address, since browsers remember what failed. @param {string} url */
export async function importPart(url) {
  try {
    return await import(url);
  } catch {
    await checkThere(url, url, RESTART);
    return import(`${url}?again`).catch(() => {
      throw notLoaded(url);
    });
  }
}

/**
 * A file, read to its end.
 * @template T
 * @param {string} path relative to pyodide/ @param {(response: Response) => Promise<T>} read @returns {Promise<T>}
 */
async function fetchFile(path, read) {
  const url = PYODIDE + path;
  try {
    const response = await fetch(url);
    checkSent(response, url, RESTART);
    return await read(path === LOCK_FILE ? response : await arrival.counted(response));
  } catch (error) {
    throw error instanceof TypeError ? notLoaded(url) : error; // so browsers call a connection that broke off
  }
}

/** @param {ArrayBuffer} bytes @returns {Promise<string>} */
export async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Fetches a wheel of our lock file and checks its hash. @param {LockFile} lock @param {string} name */
export async function fetchWheel(lock, name) {
  const { file_name: file, sha256: expected } = lock.packages[name];
  const bytes = await fetchFile(file, (response) => response.arrayBuffer());
  // Without a secure context there is no crypto.subtle. The file comes from our own origin in any case.
  if (crypto.subtle && (await sha256(bytes)) !== expected) {
    throw new UserError("A downloaded part of the program is damaged.", {
      where: file,
      hint: "Restart the engine. If that does not help, the copy on the server is damaged.",
      action: "restart",
      fatal: true,
    });
  }
  return bytes;
}

/**
 * A file of the lock file, at once: Python cannot wait for promises while it imports a module.
 * @param {string} url @returns {Uint8Array | undefined} undefined where it cannot be fetched
 */
export function readNow(url) {
  const request = new XMLHttpRequest();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  try {
    request.send();
  } catch {
    return undefined; // offline
  }
  return request.status === 200 ? new Uint8Array(request.response) : undefined;
}

/** @param {string[]} packages beside pyapp @returns {Parts} */
export function fetchParts(packages) {
  const lock = fetchFile(LOCK_FILE, (response) => response.json()).then((found) => {
    const names = ["pyapp", kernelsOf(found), ...packages].map((name) => found.packages[name].file_name);
    arrival.expect(found.info.sizes ?? {}, [PROGRAM, LIBRARY, ...names]);
    return found;
  });
  const program = fetchFile(PROGRAM, compiled);
  const parts = {
    lock,
    program,
    loader: importPart(`${PYODIDE}pyodide.js`),
    script: importPart(`${PYODIDE}pyodide.asm.js`),
    library: lock.then(() => fetchFile(LIBRARY, readWhole)),
  };
  /** @type {Record<string, Promise<ArrayBuffer>>} */
  const wheels = { pyapp: lock.then((found) => fetchWheel(found, "pyapp")), kernels: lock.then((found) => fetchWheel(found, kernelsOf(found))) };
  // Each file that arrives costs time of this thread. So the other packages, which are needed last, are requested last.
  for (const name of packages) wheels[name] = program.then(() => lock).then((found) => fetchWheel(found, name));
  for (const part of [...Object.values(parts), ...Object.values(wheels)]) part.catch(() => {}); // reported where it is awaited
  return { ...parts, wheels };
}

/** Reads a response completely. Its `arrayBuffer` then returns these bytes. @param {Response} response */
async function readWhole(response) {
  const bytes = await response.arrayBuffer();
  return Object.defineProperty(response, "arrayBuffer", { value: async () => bytes });
}

/**
 * Runs Pyodide's loader, which fetches and compiles by itself, and gives it the parts that are already requested.
 * @template T
 * @param {Parts} parts @param {() => Promise<T>} load @returns {Promise<T>}
 */
export async function withParts({ program, library }, load) {
  const { fetch } = self;
  const { instantiateStreaming } = WebAssembly;
  const programResponse = new Response(); // replaced by the compiled program below
  self.fetch = async (input, init) => {
    if (String(input) === PYODIDE + PROGRAM) return programResponse;
    return String(input) === PYODIDE + LIBRARY ? library : fetch(input, init);
  };
  WebAssembly.instantiateStreaming = /** @type {any} */ (async (/** @type {any} */ source, /** @type {WebAssembly.Imports} */ imports) => {
    if ((await source) !== programResponse) return instantiateStreaming(source, imports);
    const module = await program.catch(() => new Promise(() => {})); // `lost` reports the error
    return { module, instance: await WebAssembly.instantiate(module, imports) };
  });
  const loading = load().finally(() => {
    self.fetch = fetch;
    WebAssembly.instantiateStreaming = instantiateStreaming;
  });
  // If a part does not arrive, Pyodide waits for ever. Then the error of the part ends the start.
  const lost = Promise.all([program, library]).then(() => new Promise(() => {}));
  return Promise.race([loading, lost]);
}
