/**
 * The page's threads: a second instance of the kernels (native/pool_wasm.c) over memory that workers share. This worker
 * runs the records and computes itself; helpers (pool-helper.js) take shares. Python's device "pool"
 * (pyapp/engine/devices/pool.py) calls the functions that `attach` puts into Pyodide's table.
 *
 * WebAssembly errors in Python's stack would end Python, so none passes `attach`'s functions: they return a status.
 */
import { siteUrl } from "../shared/site.js";
import { bestInstructionSet } from "../shared/features.js";
import { moduleWorker } from "../shared/module-worker.js";
import { mayShare } from "../shared/threads.js";
import { compiled } from "./compile.js";
import { Chooser } from "./pool-chooser.js";

const PAGE = 65536; // bytes
const LIMITS = [65536, 32768, 16384]; // pages: 4, 2, 1 GiB. Small devices refuse the larger
const STACK = 1 << 20; // bytes of a helper's stack, as of this worker's
const STAGING = 1 << 16; // bytes for the records of one call
const LOST = 255; // as in native/pool_wasm.c
const SLICES = 8; // of the records of a run that tries to share: after each, it is asked whether the rest is worth it
const WORTH_SHARING = 1000; // work of a single record, in thousands of multiply-adds, below which helpers are not woken

/**
 * Opens the pool while Python starts. @returns {Promise<Pool | null>} null without shared memory, with one thread, or if a
 * part is missing or refused: the page then computes on one thread, and `problem` is told why
 * @param {number} threads @param {(problem: unknown) => void} [onProblem]
 * @param {"relaxed" | "simd" | null} [kernels] null: this browser runs neither
 */
export async function openPool(threads, onProblem = (problem) => console.warn("The page computes on one thread.", problem), kernels = bestInstructionSet()) {
  if (threads < 2 || !kernels || !mayShare()) return null;
  try {
    const program = await fetchProgram(siteUrl(`pool_${kernels}.wasm`));
    const { memory, maximum } = makeMemory();
    const instance = await WebAssembly.instantiate(program, { env: { memory } });
    return new Pool(program, memory, maximum * PAGE, instance.exports, threads);
  } catch (problem) {
    onProblem(problem);
    return null;
  }
}

/** @param {string} url @returns {Promise<WebAssembly.Module>} */
async function fetchProgram(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return compiled(response);
}

/** Small at first; it grows to the largest size that the device allows. */
function makeMemory() {
  let refused;
  for (const maximum of LIMITS) {
    try {
      return { memory: new WebAssembly.Memory({ initial: 64, maximum, shared: true }), maximum };
    } catch (error) {
      refused = error;
    }
  }
  throw refused;
}

export class Pool {
  /**
   * @param {WebAssembly.Module} program @param {WebAssembly.Memory} memory @param {number} most bytes that it may have
   * @param {Record<string, any>} exports @param {number} threads
   */
  constructor(program, memory, most, exports, threads) {
    this.memory = memory;
    this.most = most;
    this.exports = exports;
    this.threads = threads;
    this.bytes = new Uint8Array(memory.buffer);
    /** Why nothing runs here any more. @type {string | null} */
    this.lost = null;
    this.chooser = new Chooser(() => performance.now());
    /** Bytes of a record, which Python tells. */
    this.recordBytes = 0;
    const stacks = align(exports.__heap_base.value);
    this.staging = stacks + STACK * (threads - 1);
    /** The first byte that Python's allocator may use. */
    this.base = this.staging + STAGING;
    if (!this.grow(this.base)) throw new RangeError("there is no memory for the helpers' stacks");
    this.program = program;
    this.stacks = stacks;
    /** @type {Worker[]} */
    this.helpers = [];
  }

  #start() {
    const { program, memory, stacks } = this;
    for (let i = 1; i < this.threads; i += 1) {
      const helper = moduleWorker("modules/worker/pool-helper.js", `pyapp helper ${i}`);
      helper.onmessage = ({ data }) => this.#lose(data.problem);
      helper.onerror = (event) => {
        event.preventDefault(); // it did not load: the others compute
        console.warn("A helper of the engine did not start.", event.message);
      };
      helper.postMessage({ program, memory, stack: stacks + STACK * i });
      this.helpers.push(helper);
    }
  }

  /** Bytes of the memory, now. */
  get size() {
    return this.bytes.length;
  }

  get signature() {
    return this.#text(this.exports.pyapp_signature());
  }

  get instructionSet() {
    return this.#text(this.exports.pyapp_instruction_set());
  }

  /** @param {number} address */
  #text(address) {
    return new TextDecoder().decode(this.bytes.slice(address, this.bytes.indexOf(0, address)));
  }

  /** Makes the memory at least `size` bytes long. @param {number} size @returns {boolean} whether it is */
  grow(size) {
    const pages = Math.ceil((size - this.bytes.length) / PAGE);
    try {
      if (pages > 0) this.memory.grow(pages);
    } catch {
      return false; // the device, or the maximum, allows no more
    }
    this.bytes = new Uint8Array(this.memory.buffer);
    return this.bytes.length >= size;
  }

  /**
   * Puts functions into Pyodide's table, and starts the helpers: until they run, and if one does not start, the others
   * compute. Each function returns 0, or a status: LOST, or that of the kernels' `pool_run`. `functions` has their places.
   * @param {any} module Pyodide's
   */
  attach(module) {
    const guarded = (/** @type {(...values: number[]) => number | void} */ work) => (/** @type {number} */ first, /** @type {number} */ second, /** @type {number} */ third) => {
      if (this.lost !== null) return LOST;
      try {
        return work(first >>> 0, second >>> 0, third >>> 0) ?? 0;
      } catch (error) {
        this.#lose(error);
        return LOST;
      }
    };
    const host = (/** @type {number} */ from, /** @type {number} */ count) => module.HEAPU8.subarray(from, from + count);
    const add = (/** @type {(...values: number[]) => number | void} */ work, /** @type {string} */ signature) => module.addFunction(guarded(work), signature);
    this.functions = {
      write: add((to, from, count) => this.bytes.set(host(from, count), to), "iiii"),
      read: add((to, from, count) => host(to, count).set(this.bytes.subarray(from, from + count)), "iiii"),
      copy: add((to, from, count) => void this.bytes.copyWithin(to, from, from + count), "iiii"),
      /** One record that lies in Pyodide's memory. */
      run: add((from, count) => {
        const record = host(from, count);
        this.bytes.set(record, this.staging);
        const [kernel, work] = new Int32Array(record.buffer, from, 2);
        if (work < WORTH_SHARING) return this.exports.pool_run(this.staging, 1, 1);
        return this.#timed(kernel + work * 4096, this.staging, 1);
      }, "iii"),
      /** Records that lie in this memory, run again and again. */
      replay: add((records, count) => this.#timed(-records, records, count), "iii"),
    };
    this.#start();
  }

  /** @param {number} key of what runs, for its times @param {number} records @param {number} count */
  #timed(key, records, count) {
    const status = this.chooser.run(key, (sharing, losing) => (losing ? this.#tried(records, count, losing) : this.exports.pool_run(records, count, sharing ? this.threads : 1)));
    if ((status & 0xff) === LOST) this.#lose("a helper did not finish its share");
    return status;
  }

  /** A run that tries to share: once that has lost, one worker does the rest. @param {number} records @param {number} count @param {(done: number) => boolean} losing */
  #tried(records, count, losing) {
    const size = this.recordBytes ? Math.ceil(count / SLICES) : count;
    let workers = this.threads;
    for (let first = 0; first < count; first += size) {
      const many = Math.min(size, count - first);
      const status = this.exports.pool_run(records + first * this.recordBytes, many, workers);
      if (status) return status + (first << 8); // the number of the failed record stands above its code
      if (workers > 1 && first + many < count && losing((first + many) / count)) workers = 1;
    }
    return 0;
  }

  /** The records at an address are new. @param {number} records */
  forget(records) {
    this.chooser.forget(-records);
  }

  /** @param {any} problem an error, or a text */
  #lose(problem) {
    this.lost ??= String(problem?.message ?? problem);
    this.exports.pool_lose();
    this.close();
  }

  close() {
    for (const helper of this.helpers) helper.terminate();
    this.helpers = [];
  }
}

/** @param {number} address @returns {number} the next multiple of a page */
const align = (address) => Math.ceil(address / PAGE) * PAGE;
