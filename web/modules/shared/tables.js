/**
 * Tables in texts: CSV and its relatives, in RFC 4180's form.
 */
const COMMAS = [",", ";", "\t"]; // between the cells of tables; the first line has most of the one that counts
const [BREAK, QUOTE] = [10, 34]; // codes of characters

/** What stands between the cells of a table. @param {string} text */
export function commaOf(text) {
  const [line] = text.trimStart().split("\n", 1);
  const count = (/** @type {string} */ mark) => line.split(mark).length;
  return COMMAS.reduce((most, mark) => (count(mark) > count(most) ? mark : most));
}

/**
 * The rows of a table one after the other; those without a letter are left out.
 * @param {string} text @param {string} comma
 * @returns {Generator<{cells: string[], line: number, end: number}>} `line`: in which the row begins, from 1; `end`: where in the text it ends
 */
export function* rowsOf(text, comma) {
  const [mark, { length }] = [comma.charCodeAt(0), text];
  /** @type {string[]} */
  let cells = [];
  let [at, line, begun] = [0, 1, 1];
  for (;;) {
    let cell = "";
    if (text.charCodeAt(at) === QUOTE) [cell, at] = quotedCell(text, at + 1);
    const from = at;
    let code = text.charCodeAt(at);
    while (at < length && code !== mark && code !== BREAK) code = text.charCodeAt((at += 1));
    if (cell) for (let found = cell.indexOf("\n"); found >= 0; found = cell.indexOf("\n", found + 1)) line += 1;
    cells.push(cell ? cell + text.slice(from, at) : text.slice(from, at));
    at += 1;
    if (at <= length && code === mark) continue;
    if (cells.some(Boolean)) yield { cells, line: begun, end: at };
    if (at > length) return;
    cells = [];
    begun = line += 1;
  }
}

/** What is in quotation marks, of which two stand for one, and where it ends. @param {string} text @param {number} at @returns {[string, number]} */
function quotedCell(text, at) {
  let cell = "";
  for (;;) {
    const end = text.indexOf('"', at);
    if (end < 0) return [cell + text.slice(at), text.length];
    if (text.charCodeAt(end + 1) !== QUOTE) return [cell + text.slice(at, end), end + 1];
    cell += text.slice(at, end + 1);
    at = end + 2;
  }
}

/** All rows of a table. @param {string} text @param {string} comma */
export const numberedRows = (text, comma) => [...rowsOf(text, comma)];

/** A cell of a table in RFC 4180's form. @param {string | number} value */
export const csvCell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
