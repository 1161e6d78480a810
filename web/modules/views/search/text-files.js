/**
 * Reads texts from the user's files: plain text and Markdown as they are, CSV and JSON as lines of their values.
 *
 * @typedef {{name: string, text: string}} NamedText
 */
import { decoded } from "../../shared/decoded.js";
import { UserError } from "../../shared/protocol.js";
import { Slices } from "../../shared/slices.js";
import { commaOf, rowsOf } from "../../shared/tables.js";
import { onlyRead } from "../../shared/trusted-types.js";
import { elsewhere } from "../../page/file-kinds.js";

const NAMES = /\.(txt|text|md|markdown|rst|log|srt|vtt|html?|json|jsonl|csv|tsv|xml|ya?ml|tex|org)$/i;
const FILE_LIMIT = 32 * 2 ** 20; // bytes
const TOO_LARGE = `larger than ${FILE_LIMIT >> 20} MB`;
const HTML_PIECE = 2 ** 15; // characters that are parsed between two looks at the clock: some milliseconds
const DEEPEST = 100; // levels of JSON
const BLOCK = /<\/?(?:p|div|h1|h2|h3|h4|h5|h6|li|tr|blockquote|pre|section|article|header|footer|dt|dd|figcaption)\b/gi;
const GAP = /<(?:br|\/?td|\/?th)\b/gi;
const TAG = /<\/?[a-z](?:[^<>"']|"[^"<]{0,4000}"|'[^'<]{0,4000}'){0,999}>/gi; // of any other form, the browser's parser finds it
const HIDDEN = /<(?:!--|(script|style|template|noscript|title)\b)/; // beginnings of what is not shown

/** Whether a file may hold a text: also one without an ending, such as README. @param {File} file */
const isText = (file) => NAMES.test(file.name) || file.type.startsWith("text/") || !file.name.includes(".");

/**
 * @param {File[]} files @param {string} encoding of texts that are not in UTF-8 or UTF-16
 * @param {{signal?: AbortSignal, onProgress?: (what: string, done: number, total: number) => void}} [watch] long tables and lists are read in slices
 * @returns {Promise<{texts: NamedText[], skipped: string[], assumed: {file: File, texts: NamedText[]}[]}>} `skipped`: names and why; `assumed`: what was read
 *   in this encoding
 */
export async function readTexts(files, encoding, { signal, onProgress = () => {} } = {}) {
  const texts = [];
  const assumed = [];
  const skipped = [];
  for (const file of files) {
    const name = file.webkitRelativePath || file.name;
    if (name.split("/").some((part) => part.startsWith("."))) continue; // hidden: of the system, or of tools
    const why = !isText(file) ? "no text" : file.size > FILE_LIMIT ? TOO_LARGE : null;
    if (why) {
      skipped.push(`${name} (${why})`);
      continue;
    }
    const found = decoded(await file.arrayBuffer(), encoding);
    if (found === null) skipped.push(`${name} (no text)`);
    else if (!found.text.trim()) skipped.push(`${name} (empty)`);
    else {
      const parts = [{ name, text: await textOf(name, found.text, new Slices({ signal, onProgress: (done, total) => onProgress(`Reading ${name}…`, done, total) })) }];
      texts.push(...parts);
      if (found.assumed) assumed.push({ file, texts: parts });
    }
  }
  if (!texts.length) {
    const large = skipped.length > 0 && skipped.every((one) => one.endsWith(`(${TOO_LARGE})`));
    if (large) throw new UserError(skipped.length > 1 ? "These files are too large." : "This file is too large.", { where: skipped.slice(0, 5).join(", "), hint: `Divide it: files of at most ${FILE_LIMIT >> 20} MB are read.` });
    throw new UserError("There is no text in these files.", { where: skipped.slice(0, 5).join(", "), hint: (files[0] && elsewhere(files[0], "text")) ?? "Choose .txt, .md, .json or .csv files." });
  }
  return { texts, skipped, assumed };
}

/** What is searched of a file. @param {string} name @param {string} text @param {Slices} slices */
async function textOf(name, text, slices) {
  if (/\.html?$/i.test(name)) return (await fromPage(text, slices)) || text;
  if (/\.jsonl$/i.test(name)) return (await each(text.split("\n"), (line) => fromJson(line) ?? line, slices)).join("\n\n");
  if (/\.json$/i.test(name)) return (await fromLongJson(text, slices)) || text;
  if (/\.(csv|tsv)$/i.test(name)) return (await fromTable(text, slices)) || text;
  return text;
}

/** Something of each element, in slices. @template T @param {T[]} elements @param {(element: T) => string} made @param {Slices} slices */
async function each(elements, made, slices) {
  const found = [];
  for (const element of elements) {
    found.push(made(element));
    const pause = slices.step(found.length, elements.length);
    if (pause) await pause;
  }
  return found;
}

/**
 * The words of a page of HTML, its blocks as paragraphs. Nothing in it is run or fetched. It is read piece by piece, and nearly all tags are taken out
 * before: Firefox stands still for seconds when it gives up millions of nodes, however they are removed.
 * @param {string} html @param {Slices} slices
 */
async function fromPage(html, slices) {
  const { body } = document.implementation.createHTMLDocument(); // it has no window
  /** @type {string[]} */
  const words = [];
  for (const [from, to] of shownParts(html)) {
    for (let at = from, end = from; at < to; at = end) {
      end = html.indexOf("<", at + HTML_PIECE); // a tag is not divided
      if (end < 0 || end > to) end = to;
      body.innerHTML = onlyRead(html.slice(at, end).replace(BLOCK, "\n\n$&").replace(GAP, " $&").replace(TAG, ""));
      words.push(body.textContent ?? "");
      const pause = slices.look(end, html.length);
      if (pause) await pause;
    }
  }
  return paragraphed(words.join(""), slices);
}

/** The parts of a page outside of scripts, comments and others that are not shown: their places, in one pass. @param {string} html @returns {Generator<[number, number]>} */
function* shownParts(html) {
  const hidden = new RegExp(HIDDEN, "gi");
  let from = 0;
  for (let begin = hidden.exec(html); begin; begin = hidden.exec(html)) {
    yield [from, begin.index];
    const end = new RegExp(begin[1] ? `</${begin[1]}\\b` : "-->", "gi");
    end.lastIndex = hidden.lastIndex;
    const found = end.exec(html);
    if (!found) return; // what does not end hides the rest
    from = hidden.lastIndex = found.index + (begin[1] ? 0 : found[0].length); // the tag of the end has no words
  }
  yield [from, html.length];
}

/** A text with one empty line between its paragraphs, in one pass over its lines. @param {string} text @param {Slices} slices */
async function paragraphed(text, slices) {
  const lines = text.split("\n");
  /** @type {string[]} */
  const paragraphs = [];
  let last = "";
  for (let i = 0; i <= lines.length; i += 1) {
    if (lines[i]?.trim()) last += last ? `\n${lines[i]}` : lines[i];
    else if (last) {
      paragraphs.push(last.trim());
      last = "";
    }
    const pause = slices.step(i, lines.length);
    if (pause) await pause;
  }
  return paragraphs.join("\n\n");
}

/** The values of a JSON text as paragraphs, one for each element of its lists; null if it is no JSON. @param {string} text */
function fromJson(text) {
  try {
    return paragraphsOf(JSON.parse(text)) || null;
  } catch {
    return null;
  }
}

/** As fromJson, a list in slices. @param {string} text @param {Slices} slices */
async function fromLongJson(text, slices) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(value)) return paragraphsOf(value);
  return (await each(value, (one) => paragraphsOf(one, 1), slices)).filter(Boolean).join("\n\n");
}

/** @param {unknown} value @param {number} [level] @returns {string} */
function paragraphsOf(value, level = 0) {
  if (value === null || typeof value === "boolean" || level > DEEPEST) return "";
  if (typeof value !== "object") return String(value);
  const inner = Array.isArray(value)
    ? value.map((one) => paragraphsOf(one, level + 1))
    : Object.entries(value).map(([key, one]) => (typeof one === "object" ? paragraphsOf(one, level + 1) : `${key}: ${one}`));
  return inner.filter(Boolean).join(Array.isArray(value) ? "\n\n" : "\n");
}

/** The rows of a table as paragraphs, with the names of the columns. @param {string} text @param {Slices} slices */
async function fromTable(text, slices) {
  /** @type {string[] | null} */
  let names = null;
  const paragraphs = [];
  for (const { cells, end } of rowsOf(text, commaOf(text))) {
    if (names) paragraphs.push(cells.map((cell, i) => (cell.trim() ? `${names?.[i] ?? ""}${cell.trim()}` : "")).filter(Boolean).join("\n"));
    else names = cells.map((cell) => (cell.trim() ? `${cell.trim()}: ` : ""));
    const pause = slices.step(end, text.length);
    if (pause) await pause;
  }
  return paragraphs.filter(Boolean).join("\n\n");
}
