/**
 * Work that one tab does at a time.
 */
import { nameOf } from "./protocol.js";

/**
 * Runs `work` under a lock of this name. A browser without locks, or one that refuses them together with all storage, runs it at once.
 * @template T @param {string} name @param {(lock: Lock | null) => Promise<T>} work `lock`: null with `ifAvailable`, while another tab has it
 * @param {LockOptions} [options] @returns {Promise<T>}
 */
export async function locked(name, work, options = {}) {
  let begun = false;
  const begin = (/** @type {Lock | null} */ lock) => ((begun = true), work(lock));
  const alone = { name, mode: /** @type {const} */ ("exclusive") };
  try {
    return await (navigator.locks ? navigator.locks.request(name, options, begin) : begin(alone));
  } catch (error) {
    if (begun || nameOf(error) !== "SecurityError") throw error;
    return begin(alone);
  }
}
