/**
 * Numbers in sentences.
 */

/** "1 page", "1,200 pages". @param {number} number @param {string} what one of them, in the singular */
export const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
