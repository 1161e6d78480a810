/**
 * Texts that are being written. They are stored at once: for this tab, which shows them again when it is reloaded, and for the
 * browser, where a new tab finds them.
 */
const DRAFTS = "pyapp.chat-drafts";
const PLACES = [() => sessionStorage, () => localStorage]; // a browser may refuse even to name them

/** @param {() => Storage} storage @returns {Record<string, unknown>} the texts, by the place where they are written */
function readFrom(storage) {
  try {
    const value = JSON.parse(storage().getItem(DRAFTS) ?? "{}");
    return value !== null && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}

/** @param {() => Storage} storage @param {string} place @param {string | undefined} text @returns {boolean} whether it is kept */
function writeTo(storage, place, text) {
  try {
    storage().setItem(DRAFTS, JSON.stringify({ ...readFrom(storage), [place]: text }));
    return true;
  } catch {
    return false; // no storage, or full
  }
}

export const drafts = {
  /** @param {string} place @returns {string} */
  get(place) {
    const [own, shared] = PLACES.map(readFrom);
    const draft = own[place] ?? shared[place]; // another tab may have written the shared one
    return typeof draft === "string" ? draft : "";
  },
  /** Whether what `get` returns was written by this tab. @param {string} place */
  isOwn: (place) => readFrom(PLACES[0])[place] !== undefined,
  /** @param {string} place @param {string} text "" forgets it @returns {boolean} whether it survives the tab */
  set(place, text) {
    const [tab, browser] = PLACES;
    writeTo(tab, place, text);
    return writeTo(browser, place, text || undefined);
  },
};
