/**
 * The graphics card, by WebGPU: buffers, programs and their starts. Python's device "webgpu"
 * (pyapp/engine/devices/webgpu.py) decides what they are; this file is fetched when that device is first asked for.
 *
 * Functions that Python calls for every kernel lie in Pyodide's table. What must wait (new buffers, reading) is a promise.
 */
import { UserError, eventFromError } from "../shared/protocol.js";

const PARAMETERS = 256; // bytes of one start's numbers: a launch record, and the alignment that WebGPU wants
const START = 4 + PARAMETERS / 4; // words of a start: program with its memory, groups in x, y, z, then the numbers
const SLOTS = 256; // starts that wait to be sent together
const SENT_AT = 32; // starts after which the card begins
const STATUS = 16; // bytes that kernels report errors in
const MOST_REMEMBERED = 128; // programs
const SAVED_AFTER = 1000; // ms from a new program until it is remembered: others follow
const KEPT_STAGING = 1 << 20; // bytes of the buffer for reading that is kept

/**
 * Opens the browser's graphics card. @param {any} module Pyodide's
 * @returns {Promise<GraphicsCard | string>} in words why there is none
 */
export async function openGraphicsCard(module) {
  const gpu = /** @type {any} */ (globalThis.navigator)?.gpu;
  if (!gpu) return globalThis.isSecureContext ? "this browser has no WebGPU" : "browsers have WebGPU only for pages from https: or localhost";
  try {
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) return "this browser has WebGPU, but no graphics card that it trusts";
    const wanted = ["maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage"];
    const requiredLimits = Object.fromEntries(wanted.map((name) => [name, adapter.limits[name]]));
    return new GraphicsCard(module, await adapter.requestDevice({ requiredLimits }), adapter.info, gpu.wgslLanguageFeatures);
  } catch (error) {
    return `the browser refuses its graphics card: ${/** @type {any} */ (error)?.message ?? error}`;
  }
}

class GraphicsCard {
  /** @param {any} module @param {any} device @param {any} info @param {Set<string> | undefined} features of WGSL */
  constructor(module, device, info, features) {
    this.module = module;
    this.device = device;
    this.name = [info?.vendor, info?.architecture, info?.description].filter(Boolean).join(" ") || "unnamed";
    /** The most bytes of a buffer that a kernel can read. */
    this.largest = Math.min(device.limits.maxBufferSize, device.limits.maxStorageBufferBindingSize);
    /** The most buffers that a kernel can read and write, beside its status. */
    this.most = device.limits.maxStorageBuffersPerShaderStage - 1;
    this.dotProducts = features?.has("packed_4x8_integer_dot_product") ?? false;
    this.lost = ""; // why nothing runs here any more
    this.problem = ""; // what the browser refused
    this.full = false; // whether there was no memory for the last block that Python asked for
    device.lost.then((/** @type {any} */ why) => (this.lost = why.message || why.reason || "no reason was given"));
    device.addEventListener("uncapturederror", (/** @type {any} */ event) => (this.problem ||= event.error.message));
    /** @type {Map<number, any>} */
    this.buffers = new Map();
    /** @type {Map<number, Graph>} */
    this.graphs = new Map();
    /** @type {Program[]} */
    this.programs = [];
    /** Programs with their memory. @type {{program: Program, memory: any}[]} */
    this.calls = [];
    /** Until the programs are there that are compiled ahead: what would start them before compiles them again. @type {Promise<any>} */
    this.compiled = Promise.resolve();
    /** How many programs were compiled when they had to run. */
    this.late = 0;
    /** Names of the programs that this visit has used; null: they are not remembered. @type {Set<string> | null} */
    this.names = null;
    /** Those of earlier visits. @type {string[]} */
    this.earlier = [];
    /** @type {Map<string, any>} */
    this.layouts = new Map();
    this.next = 1;
    this.starts = 0; // how many there were
    this.submissions = 0;
    const { UNIFORM, STORAGE, COPY_DST, COPY_SRC } = USAGE;
    this.numbers = new Uint8Array(SLOTS * PARAMETERS);
    this.slots = device.createBuffer({ size: SLOTS * PARAMETERS, usage: UNIFORM | COPY_DST });
    this.status = device.createBuffer({ size: STATUS, usage: STORAGE | COPY_DST | COPY_SRC });
    this.common = device.createBindGroupLayout({
      entries: [
        { binding: 0, visibility: COMPUTE, buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: PARAMETERS } },
        { binding: 1, visibility: COMPUTE, buffer: { type: "storage" } },
      ],
    });
    this.slotGroup = this.#parameters(this.slots);
    /** @type {any} */
    this.staging = null; // a buffer for reading that is free
    /** What waits to be sent. @type {any} */
    this.encoder = null;
    /** Its last part, as long as that is open. @type {any} */
    this.pass = null;
    this.used = 0; // slots of what waits
    const add = (/** @type {(...values: number[]) => void} */ work, /** @type {string} */ signature) => {
      const guarded = (/** @type {number[]} */ ...values) => {
        try {
          work(...values.map((value) => value >>> 0));
          return this.lost || this.problem ? 1 : 0;
        } catch (error) {
          this.problem ||= String(/** @type {any} */ (error)?.message ?? error);
          return 1;
        }
      };
      return module.addFunction(guarded, signature);
    };
    /** Places in Pyodide's table of functions, which return 0, or 1 where `lost` or `problem` tells what is wrong. */
    this.functions = {
      run: add((at, count) => this.#run(at, count), "iii"),
      replay: add((graph) => this.#replay(graph), "ii"),
      write: add((buffer, to, from, count) => this.#write(buffer, to, from, count), "iiiii"),
    };
  }

  /** What the page is told of an error of Python while models compute here. @param {any} event @returns {object} */
  told(event) {
    if (this.lost) {
      return eventFromError(new UserError("The graphics card is not there any more.", {
        where: this.lost,
        hint: "The engine is being restarted, and computes on the processor's threads. Nothing of yours is lost. Try again.",
        fatal: true,
        action: "restart",
      }));
    }
    if (!this.full) return event;
    return eventFromError(new UserError("The model does not fit the memory of the graphics card.", {
      where: this.name,
      hint: "Let it compute on the processor's threads, take a smaller model, or a shorter context.",
      action: "threads",
    }));
  }

  // ---- memory

  /** @param {number} size bytes, a multiple of 256 @returns {Promise<number>} its number; 0: there is no memory left, -1: `lost` or `problem` tells what is wrong */
  allocate(size) {
    return this.#guarded(async () => {
      const [number, refused] = this.#newBuffer(size);
      if (!(await refused)) return number;
      this.buffers.delete(number);
      return 0;
    });
  }

  /** As allocate, at once: that there is no memory left is what `problem` tells later. @param {number} size @returns {number} */
  allocateNow(size) {
    const [number, refused] = this.#newBuffer(size);
    refused.then((/** @type {any} */ error) => {
      if (!error) return;
      this.full = true;
      this.problem ||= error.message;
    }, () => {}); // the card is lost
    return number;
  }

  /** @param {number} size @returns {[number, Promise<any>]} its number, and what is wrong with it */
  #newBuffer(size) {
    this.device.pushErrorScope("out-of-memory");
    this.buffers.set(this.next, this.device.createBuffer({ size, usage: USAGE.STORAGE | USAGE.COPY_DST | USAGE.COPY_SRC }));
    return [this.next++, this.device.popErrorScope()];
  }

  /** What `work` gives; -1 where something is wrong. @param {() => Promise<number>} work @returns {Promise<number>} */
  async #guarded(work) {
    try {
      const found = await work();
      return this.lost || this.problem ? -1 : found;
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve)); // browsers end what waits for a lost card before they say that it is lost
      if (!this.lost) this.problem ||= String(/** @type {any} */ (error)?.message ?? error);
      return -1;
    }
  }

  /** @param {number} number of a buffer that nothing uses any more @param {number[]} calls the calls with it */
  drop(number, ...calls) {
    this.#send();
    for (const call of calls) delete this.calls[call];
    this.buffers.get(number).destroy();
    this.buffers.delete(number);
  }

  /** Writes whole words. @param {number} buffer @param {number} to @param {number} from in Pyodide's memory @param {number} count bytes */
  #write(buffer, to, from, count) {
    this.#send();
    this.device.queue.writeBuffer(this.buffers.get(buffer), to, this.module.HEAPU8, from, count);
  }

  /**
   * Copies whole words to Pyodide's memory, and what kernels have reported.
   * @param {number} buffer @param {number} from @param {number} to in Pyodide's memory @param {number} count bytes
   * @returns {Promise<number>} the status, which is 0 afterwards; -1 where `lost` or `problem` tells what is wrong
   */
  read(buffer, from, to, count) {
    return this.#guarded(() => this.#read(buffer, from, to, count));
  }

  /** @param {number} buffer @param {number} from @param {number} to @param {number} count @returns {Promise<number>} */
  async #read(buffer, from, to, count) {
    const size = count + STATUS;
    const staging = this.#staging(size);
    const encoder = this.#encoder();
    if (count) encoder.copyBufferToBuffer(this.buffers.get(buffer), from, staging, 0, count);
    encoder.copyBufferToBuffer(this.status, 0, staging, count, STATUS);
    this.#send();
    await staging.mapAsync(1, 0, size); // GPUMapMode.READ
    const found = new Uint8Array(staging.getMappedRange(0, size));
    this.module.HEAPU8.set(found.subarray(0, count), to);
    const [status] = new Uint32Array(found.slice(count).buffer);
    staging.unmap();
    if (staging.size <= KEPT_STAGING && this.staging === null) this.staging = staging;
    else staging.destroy();
    if (status) this.device.queue.writeBuffer(this.status, 0, new Uint32Array(STATUS / 4));
    return status;
  }

  /** @param {number} size */
  #staging(size) {
    const kept = this.staging;
    this.staging = null;
    if (kept?.size >= size) return kept;
    kept?.destroy();
    return this.device.createBuffer({ size: 2 ** Math.ceil(Math.log2(Math.max(size, 4096))), usage: USAGE.COPY_DST | USAGE.MAP_READ });
  }

  // ---- programs

  /**
   * Adds a program, which is compiled when it first runs. @param {string} code WGSL @param {string} memory for each buffer "w" where
   * it is written, else "r" @param {string} name by which it is remembered @returns {number} its number
   */
  compile(code, memory, name) {
    let layout = this.layouts.get(memory);
    if (!layout) {
      const entries = [...memory].map((kind, binding) => ({ binding, visibility: COMPUTE, buffer: { type: kind === "w" ? "storage" : "read-only-storage" } }));
      layout = this.device.createBindGroupLayout({ entries });
      this.layouts.set(memory, layout);
    }
    return this.programs.push({ code, layout, name, pipeline: null }) - 1;
  }

  /** @param {Program} program */
  #described({ code, layout }) {
    return {
      layout: this.device.createPipelineLayout({ bindGroupLayouts: [this.common, layout] }),
      compute: { module: this.device.createShaderModule({ code }), entryPoint: "main" },
    };
  }

  /** Compiles a program while other work goes on. @param {number} number */
  compileAhead(number) {
    const program = this.programs[number];
    this.device.pushErrorScope("validation"); // what is wrong is told when it runs
    const made = this.device.createComputePipelineAsync(this.#described(program));
    this.device.popErrorScope().catch(() => {});
    const kept = made.then((/** @type {any} */ pipeline) => (program.pipeline ??= pipeline), () => {});
    this.compiled = Promise.all([this.compiled, kept]);
  }

  /** @param {Program} program that has to run now */
  #compileNow(program) {
    this.late += 1;
    return (program.pipeline = this.device.createComputePipeline(this.#described(program)));
  }

  /** Remembers from now on which programs are used. @returns {Promise<string[]>} the names of those that earlier visits have used */
  async remember() {
    this.names = new Set();
    const found = await programsKept((kept) => kept.get("used"), "readonly").catch(() => null); // refused: nothing is remembered
    this.earlier = Array.isArray(found) ? found : [];
    return this.earlier;
  }

  /** @param {string} name of a program that is used */
  #note(name) {
    if (!this.names || this.names.has(name)) return;
    this.names.add(name);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVED_AFTER);
  }

  /** Stores the names: those of this visit, then earlier ones. */
  async save() {
    const names = [...new Set([...(this.names ?? []), ...this.earlier])].slice(0, MOST_REMEMBERED);
    await programsKept((kept) => kept.put(names, "used"), "readwrite").catch(() => {});
  }

  /** @param {number} program @param {number[]} buffers their numbers @returns {number} the number of the program with this memory */
  bind(program, ...buffers) {
    const { layout, name } = this.programs[program];
    this.#note(name);
    const entries = buffers.map((number, binding) => ({ binding, resource: { buffer: this.buffers.get(number) } }));
    return this.calls.push({ program: this.programs[program], memory: this.device.createBindGroup({ layout, entries }) }) - 1;
  }

  /** @param {any} buffer of numbers */
  #parameters(buffer) {
    const entries = [
      { binding: 0, resource: { buffer, size: PARAMETERS } },
      { binding: 1, resource: { buffer: this.status } },
    ];
    return this.device.createBindGroup({ layout: this.common, entries });
  }

  // ---- starts

  #encoder() {
    this.pass?.end();
    this.pass = null;
    this.encoder ??= this.device.createCommandEncoder();
    return this.encoder;
  }

  #pass() {
    this.encoder ??= this.device.createCommandEncoder();
    this.pass ??= this.encoder.beginComputePass();
    return this.pass;
  }

  /** Gives the card what waits. */
  #send() {
    if (this.encoder === null) return;
    if (this.used) this.device.queue.writeBuffer(this.slots, 0, this.numbers, 0, this.used * PARAMETERS);
    this.device.queue.submit([this.#encoder().finish()]);
    this.submissions += 1;
    this.encoder = null;
    this.used = 0;
  }

  /** @param {any} group of the numbers @param {number} offset @param {Int32Array} start @param {number} at where it begins */
  #start(group, offset, start, at) {
    const pass = this.#pass();
    const { program, memory } = this.calls[start[at]];
    pass.setPipeline(program.pipeline ?? this.#compileNow(program));
    pass.setBindGroup(0, group, [offset]);
    pass.setBindGroup(1, memory);
    pass.dispatchWorkgroups(start[at + 1], start[at + 2], start[at + 3]);
    this.starts += 1;
  }

  /** @param {number} at in Pyodide's memory @param {number} count */
  #run(at, count) {
    const words = new Int32Array(this.module.HEAPU8.slice(at, at + count * START * 4).buffer);
    const bytes = new Uint8Array(words.buffer);
    for (let i = 0; i < count; i += 1) {
      if (this.used === SLOTS) this.#send();
      const offset = this.used * PARAMETERS;
      const from = (i * START + 4) * 4;
      this.numbers.set(bytes.subarray(from, from + PARAMETERS), offset);
      this.used += 1;
      this.#start(this.slotGroup, offset, words, i * START);
    }
    if (this.used >= SENT_AT) this.#send();
  }

  /** Keeps starts, to run them again. @param {number} at in Pyodide's memory @param {number} count @returns {number} their number */
  keep(at, count) {
    const words = new Int32Array(this.module.HEAPU8.slice(at, at + count * START * 4).buffer);
    const buffer = this.device.createBuffer({ size: Math.max(count, 1) * PARAMETERS, usage: USAGE.UNIFORM | USAGE.COPY_DST });
    for (let i = 0; i < count; i += 1) this.device.queue.writeBuffer(buffer, i * PARAMETERS, words, i * START + 4, PARAMETERS / 4);
    this.graphs.set(this.next, { words, count, buffer, group: this.#parameters(buffer) });
    return this.next++;
  }

  /** @param {number} number of what `keep` has kept */
  forget(number) {
    this.#send();
    this.graphs.get(number)?.buffer.destroy();
    this.graphs.delete(number);
  }

  /** @param {number} number */
  #replay(number) {
    const { words, count, group } = /** @type {Graph} */ (this.graphs.get(number));
    for (let i = 0; i < count; i += 1) this.#start(group, i * PARAMETERS, words, i * START);
    if (count >= SENT_AT) this.#send(); // a short one goes with what follows, which is often the read of its result
  }
}

/**
 * Asks the browser's database for what is remembered. @param {(kept: IDBObjectStore) => IDBRequest} work @param {IDBTransactionMode} mode
 * @returns {Promise<any>}
 */
function programsKept(work, mode) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("pyapp-graphics-card", 1);
    opening.onupgradeneeded = () => void opening.result.createObjectStore("programs");
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction("programs", mode);
      const request = work(transaction.objectStore("programs"));
      transaction.oncomplete = () => (database.close(), resolve(request.result));
      transaction.onerror = transaction.onabort = () => (database.close(), reject(transaction.error));
    };
  });
}

/** @typedef {{code: string, layout: any, name: string, pipeline: any}} Program `pipeline` null: not compiled yet */
/** @typedef {{words: Int32Array, count: number, buffer: any, group: any}} Graph */

const COMPUTE = 4; // GPUShaderStage.COMPUTE
const USAGE = { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, UNIFORM: 64, STORAGE: 128 }; // GPUBufferUsage
