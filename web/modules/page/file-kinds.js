/**
 * What the user's files are: recordings, texts, notebooks, or the files of a model; and the task of a model.
 *
 * @typedef {"sound" | "text" | "notebook" | "model" | "unknown"} Kind
 */
import { siteUrl } from "../shared/site.js";

const MODEL = /\.(gguf|safetensors|bin|pt|onnx)$|^(config|tokenizer|tokenizer_config|generation_config|preprocessor_config|vocab|modules)\.json$|\.index\.json$/i;
const SOUND = /\.(wav|mp3|m4a|aac|ogg|oga|opus|flac|weba|webm|mp4|m4v|mov|mkv|aif|aiff|caf|amr)$/i;
const TEXT = /\.(txt|text|md|markdown|rst|log|srt|vtt|html?|json|jsonl|csv|tsv|xml|ya?ml|tex|org)$/i;
const NOTEBOOK = /\.(ipynb|py)$/i;
const HEADER_BYTES = 1 << 20; // of a GGUF file: its architecture comes long before this

/** @param {{name: string, type: string}} file @returns {Kind} */
export function kindOf({ name, type }) {
  if (MODEL.test(name)) return "model";
  if (NOTEBOOK.test(name)) return "notebook";
  if (SOUND.test(name) || /^(audio|video)\//.test(type)) return "sound";
  return TEXT.test(name) || type.startsWith("text/") ? "text" : "unknown";
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

/**
 * The task of a model, by config.json, the header of a GGUF file, or the magic number of whisper.cpp.
 * @param {File[]} files @returns {Promise<string | null>} null if the files do not tell
 */
export async function taskOf(files) {
  const find = (/** @type {RegExp} */ name) => files.find((file) => name.test(file.name));
  const gguf = find(/\.gguf$/i);
  const config = files.find(({ name, webkitRelativePath: path }) => name === "config.json" && path.split("/").length <= 2);
  if (gguf) return (await tasks()).gguf[architectureOf(await gguf.slice(0, HEADER_BYTES).arrayBuffer())] ?? "chat";
  if (config) return (await tasks()).model_types[await modelTypeOf(config)] ?? null;
  if (find(/^tokenizer\.bin$/i)) return "generate";
  const weights = find(/\.bin$/i);
  if (weights && (await weights.slice(0, 4).text()) === "lmgg") return "transcribe";
  return find(/\.pt$/i) ? "transcribe" : null;
}

/** The tasks of architectures, which `make site` takes from pyapp. @returns {Promise<{gguf: Record<string, string>, model_types: Record<string, string>}>} */
async function tasks() {
  const response = await fetch(siteUrl("model-tasks.json")).catch(/** @returns {null} */ () => null);
  return response?.ok ? response.json() : { gguf: {}, model_types: {} }; // offline at the first visit: the shown view decides
}

/** @param {File} config @returns {Promise<string>} `model_type`; "" if there is none */
async function modelTypeOf(config) {
  try {
    return String(JSON.parse(await config.text()).model_type ?? "");
  } catch {
    return ""; // the engine names what is wrong with the file
  }
}

/**
 * `general.architecture` of a GGUF file.
 * Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 * @param {ArrayBuffer} header the beginning of the file @returns {string} "" if it is not there
 */
export function architectureOf(header) {
  const view = new DataView(header);
  const sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]; // of the value types; 8: a string, 9: an array
  let at = 24;
  const long = () => Number(view.getBigUint64((at += 8) - 8, true));
  const string = () => {
    const length = long();
    if (length > header.byteLength - at) throw new RangeError("a string that does not end");
    return new TextDecoder().decode(new Uint8Array(header, (at += length) - length, length));
  };
  const skip = (/** @type {number} */ type) => {
    if (type === 8) string();
    else if (type !== 9) at += sizes[type];
    else {
      const [of, count] = [view.getUint32((at += 4) - 4, true), long()];
      if (of < 8 || of > 9) at += sizes[of] * count;
      else for (let i = 0; i < count; i += 1) skip(of);
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
