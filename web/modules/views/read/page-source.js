/**
 * Where the pages come from that are read: pictures, by the browser's decoders, and pages of PDFs. A page is decoded when it is
 * needed, so that a long queue takes no memory.
 */
import { decodedPicture, onCanvas } from "../../pictures/decoded-picture.js";
import { UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { PdfFile, abortable } from "./pdf-file.js";

/** What is read of larger pages is a smaller copy: letters are still large in it, and phones have no more memory. */
const READ_PIXELS = 1 << 24;

/** The PDF that is open, the only one: each has a thread. @type {{file: File, pdf: PdfFile} | null} */
let open = null;
/** The end of its last use: each use waits for the one before, since another file closes this one. @type {Promise<unknown>} */
let last = Promise.resolve();
/** What the user has typed: a file is opened anew when another one was open. @type {WeakMap<File, string>} */
const passwords = new WeakMap();

/**
 * How a file is used: `ask` asks for the password of a PDF.
 * @typedef {{ask: import("./pdf-file.js").Ask, signal?: AbortSignal}} Use
 */

/**
 * What `use` finds in a PDF. @template T @param {File} file @param {Use} how @param {(pdf: PdfFile) => Promise<T> | T} use @returns {Promise<T>}
 */
async function usePdf(file, { ask, signal }, use) {
  const before = last;
  let over = () => {};
  const own = new Promise((resolve) => (over = () => resolve(undefined)));
  last = before.then(() => own);
  try {
    await abortable(before, signal);
    try {
      return await use(await openPdf(file, ask, signal));
    } catch (error) {
      if (signal?.aborted || open?.pdf.missing.length) closePdf(); // it may be busy with a page without end
      throw error;
    }
  } finally {
    over();
  }
}

/** @param {File} file @param {import("./pdf-file.js").Ask} ask @param {AbortSignal} [signal] */
async function openPdf(file, ask, signal) {
  if (open?.file === file) return open.pdf;
  closePdf();
  const pdf = await PdfFile.open(file, async (name, wrong, stopped) => {
    const known = passwords.get(file);
    if (known !== undefined && !wrong) return known;
    const password = await ask(name, wrong, stopped);
    if (password !== null) passwords.set(file, password);
    return password;
  }, signal);
  open = { file, pdf };
  return pdf;
}

/** Closes the PDF that is open. */
export function closePdf() {
  open?.pdf.close();
  open = null;
}

/** @param {{name: string, type: string}} file */
export const isPdf = ({ name, type }) => type === "application/pdf" || /\.pdf$/i.test(name);

/** How many pages a file has. @param {File} file @param {Use} use @returns {Promise<number>} */
export async function countPages(file, use) {
  if (file.size === 0) throw new UserError("This file is empty.", { where: file.name, hint: "Choose a picture or a PDF." });
  return isPdf(file) ? usePdf(file, use, (pdf) => pdf.count) : 1;
}

/**
 * A page on a canvas: upright, turned by quarters, on white, of at most READ_PIXELS.
 * @param {File} file @param {number} number of the page in a PDF, from 1 @param {number} turns quarters to the right @param {Use} use
 */
export async function drawPage(file, number, turns, use) {
  const drawn = isPdf(file) ? await usePdf(file, use, (pdf) => pdf.draw(number, READ_PIXELS, use.signal)) : await decodedPicture(file, READ_PIXELS);
  return onCanvas(drawn, READ_PIXELS, file.name, turns);
}

/**
 * The numbers of pages that a text such as "1-3, 7" names. @param {string} text empty: all @param {number} count of pages there are
 * @returns {number[]}
 */
export function pageNumbers(text, count) {
  if (!text.trim()) return Array.from({ length: count }, (_, i) => i + 1);
  const found = new Set();
  for (const part of text.split(",")) {
    const [, first, dash, last] = /^\s*(\d+)\s*(?:(-)\s*(\d*))?\s*$/.exec(part) ?? [];
    if (first === undefined) throw new UserError(`“${part.trim()}” names no pages.`, { where: "pdf_pages", hint: "Write them like 1-3, 7." });
    const end = dash ? Math.min(Number(last || count), count) : Number(first);
    if (Number(first) < 1 || (last && Number(last) < Number(first))) throw new UserError(`“${part.trim()}” names no pages.`, { where: "pdf_pages", hint: "Pages count from 1, the first one comes first, like 1-3, 7." });
    for (let number = Number(first); number <= end; number += 1) if (number >= 1 && number <= count) found.add(number);
  }
  if (!found.size) throw new UserError(`The PDF has only ${counted(count, "page")}.`, { where: "pdf_pages", hint: "Change “Pages of PDFs” in the settings." });
  return [...found].sort((a, b) => a - b);
}
