/**
 * Numbers in sentences.
 */

/** "1 page", "1,200 pages". @param {number} number @param {string} what one of them, in the singular */
export const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

/** The first words of a text, in one line. @param {string} text */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 60).replace(/\s\S*$/, "")}…` : line;
}

/** What follows the last slash. @param {string} path */
export const lastPart = (path) => path.slice(path.lastIndexOf("/") + 1);
