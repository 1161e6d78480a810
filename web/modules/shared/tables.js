/**
 * Tables in texts: CSV and its relatives, in RFC 4180's form.
 */
const COMMAS = [",", ";", "\t"]; // between the cells of tables; the first line has most of the one that counts

/** What stands between the cells of a table. @param {string} text */
export function commaOf(text) {
  const [line] = text.trimStart().split("\n", 1);
  const count = (/** @type {string} */ mark) => line.split(mark).length;
  return COMMAS.reduce((most, mark) => (count(mark) > count(most) ? mark : most));
}

/** The cells of a table; rows without a letter are left out. @param {string} text @param {string} comma @returns {string[][]} */
export function tableRows(text, comma) {
  return numberedRows(text, comma).map(({ cells }) => cells);
}

/** As tableRows, with the number of the line in which each row begins, from 1. @param {string} text @param {string} comma @returns {{cells: string[], line: number}[]} */
export function numberedRows(text, comma) {
  /** @type {string[]} */
  let cells = [];
  const rows = [{ cells, line: 1 }];
  let cell = "";
  let quoted = false;
  let line = 1;
  const end = () => {
    cells.push(cell);
    cell = "";
  };
  for (let i = 0; i < text.length; i += 1) {
    const letter = text[i];
    if (letter === "\n") line += 1;
    if (quoted && letter === '"' && text[i + 1] === '"') {
      cell += '"';
      i += 1;
    } else if (letter === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (!quoted && letter === comma) end();
    else if (!quoted && letter === "\n") {
      end();
      rows.push({ cells: (cells = []), line });
    } else cell += letter;
  }
  end();
  return rows.filter((row) => row.cells.some(Boolean));
}

/** A cell of a table in RFC 4180's form. @param {string | number} value */
export const csvCell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
