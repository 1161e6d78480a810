/**
 * How many threads models may compute on: what the page offers, and what the worker uses.
 */
export const MOST_THREADS = 8;

/** Whether this browser shares memory between the page and its workers. WebKitGTK may isolate a page, and not let it share. */
export const mayShare = () => globalThis.crossOriginIsolated === true && typeof SharedArrayBuffer === "function";

/** @param {number} count */
const within = (count) => Math.min(MOST_THREADS, Math.max(1, count));

/** All cores but one, which the page itself and other programs need. */
export const automaticThreads = () => within((navigator.hardwareConcurrency ?? 1) - 1);

/** @param {string} wish "auto", or the user's number @returns {number} threads, the engine's worker included */
export const threadsFor = (wish) => (Number(wish) >= 1 ? within(Math.floor(Number(wish))) : automaticThreads());
