/**
 * The native library that Python loads from our wheel, compiled while Python starts, from a file of its own: what is
 * compiled as it comes from the network the browser keeps, as machine code, for the next visit.
 *
 * @typedef {{module: WebAssembly.Module, size: number}} Kernels
 */
import { bestInstructionSet } from "../shared/features.js";
import { siteUrl } from "../shared/site.js";

/**
 * @param {Record<string, number>} [sizes] by the files' names, in bytes
 * @returns {Promise<Kernels | null>} null: Python compiles it itself
 */
export async function compileKernels(sizes = {}) {
  const name = `libpyapp_${bestInstructionSet()}.wasm`;
  try {
    // A response that was cloned, to learn its size, is not kept as machine code.
    return { module: await WebAssembly.compileStreaming(fetch(siteUrl(`pyodide/${name}`))), size: sizes[name] };
  } catch {
    return null; // not there, or a host that does not call it application/wasm
  }
}

/**
 * Runs `work`, in which a library of this size is not compiled again. Python compares the library with its wheel.
 * @param {Kernels | null} kernels @param {() => T} work @returns {T} @template T
 */
export function withCompiled(kernels, work) {
  const original = WebAssembly.Module;
  const construct = (target, [bytes, ...rest]) =>
    bytes.byteLength === kernels?.size ? kernels.module : new target(bytes, ...rest);
  WebAssembly.Module = new Proxy(original, { construct });
  try {
    return work();
  } finally {
    WebAssembly.Module = original;
  }
}
