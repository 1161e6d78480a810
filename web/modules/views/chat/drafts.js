/**
 * Texts that are being written, in localStorage, which is written at once.
 */
const DRAFTS = "pyapp.chat-drafts";

/** The texts, by the place where they are written. */
export const drafts = {
  /** @returns {Record<string, string>} */
  all() {
    try {
      const value = JSON.parse(localStorage.getItem(DRAFTS) ?? "{}");
      return value !== null && typeof value === "object" ? value : {};
    } catch {
      return {};
    }
  },
  /** @param {string} place @returns {string} */
  get(place) {
    const draft = this.all()[place];
    return typeof draft === "string" ? draft : "";
  },
  /** @param {string} place @param {string} text "" forgets it @returns {boolean} whether it is kept */
  set(place, text) {
    const { [place]: _, ...others } = this.all();
    try {
      localStorage.setItem(DRAFTS, JSON.stringify(text ? { ...others, [place]: text } : others));
      return true;
    } catch {
      return false; // no storage, or full
    }
  },
};
