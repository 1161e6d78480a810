/**
 * What a page that is being left has no time to write: IndexedDB gives up a change that is not finished then, localStorage
 * writes at once. The next page takes it from there.
 *
 * @typedef {import("./history-store.js").HistoryEntry} HistoryEntry
 * @typedef {{entry: HistoryEntry, content: any}} Left
 */
const PREFIX = "pyapp.left.";

/** Keeps an entry, if its content has a plain form and there is room. @param {HistoryEntry} entry @param {any} content */
export function leave(entry, content) {
  try {
    localStorage.setItem(PREFIX + entry.id, JSON.stringify({ entry, content }, plain));
  } catch (error) {
    console.debug(error);
  }
}

/** Forgets what was kept. @param {string} id */
export function arrive(id) {
  try {
    localStorage.removeItem(PREFIX + id);
  } catch (error) {
    console.debug(error);
  }
}

/** What earlier pages kept of a kind. @param {string} kind @returns {Left[]} */
export function leftOf(kind) {
  try {
    const names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
    const found = names.map((name) => /** @type {Left} */ (JSON.parse(localStorage.getItem(name) ?? "null")));
    return found.filter((one) => one?.entry?.kind === kind);
  } catch (error) {
    console.debug(error);
    return [];
  }
}

/** @param {string} _ @param {any} value */
function plain(_, value) {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof Blob) throw new TypeError("It has no plain form.");
  return value;
}
