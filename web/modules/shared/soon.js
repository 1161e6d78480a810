/**
 * What the browser stores, within seconds: it may be long in handing it out, or never do it.
 */
const PATIENCE = 5; // seconds; reading 40 MB takes tenths of a second

/** @template T @param {Promise<T>} promise @returns {Promise<T>} rejected where it takes too long */
export function soon(promise) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error("the browser's storage does not answer")), PATIENCE * 1000));
  return Promise.race([promise, late]);
}
