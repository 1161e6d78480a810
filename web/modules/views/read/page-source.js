/**
 * Where the pages come from that are read: pictures, by the browser's decoders, and pages of PDFs. A page is decoded when it is
 * needed, so that a long queue takes no memory.
 */
import { imageSize } from "image-size";
import { UserError, megabytes } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { PdfFile, abortable } from "./pdf-file.js";
import { drawSvg, isSvg } from "./svg-picture.js";

const FILE_LIMIT = 256 << 20; // bytes of a picture
const PIXEL_LIMIT = 1 << 27; // of a file, as pyapp/vision/reading.py has it
/** What is read of larger pages is a smaller copy: letters are still large in it, and phones have no more memory. */
const READ_PIXELS = 1 << 24;
const HEAD = 1 << 20; // bytes in which the size of a picture is said
const KNOWN = "PNG, JPEG, WebP, GIF, BMP, AVIF and SVG can be read.";
const UNKNOWN = /\.(tiff?|heic|heif|ico)$/i; // not known to most browsers
/** What files begin with that are no pictures that browsers know, whatever they are called. */
const BEGINNINGS = [
  { begins: /^.{4}ftyp(hei|hev|mif1|msf1)/s, what: "a HEIC picture, as iPhones take them" }, { begins: /^(II\*\0|MM\0\*)/, what: "a TIFF picture" },
  { begins: /^%PDF/, what: "a PDF" }, { begins: /^\s*<(!doctype )?html/i, what: "a web page" },
];

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
  const drawn = isPdf(file) ? await usePdf(file, use, (pdf) => pdf.draw(number, READ_PIXELS, use.signal)) : await decode(file);
  const [width, height] = [drawn.width, drawn.height];
  const scale = Math.min(1, Math.sqrt(READ_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  const [across, down] = [width, height].map((side) => Math.max(1, Math.floor(side * scale)));
  [canvas.width, canvas.height] = turns % 2 ? [down, across] : [across, down];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new UserError("This browser has no memory for this picture.", { where: file.name, hint: "Make it smaller, or close other tabs." });
  context.fillStyle = "#fff"; // behind what is transparent
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.translate(canvas.width / 2, canvas.height / 2);
  context.rotate((turns * Math.PI) / 2);
  context.drawImage(drawn, -across / 2, -down / 2, across, down);
  context.resetTransform();
  if (drawn instanceof ImageBitmap) drawn.close();
  return { canvas, smaller: scale < 1 };
}

/** @param {File} file @returns {Promise<ImageBitmap | HTMLImageElement>} turned as the file says */
async function decode(file) {
  if (file.size === 0) throw new UserError("This file is empty.", { where: file.name, hint: "Choose a picture or a PDF." });
  if (file.size > FILE_LIMIT) throw new UserError(`This picture has ${megabytes(file.size)}.`, { where: file.name, hint: `At most ${megabytes(FILE_LIMIT)} are read.` });
  const head = await headOf(file);
  if (isSvg(file)) {
    const picture = await drawSvg(file, READ_PIXELS);
    if (picture) return picture;
    throw new UserError("This picture cannot be decoded.", { where: file.name, hint: `It may be damaged. ${KNOWN}` });
  }
  checkSize(announcedSize(head), file);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch (error) {
    console.debug(error);
    if (UNKNOWN.test(file.name)) throw new UserError("This kind of picture cannot be read here.", { where: file.name, hint: "Save it as PNG or JPEG, then drop that." });
    const text = new TextDecoder("latin1").decode(head.subarray(0, 32));
    const found = BEGINNINGS.find(({ begins }) => begins.test(text));
    if (found) throw new UserError(`This is ${found.what}, whatever its name says.`, { where: file.name, hint: found.what === "a PDF" ? "Give it a name that ends in .pdf." : "Save it as PNG or JPEG, then drop that." });
    throw new UserError("This picture cannot be decoded.", { where: file.name, hint: `It may be damaged. ${KNOWN}` });
  }
  checkSize(bitmap, file);
  return bitmap;
}

/** @param {File} file */
async function headOf(file) {
  try {
    return new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  } catch {
    throw new UserError("The file has changed or is gone since you chose it.", { where: file.name, hint: "Choose it again." });
  }
}

/** The size that a file's header says, before anything is decoded. @param {Uint8Array} head @returns {{width: number, height: number} | null} */
function announcedSize(head) {
  try {
    return imageSize(head);
  } catch {
    return null; // the browser says what is wrong with it
  }
}

/** @param {{width: number, height: number} | null} size @param {File} file */
function checkSize(size, file) {
  if (!size) return;
  if (!size.width || !size.height) throw new UserError("This picture has no pixels.", { where: file.name, hint: "Save it again, then drop that." });
  if (size.width * size.height <= PIXEL_LIMIT) return;
  throw new UserError(`This picture has ${size.width.toLocaleString("en")} × ${size.height.toLocaleString("en")} pixels.`, {
    where: file.name,
    hint: `At most ${Math.floor(PIXEL_LIMIT / 1e6)} million are read. Make it smaller first.`,
  });
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
