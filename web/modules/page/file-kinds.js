/**
 * What the user's files are: recordings, texts, pictures, notebooks, or the files of a model; and the task of a model.
 *
 * @typedef {"sound" | "text" | "picture" | "notebook" | "model" | "other" | "unknown"} Kind "picture": of text, also a PDF; "other": something that only cells of the Lab read
 */
import { decoded } from "../shared/decoded.js";
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";

const MODEL = /\.(gguf|safetensors|bin|pth?|ckpt|onnx|spm)$|^(config|tokenizer|tokenizer_config|generation_config|preprocessor_config|vocab|modules)\.json$|\.index\.json$/i;
const SOUND = /\.(wav|mp3|m4a|aac|ogg|oga|opus|flac|weba|webm|mp4|m4v|mov|mkv|aif|aiff|caf|amr)$/i;
const TEXT = /\.(txt|text|md|markdown|rst|log|srt|vtt|html?|json|jsonl|csv|tsv|xml|ya?ml|tex|org)$/i;
const PICTURE = /\.(png|jpe?g|gif|webp|avif|heic|heif|bmp|tiff?|svg|ico|pdf)$/i;
const NOTEBOOK = /\.(ipynb|py)$/i;
/** Other kinds of files, and what to do with them. @type {{name: RegExp, type: RegExp, what: string, hint: string}[]} */
const OTHERS = [
  { name: /\.(docx?|xlsx?|pptx?|odt|ods|odp|rtf|epub)$/i, type: /^application\/(rtf|msword|epub\+zip|vnd\.(ms-|openxmlformats|oasis))/, what: "a document", hint: "Save it as plain text or PDF, then drop that." },
  { name: /\.(np[yz]|pth|ckpt|h5|hdf5|keras|tflite|parquet|pkl|pickle|mat)$/i, type: /^application\/(vnd\.apache\.parquet|x-hdf5?)$/, what: "data for programs", hint: "Open the Lab and drop it there: its cells read it." },
  { name: /\.(lnk|url|webloc|desktop)$/i, type: /^application\/x-ms-shortcut$/, what: "a shortcut", hint: "Drop the file that it leads to." },
  { name: /\.(zip|tar|tgz|gz|bz2|xz|7z|rar|zst)$/i, type: /^application\/(zip|gzip|x-(tar|gzip|zip-compressed|7z-compressed|bzip2?|xz|rar-compressed)|vnd\.rar)$/, what: "an archive", hint: "Unpack it, then drop what is in it." },
];
const DEEPEST = 100; // levels of arrays in a GGUF file
const TEXT_BYTES = 4096; // the beginning of a file that tells whether it is a text
const HEADER_BYTES = 1 << 20; // of a GGUF file: its architecture comes long before this

/** @param {{name: string, type: string}} file @returns {Kind} */
export function kindOf({ name, type }) {
  if (MODEL.test(name)) return "model";
  if (NOTEBOOK.test(name)) return "notebook";
  if (SOUND.test(name) || /^(audio|video)\//.test(type)) return "sound";
  if (TEXT.test(name) || type.startsWith("text/")) return "text";
  if (PICTURE.test(name) || /^image\/|^application\/pdf$/.test(type)) return "picture";
  return otherOf({ name, type }) ? "other" : "unknown";
}

/** The file; as a text where its name has no ending and its beginning is one (README, LICENSE). @param {File} file */
export async function recognised(file) {
  const { name, webkitRelativePath, lastModified } = file;
  if (name.includes(".") || kindOf(file) !== "unknown") return file;
  if (!decoded(await file.slice(0, TEXT_BYTES).arrayBuffer())?.text.trim()) return file;
  return Object.defineProperty(new File([file], name, { type: "text/plain", lastModified }), "webkitRelativePath", { value: webkitRelativePath });
}

/** What a file of another kind is. @param {{name: string, type: string}} file */
const otherOf = ({ name, type }) => OTHERS.find((one) => one.name.test(name) || one.type.test(type));

/** The error for a file that no view reads. @param {{name: string, type: string, size: number}} file */
export function unusable(file) {
  if (!file.size) return new UserError("This file is empty.", { where: file.name, hint: "Choose the complete file." });
  const other = otherOf(file);
  if (other) return new UserError(`This is ${other.what}, which the page cannot use.`, { where: file.name, hint: other.hint });
  return new UserError("This page cannot use this kind of file.", { where: file.name, hint: "Drop a recording, a video, a picture, a PDF, a text, a notebook or the files of a model." });
}

/** What reads a kind of files. @type {Partial<Record<Kind, string>>} */
const READERS = {
  sound: "Transcribe turns recordings into text", text: "Search takes texts", picture: "Read takes the text out of pictures and PDFs",
};

/** What to do with a file that a view cannot use, which reads another kind; null: it is of that kind, or of none that is known. @param {{name: string, type: string}} file @param {Kind} kind */
export function elsewhere(file, kind) {
  const found = kindOf(file);
  if (found === kind) return null;
  return READERS[found] ? `${READERS[found]}: choose it there.` : otherOf(file)?.hint ?? null;
}

/**
 * The files by kind. Beside the files of a model, texts belong to the model: its README, merges.txt.
 * @param {File[]} files @returns {Map<Kind, File[]>}
 */
export function sorted(files) {
  const shown = files.filter(({ name }) => !name.startsWith(".")); // .DS_Store and its like
  if (shown.some((file) => kindOf(file) === "model")) return new Map([["model", shown]]);
  /** @type {Map<Kind, File[]>} */
  const found = new Map();
  for (const file of shown) found.set(kindOf(file), [...(found.get(kindOf(file)) ?? []), file]);
  return found;
}

/** Views that import what they have exported, by the format that such a file names at its beginning. @type {Record<string, string>} */
const EXPORTS = { "pyapp.conversations": "chat", "pyapp.search": "search" };

/** @param {File} file @returns {Promise<string | null>} the id of the view that has exported it; null for all other files */
export async function exporterOf(file) {
  if (!/\.json$/i.test(file.name)) return null;
  const [, format = ""] = /^\s*\{\s*"format":\s*"([\w.]+)"/.exec(await file.slice(0, 200).text()) ?? [];
  return own(EXPORTS, format) ?? null;
}

/**
 * The task of a model, by config.json, the header of a GGUF file, or the magic number of whisper.cpp.
 * @param {File[]} files @returns {Promise<string | null>} null if the files do not tell
 */
export async function taskOf(files) {
  const find = (/** @type {RegExp} */ name) => files.find((file) => name.test(file.name));
  const gguf = find(/-00001-of-\d+\.gguf$/i) ?? find(/\.gguf$/i); // of several parts the first says what they are
  const config = files.find(({ name, webkitRelativePath: path }) => name === "config.json" && path.split("/").length <= 2);
  if (gguf) return own((await tasks()).gguf, architectureOf(await gguf.slice(0, HEADER_BYTES).arrayBuffer())) ?? "chat";
  if (config) {
    const { model_type: type, decoder, plbert, istftnet, chronos_config: chronos, architectures: classes } = await settingsOf(config);
    if (chronos) return "forecast"; // its type is T5's
    if (type === undefined && plbert && istftnet) return "speak"; // Kokoro's does not say its name
    if (String(classes).endsWith("ForQuestionAnswering")) return "answer"; // most of these also compute features
    if (type === "vision-encoder-decoder" && decoder?.model_type === "gpt2") return "image-to-text"; // it captions; others read
    return own((await tasks()).model_types, type) ?? null;
  }
  if (find(/^tokenizer\.bin$/i)) return "generate";
  const weights = find(/\.bin$/i);
  if (weights && (await weights.slice(0, 4).text()) === "lmgg") return "transcribe";
  if (find(/^yolo.*\.pt$/i)) return find(/-cls\.pt$/i) ? "classify-image" : "detect"; // as Ultralytics calls its files
  if (find(/^(sam_vit|mobile_sam).*\.(pth?|safetensors)$/i)) return "cut-out"; // as their authors call them
  return find(/\.pt$/i) ? "transcribe" : null;
}

/** A value of a table, for a name from a file, which may be no text, or that of a method of all objects. @param {Record<string, string>} table @param {unknown} name */
const own = (table, name) => (typeof name === "string" && Object.hasOwn(table, name) ? table[name] : undefined);

/** Whether nothing says what a model is for: weights alone, as programs store and read them. @param {File[]} files */
export const isForPrograms = async (files) => files.every(({ name }) => /\.pt$/i.test(name)) || (await taskOf(files)) === null;

/** The tasks of architectures, which `make site` takes from pyapp. @returns {Promise<{gguf: Record<string, string>, model_types: Record<string, string>}>} */
async function tasks() {
  const response = await fetch(siteUrl("model-tasks.json")).catch(/** @returns {null} */ () => null);
  return response?.ok ? response.json() : { gguf: {}, model_types: {} }; // offline at the first visit: the shown view decides
}

/** @param {File} config @returns {Promise<any>} its object; an empty one if there is none */
async function settingsOf(config) {
  try {
    return JSON.parse(await config.text()) ?? {};
  } catch {
    return {}; // the engine names what is wrong with the file
  }
}

/**
 * `general.architecture` of a GGUF file.
 * Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 * @param {ArrayBuffer} header the beginning of the file @returns {string} "" if it is not there
 */
function architectureOf(header) {
  const view = new DataView(header);
  const sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]; // of the value types; 8: a string, 9: an array
  let at = 24;
  const long = () => Number(view.getBigUint64((at += 8) - 8, true));
  const string = () => {
    const length = long();
    if (length > header.byteLength - at) throw new RangeError("a string that does not end");
    return new TextDecoder().decode(new Uint8Array(header, (at += length) - length, length));
  };
  const skip = (/** @type {number} */ type, level = 0) => {
    if (type >= sizes.length || level > DEEPEST) throw new RangeError("a value of no known type");
    if (type === 8) string();
    else if (type !== 9) at += sizes[type];
    else {
      const [of, count] = [view.getUint32((at += 4) - 4, true), long()];
      if (of !== 8 && of !== 9) at += (sizes[of] ?? Infinity) * count;
      else for (let i = 0; i < count; i += 1) skip(of, level + 1);
    }
  };
  try {
    if (view.getUint32(0, true) !== 0x46554747) return "";
    for (let left = Number(view.getBigUint64(16, true)); left > 0; left -= 1) {
      const key = string();
      const type = view.getUint32((at += 4) - 4, true);
      if (key === "general.architecture") return type === 8 ? string() : "";
      skip(type);
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // the file, or its beginning, ends here
  }
  return "";
}
