/**
 * Starts Python in this worker: everything that can be fetched is fetched at once, Pyodide comes from a memory snapshot
 * when one is kept, and our wheel is checked by the hash in the lock file and unpacked.
 *
 * @typedef {{info: {version: string, python: string, stdlib_sha256?: string}, packages: Record<string, {file_name: string, sha256: string, version: string}>}} LockFile
 * @typedef {{pyodide: any, lock: LockFile, wheels: Record<string, Promise<ArrayBuffer>>,
 *   marks: Record<string, number>, fromSnapshot: boolean}} Runtime
 */
import { UserError } from "../shared/protocol.js";
import { BROWSERS_THAT_WORK, bestInstructionSet } from "../shared/features.js";
import { unpackWheel } from "./unpack.js";

const PYODIDE = new URL("../../pyodide/", import.meta.url).href;
const LOCK_FILE = "pyodide-lock.json";

/** Counts up whenever the list below changes. */
const SNAPSHOT_FORMAT = 2;

/** What a snapshot carries beside Python itself: modules of the standard library that pyapp and NumPy need, and pyapp's. */
const SNAPSHOT_IMPORTS = `
import asyncio, base64, codecs, collections.abc, contextlib, ctypes, dataclasses, enum, functools, hashlib, importlib.metadata
import inspect, io, itertools, json, math, numbers, operator, pathlib, pickle, platform, random, re, secrets, shlex, string
import struct, time, traceback, types, typing, unicodedata, weakref, zipfile
import pyapp.browser
pyapp.browser.import_tasks()
`;

/** @param {string} path relative to pyodide/ */
export async function fetchFile(path, base = PYODIDE) {
  const url = new URL(path, base).href;
  let response;
  try {
    response = await fetch(url);
  } catch {
    throw new UserError("A part of the program could not be loaded.", {
      where: url,
      hint: "Check your connection, then reload the page.",
      action: "restart",
      fatal: true,
    });
  }
  if (!response.ok) {
    throw new UserError(`A part of the program is missing on the server (status ${response.status}).`, {
      where: url,
      hint: "If you put this page on a host yourself, copy the whole dist folder.",
      fatal: true,
    });
  }
  return response;
}

/** @param {ArrayBuffer} bytes @returns {Promise<string>} */
export async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A wheel of our lock file, checked. @param {LockFile} lock @param {string} name */
export async function fetchWheel(lock, name) {
  const { file_name: file, sha256: expected } = lock.packages[name];
  const bytes = await (await fetchFile(file)).arrayBuffer();
  // Where the page is not a secure context there is no crypto.subtle; the file came from our own origin all the same.
  if (crypto.subtle && (await sha256(bytes)) !== expected) {
    throw new UserError("A part of the program arrived damaged.", {
      where: file,
      hint: "Reload the page. If that does not help, the copy on the server is damaged.",
      fatal: true,
    });
  }
  return bytes;
}

/**
 * @param {{store: import("./store.js").Store | null, onStage: (what: string) => void, early: string[]}} options `early`: packages
 *   to fetch beside Python
 * @returns {Promise<Runtime>}
 */
export async function startRuntime({ store, onStage, early }) {
  if (bestInstructionSet() === null) {
    throw new UserError("This browser's WebAssembly has no SIMD instructions, which the model needs to compute.", {
      hint: `Please use another browser: ${BROWSERS_THAT_WORK}.`,
      fatal: true,
    });
  }
  const marks = { start: performance.now() };
  onStage("Loading Python");
  const lockPromise = fetchFile(LOCK_FILE).then((response) => response.json());
  const wheels = Object.fromEntries(["pyapp", ...early].map((name) => [name, lockPromise.then((lock) => fetchWheel(lock, name))]));
  for (const wheel of Object.values(wheels)) wheel.catch(() => {}); // reported where it is awaited
  const { info, packages } = await lockPromise;
  const hashes = [info.stdlib_sha256, packages.pyapp.sha256].map((hash) => (hash ?? "").slice(0, 16));
  const snapshotName = `python-${info.version}-${hashes.join("-")}-${SNAPSHOT_FORMAT}.bin`;
  let snapshot = store ? await store.snapshot(snapshotName).catch(() => null) : null;
  marks.snapshotFound = performance.now();
  let pyodide;
  try {
    pyodide = await loadPython(lockPromise, snapshot?.arrayBuffer(), store !== null);
  } catch (error) {
    if (!snapshot) throw asStartError(error);
    await store.removeSnapshot(snapshotName); // damaged: start without
    snapshot = null;
    pyodide = await loadPython(lockPromise, null, true);
  }
  marks.python = performance.now();
  onStage("Loading the engine");
  unpackWheel(pyodide, await wheels.pyapp, await lockPromise);
  if (store && !snapshot) keepSnapshot(pyodide, store, snapshotName);
  if (snapshot) reseed(pyodide);
  marks.wheel = performance.now();
  return { pyodide, lock: await lockPromise, wheels, marks, fromSnapshot: snapshot !== null };
}

/** @param {Promise<LockFile>} lockFileContents @param {Promise<ArrayBuffer> | null} snapshot read while Pyodide loads */
async function loadPython(lockFileContents, snapshot, makeSnapshot) {
  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`);
  return loadPyodide({
    indexURL: PYODIDE,
    packageBaseUrl: PYODIDE, // must be absolute
    lockFileContents,
    checkAPIVersion: true,
    ...(snapshot ? { _loadSnapshot: snapshot } : { _makeSnapshot: makeSnapshot }),
  });
}

/** Must run before any library is loaded. Writing to disk happens later, on its own. */
function keepSnapshot(pyodide, store, name) {
  let bytes;
  try {
    pyodide.runPython(SNAPSHOT_IMPORTS);
    bytes = pyodide.makeMemorySnapshot();
  } catch (error) {
    console.warn("No snapshot of Python could be made: later visits start more slowly.", error);
    return;
  }
  const write = () => store.writeSnapshot(name, bytes).catch(() => {}); // full storage: the next start is just slower
  setTimeout(() => (navigator.locks ? navigator.locks.request("pyapp:snapshot", write) : write()), 1500);
}

/** A restored Python would otherwise draw the same random numbers at every visit. */
function reseed(pyodide) {
  const random = pyodide.pyimport("random");
  const seed = crypto.getRandomValues(new Uint32Array(4)).join("");
  random.seed(seed);
  random.destroy();
}

function asStartError(error) {
  if (error instanceof UserError) return error;
  return new UserError(`Python did not start: ${error?.message ?? error}`, {
    hint: "Reload the page. If it stays so, the browser may be out of memory: close other tabs.",
    action: "restart",
    fatal: true,
  });
}
