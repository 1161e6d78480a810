/**
 * Draws the pages of PDFs by pdf.js, which is loaded when the first PDF is opened. Nothing in a PDF runs: its scripts are not
 * even read, fonts and functions are interpreted (`isEvalSupported`), forms of XFA are not built.
 */
import { Cancelled, UserError, megabytes, throwIfCancelled } from "../../shared/protocol.js";
import { importPart } from "../../shared/site-parts.js";
import { siteUrl } from "../../shared/site.js";

const FILE_LIMIT = 256 << 20; // bytes: pdf.js has them in memory
const SCALE = 200 / 72; // 200 pixels an inch, as natively (PDF_SCALE in pyapp/vision/reading.py)
const LIBRARY = "pdfjs/pdf.min.js";
const WORKER = "pdfjs/pdf.worker.min.js";
/** Folders of what only some PDFs need, by pdf.js's names for them. @type {Record<string, string>} */
const PARTS = { cMapUrl: "pdfjs/cmaps/", standardFontDataUrl: "pdfjs/standard_fonts/", wasmUrl: "pdfjs/wasm/" };

/** @typedef {(name: string, wrong: boolean, signal?: AbortSignal) => Promise<string | null>} Ask asks the user for a password; null: there is none */

/** A PDF whose password the user does not give. */
export class LockedPdf extends UserError {}

/** @type {Promise<any> | null} */
let library = null;

async function loadLibrary() {
  library ??= importPart(LIBRARY, "Pictures work without it.");
  try {
    return await library;
  } catch (error) {
    library = null;
    throw error;
  }
}

/** A PDF that is open, with a thread of its own. */
export class PdfFile {
  /** Use `open`. @param {File} file @param {any} task of pdf.js @param {any} document of pdf.js @param {Worker} worker @param {string[]} missing parts that could not be loaded */
  constructor(file, task, document, worker, missing) {
    this.file = file;
    this.task = task;
    this.document = document;
    this.worker = worker;
    this.missing = missing;
  }

  /** @param {File} file @param {Ask} ask @param {AbortSignal} [signal] @returns {Promise<PdfFile>} */
  static async open(file, ask, signal) {
    if (file.size > FILE_LIMIT) {
      throw new UserError(`This PDF has ${megabytes(file.size)}.`, { where: file.name, hint: `At most ${megabytes(FILE_LIMIT)} are opened here. Save the pages that you need as a file of their own.` });
    }
    const { getDocument, PDFWorker, PasswordResponses } = await loadLibrary();
    const data = new Uint8Array(await file.arrayBuffer());
    throwIfCancelled(signal);
    const worker = new Worker(siteUrl(WORKER), { type: "module", name: "pdf" });
    const lost = new Promise((_, reject) => (worker.onerror = (event) => {
      event.preventDefault();
      reject(notLoaded(WORKER));
    }));
    /** @type {string[]} */
    const missing = [];
    class BinaryDataFactory { // pdf.js draws a page without the parts that it lacks, and says so to nobody
      /** @param {{kind: string, filename: string}} part */
      async fetch({ kind, filename }) {
        const path = `${PARTS[kind]}${filename}`;
        const response = await fetch(siteUrl(path)).catch(/** @returns {null} */ () => null);
        if (response?.ok) return new Uint8Array(await response.arrayBuffer());
        missing.push(path);
        throw new Error(path);
      }
    }
    const task = getDocument({
      data, worker: PDFWorker.create({ port: worker, verbosity: 0 }), isEvalSupported: false, enableXfa: false, verbosity: 0, maxImageSize: 1 << 27, BinaryDataFactory,
      ...Object.fromEntries(Object.entries(PARTS).map(([kind, folder]) => [kind, siteUrl(folder)])),
    });
    const refused = new Promise((_, reject) => (task.onPassword = (/** @type {(password: string) => void} */ answer, /** @type {number} */ reason) =>
      ask(file.name, reason === PasswordResponses.INCORRECT_PASSWORD, signal).then((password) => {
        if (password === null) throw new LockedPdf("This PDF is locked with a password.", { where: file.name, hint: "Read it again, or add it again, to give the password." });
        answer(password);
      }).catch(reject)));
    try {
      return new PdfFile(file, task, await abortable(Promise.race([task.promise, lost, refused]), signal), worker, missing);
    } catch (error) {
      worker.terminate();
      throw refusal(error, file.name);
    }
  }

  /** How many pages there are. @returns {number} */
  get count() {
    return this.document.numPages;
  }

  /**
   * Draws a page on a new canvas.
   * @param {number} number from 1 @param {number} limit of pixels: larger pages are drawn smaller @param {AbortSignal} [signal]
   */
  async draw(number, limit, signal) {
    /** @type {{cancel: () => void, promise: Promise<void>} | null} */
    let drawing = null;
    try {
      const page = await abortable(this.document.getPage(number), signal);
      const { width, height } = page.getViewport({ scale: 1 });
      const scale = Math.min(SCALE, Math.sqrt(limit / (width * height)));
      const viewport = page.getViewport({ scale });
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(viewport.width));
      canvas.height = Math.max(1, Math.round(viewport.height));
      // "print" draws in a tab in the background, too: "display" waits for frames of the screen.
      drawing = page.render({ canvas, viewport, intent: "print", background: "#ffffff" });
      await abortable(/** @type {any} */ (drawing).promise, signal);
      page.cleanup();
      if (this.missing.length) throw notLoaded(this.missing[0]);
      return canvas;
    } catch (error) {
      drawing?.cancel();
      throw refusal(error, `${this.file.name}, page ${number}`);
    }
  }

  /** Ends its thread, whatever that does. */
  close() {
    this.task.destroy().catch(() => {});
    this.worker.terminate();
  }
}

/** @param {string} where */
const notLoaded = (where) => new UserError("A part of the program could not be loaded.", { where, hint: "Check your connection, then try again.", action: "retry" });

/** A promise that rejects at once when the user stops. @template T @param {Promise<T>} promise @param {AbortSignal} [signal] @returns {Promise<T>} */
export function abortable(promise, signal) {
  if (!signal) return promise;
  throwIfCancelled(signal);
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Cancelled());
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** @param {any} error @param {string} where */
function refusal(error, where) {
  if (error instanceof UserError || error instanceof Cancelled) return error;
  console.debug(error);
  return new UserError("This file is not a PDF, or it is damaged.", { where, hint: "Save it again, or take a picture of the page." });
}
