/**
 * Starts Python in this worker, from a memory snapshot if one is stored, and unpacks our wheel.
 *
 * @typedef {{pyodide: any, lock: import("./parts.js").LockFile, wheels: Record<string, Promise<ArrayBuffer>>,
 *   marks: Record<string, number>, fromSnapshot: boolean}} Runtime
 */
import { locked } from "../shared/locks.js";
import { UserError } from "../shared/protocol.js";
import { bestInstructionSet } from "../shared/features.js";
import { PYODIDE, withParts } from "./parts.js";
import { soon } from "../shared/soon.js";
import { unpackWheel } from "./unpack.js";

/** Must be increased when the list below changes. */
const SNAPSHOT_FORMAT = 3;
/** Python's memory is at most so large. */
export const MEMORY_BYTES = 2 ** 31;
const PAGE = 2 ** 16; // bytes

/** The modules that a snapshot contains: those of the standard library that pyapp and NumPy need, and pyapp's. */
const SNAPSHOT_IMPORTS = `
import asyncio, base64, codecs, collections.abc, contextlib, ctypes, dataclasses, enum, functools, hashlib
import inspect, io, itertools, json, math, numbers, operator, pathlib, pickle, platform, random, re, secrets, shlex, string
import struct, time, traceback, types, typing, unicodedata, weakref
import pyapp.browser
pyapp.browser.import_tasks()
`;

/**
 * @param {{store: import("./store.js").Store | null, onStage: (what: string) => void, parts: import("./parts.js").Parts}} options
 * @returns {Promise<Runtime>}
 */
export async function startRuntime({ store, onStage, parts }) {
  if (bestInstructionSet() === null) {
    throw new UserError("This browser's WebAssembly has no SIMD instructions, which the model needs to compute.", {
      hint: "Use a current version of Chrome, Edge, Firefox or Safari.",
      fatal: true,
    });
  }
  /** @type {Record<string, number>} */
  const marks = { start: performance.now() };
  onStage("Loading Python");
  const lock = await parts.lock;
  const hashes = [lock.info.stdlib_sha256, lock.packages.pyapp.sha256].map((hash) => (hash ?? "").slice(0, 16));
  const snapshotName = `python-${lock.info.version}-${hashes.join("-")}-${SNAPSHOT_FORMAT}.bin`;
  let snapshot = store ? await soon(store.snapshot(snapshotName)).catch(/** @returns {null} */ () => null) : null;
  marks.snapshotFound = performance.now();
  let pyodide;
  try {
    pyodide = await loadPython(parts, snapshot && soon(snapshot.bytes), store !== null);
  } catch (error) {
    if (!store || !snapshot || error instanceof UserError) throw asStartError(error); // the snapshot is not the cause
    await soon(store.removeSnapshot(snapshotName)).catch(() => {}); // it may be damaged: start without it
    snapshot = null;
    pyodide = await loadPython(parts, null, true).catch((again) => { throw asStartError(again); });
  }
  limitMemory(pyodide._module.memory);
  marks.python = performance.now();
  onStage("Loading the engine");
  unpackWheel(pyodide, await parts.wheels.pyapp, lock);
  unpackWheel(pyodide, await parts.wheels.kernels, lock);
  if (store && !snapshot) keepSnapshot(pyodide, store, snapshotName);
  if (snapshot) reseed(pyodide);
  marks.wheel = performance.now();
  return { pyodide, lock, wheels: parts.wheels, marks, fromSnapshot: snapshot !== null };
}

/**
 * Pyodide's JavaScript takes addresses from 2 GiB on for negative numbers: texts and bytes there would be others. A memory that
 * may not grow so far is a MemoryError in Python.
 * @param {WebAssembly.Memory} memory
 */
function limitMemory(memory) {
  const grow = memory.grow.bind(memory);
  memory.grow = (pages) => {
    if (memory.buffer.byteLength + pages * PAGE > MEMORY_BYTES) throw new RangeError("Python's memory may not become larger");
    return grow(pages);
  };
}

/** @param {import("./parts.js").Parts} parts @param {Promise<Uint8Array> | null} snapshot read while Pyodide loads @param {boolean} makeSnapshot */
async function loadPython(parts, snapshot, makeSnapshot) {
  snapshot?.catch(() => {}); // Pyodide awaits it
  const { loadPyodide } = await parts.loader;
  const { default: createPyodideModule } = await parts.script;
  return withParts(parts, () => loadPyodide({
    indexURL: PYODIDE,
    packageBaseUrl: PYODIDE, // must be absolute
    lockFileContents: parts.lock,
    checkAPIVersion: true,
    createPyodideModule,
    ...(snapshot ? { _loadSnapshot: snapshot } : { _makeSnapshot: makeSnapshot }),
  }));
}

/**
 * Makes a snapshot, before any library is loaded. It is written to disk a little later.
 * @param {any} pyodide @param {import("./store.js").Store} store @param {string} name
 */
function keepSnapshot(pyodide, store, name) {
  let bytes;
  try {
    pyodide.runPython(SNAPSHOT_IMPORTS);
    bytes = pyodide.makeMemorySnapshot();
  } catch (error) {
    console.warn("A snapshot of Python could not be made: later visits start more slowly.", error);
    return;
  }
  const write = () => store.writeSnapshot(name, bytes).catch(() => {}); // the storage is full: the next start is slower
  setTimeout(() => locked("pyapp:snapshot", write), 1500);
}

/** Seeds Python's random numbers. After each restore they would be the same otherwise. @param {any} pyodide */
function reseed(pyodide) {
  const random = pyodide.pyimport("random");
  const seed = crypto.getRandomValues(new Uint32Array(4)).join("");
  random.seed(seed);
  random.destroy();
}

/** @param {any} error */
function asStartError(error) {
  if (error instanceof UserError) return error;
  return new UserError(`Python did not start: ${error?.message ?? error}`, {
    hint: "Reload the page. If that does not help, the browser may be out of memory (close other tabs), or the copy on the server damaged.",
    action: "restart",
    fatal: true,
  });
}
