/**
 * Numbers in sentences.
 */

const LONGEST = 60; // units of a letter with its marks, or of an emoji

/** "1 page", "1,200 pages". @param {number} number @param {string} what one of them, in the singular */
export const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

/**
 * The beginning of a text, of at most so many units of UTF-16, without a part of a letter or an emoji at its end.
 * @param {string} text @param {number} most
 */
export function beginningOf(text, most) {
  if (text.length <= most) return text;
  const first = Math.max(0, most - LONGEST);
  const { Segmenter } = Intl; // Firefox 125 and newer
  let end = 0;
  for (const { index } of Segmenter ? new Segmenter().segment(text.slice(first, most + LONGEST)) : []) if (first + index <= most) end = index;
  return end ? text.slice(0, first + end) : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "");
}

/** A line of at most so many units, cut behind a word. @param {string} line @param {number} most */
export const shortened = (line, most) => (line.length > most ? `${beginningOf(line, most).replace(/\s+\S*$/, "")}…` : line);

/** The first words of a text, in one line. @param {string} text */
export const titleOf = (text) => shortened(text.trim().replace(/\s+/g, " "), 60);

/** What follows the last slash. @param {string} path */
export const lastPart = (path) => path.slice(path.lastIndexOf("/") + 1);
