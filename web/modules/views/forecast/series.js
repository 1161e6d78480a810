/**
 * The columns of a table as series of numbers with dates: what a forecast is made of.
 *
 * @typedef {{names: string[], rows: {cells: string[], line: number}[], comma: string}} Table `rows` without the names
 * @typedef {{unit: "ms" | "month", size: number}} Step between dates
 */
import { UserError } from "../../shared/protocol.js";
import { commaOf, numberedRows } from "../../shared/tables.js";

const FEWEST = 4; // values of a series
const LOOKED_AT = 50; // rows, to know what a column holds
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const GROUPED = /^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$/; // 1,234.5
const WITH_COMMA = /^[-+]?\d+,\d+$/; // 1,5
const DATE = /^(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|[+-]00:?00)?)?)?)?$/;
const DAY = 86400000; // ms

/** The number of a cell; NaN: it is none. @param {string} cell @param {string} comma of the table */
function numberIn(cell, comma) {
  const text = cell.trim();
  if (NUMBER.test(text)) return Number(text);
  if (comma !== "," && WITH_COMMA.test(text)) return Number(text.replace(",", "."));
  return GROUPED.test(text) ? Number(text.replaceAll(",", "")) : NaN;
}

/** The moment of a cell, in ms since 1970; NaN: it is none that is known. @param {string} cell */
function dateIn(cell) {
  const found = DATE.exec(cell.trim());
  if (!found) return NaN;
  const [year, month = 1, day = 1, hour = 0, minute = 0, second = 0] = found.slice(1).map((part) => (part === undefined ? undefined : Number(part)));
  const date = new Date(Date.UTC(/** @type {number} */ (year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day) ? date.getTime() : NaN;
}

/** The table in a text. @param {string} text @returns {Table} */
export function tableIn(text) {
  const comma = commaOf(text);
  const rows = numberedRows(text, comma);
  if (!rows.length) throw new UserError("There are no numbers yet.", { hint: "Write or paste a table, drop a CSV file, or take a sample." });
  const [{ cells }] = rows;
  const headless = cells.every((cell) => !Number.isNaN(numberIn(cell, comma)) || !Number.isNaN(dateIn(cell)));
  const names = cells.map((cell, i) => (headless ? String(i + 1) : cell.trim() || String(i + 1)));
  return { names, rows: headless ? rows : rows.slice(1), comma };
}

/** The places of the columns with numbers, and of the one with dates (-1: none). @param {Table} table */
export function columnsOf({ names, rows, comma }) {
  const last = rows.slice(-LOOKED_AT);
  const share = (/** @type {number} */ place, /** @type {(cell: string) => number} */ read) =>
    last.filter(({ cells }) => !Number.isNaN(read(cells[place] ?? ""))).length / Math.max(last.length, 1);
  const places = names.map((_, place) => place);
  const dates = places.find((place) => share(place, dateIn) === 1 && (share(place, (cell) => numberIn(cell, comma)) < 1 || (place === 0 && names.length > 1 && years(last, place)))) ?? -1;
  return { numbers: places.filter((place) => place !== dates && share(place, (cell) => numberIn(cell, comma)) > 0.5), dates };
}

/** Whether the numbers of a column are years, one after the other. @param {{cells: string[]}[]} rows @param {number} place */
const years = (rows, place) => rows.length > 1 && rows.every(({ cells }, i) => i === 0 || Number(cells[place]) - Number(rows[i - 1].cells[place]) === 1);

/**
 * The values of a column. @param {Table} table @param {number} place @param {number} longest so many of the last ones
 * @returns {number[]} @throws {UserError} for a gap, a text, too few
 */
export function valuesOf({ names, rows, comma }, place, longest) {
  const where = (/** @type {number} */ line) => `line ${line.toLocaleString("en")}, column “${names[place]}”`;
  const values = rows.slice(-longest).map(({ cells, line }) => {
    const cell = (cells[place] ?? "").trim();
    const value = numberIn(cell, comma);
    if (!cell) throw new UserError("A value is missing.", { where: where(line), hint: "Fill the gap, or delete the lines up to it." });
    if (Number.isNaN(value)) throw new UserError(`“${cell.slice(0, 40)}” is not a number.`, { where: where(line), hint: "Correct it, or choose another column." });
    return value;
  });
  if (values.length < FEWEST) {
    throw new UserError(`The series is too short: it has ${values.length} ${values.length === 1 ? "value" : "values"}.`, { where: `column “${names[place]}”`, hint: `Give at least ${FEWEST}, better a hundred or more, the newest last.` });
  }
  return values;
}

/**
 * The dates of a column, and the step between them. @param {Table} table @param {number} place @param {number} longest
 * @returns {{dates: number[], step: Step | null, turned: boolean}} `step` null: they are not at equal distances; `turned`: the newest one came first
 */
export function datesOf({ rows }, place, longest) {
  const dates = rows.slice(-longest).map(({ cells }) => dateIn(cells[place] ?? ""));
  const rises = dates.every((date, i) => i === 0 || date > dates[i - 1]);
  const turned = dates.length > 1 && dates.every((date, i) => i === 0 || date < dates[i - 1]);
  return { dates, step: rises ? stepOf(dates) : null, turned };
}

/** @param {number[]} dates that rise @returns {Step | null} */
function stepOf(dates) {
  const months = dates.map((date) => new Date(date).getUTCFullYear() * 12 + new Date(date).getUTCMonth());
  const [first] = dates;
  const sameDay = dates.every((date) => new Date(date).getUTCDate() === new Date(first).getUTCDate() && date % DAY === first % DAY);
  const equal = (/** @type {number[]} */ all) => all.every((one, i) => i < 2 || one - all[i - 1] === all[1] - all[0]);
  if (sameDay && months[1] > months[0] && equal(months)) return { unit: "month", size: months[1] - months[0] };
  return dates.length > 1 && equal(dates) ? { unit: "ms", size: dates[1] - dates[0] } : null;
}

/** The moment some steps after another one. @param {number} date @param {Step} step @param {number} count */
export function later(date, { unit, size }, count) {
  if (unit === "ms") return date + size * count;
  const from = new Date(date);
  return Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + size * count, from.getUTCDate(), from.getUTCHours(), from.getUTCMinutes(), from.getUTCSeconds());
}

/** A moment as it stands in tables: of years and months without a day, of days without the time. @param {number} date @param {Step} step */
export function dateText(date, { unit, size }) {
  const text = new Date(date).toISOString();
  if (unit === "month") return text.endsWith("-01T00:00:00.000Z") ? (size % 12 === 0 && text.slice(5, 7) === "01" ? text.slice(0, 4) : text.slice(0, 7)) : text.slice(0, 10);
  return size % DAY === 0 && date % DAY === 0 ? text.slice(0, 10) : text.slice(0, size % 60000 ? 19 : 16).replace("T", " ");
}
