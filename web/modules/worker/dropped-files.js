/**
 * Finds the roles of a user's files in a model by their names. The formats are checked later, by content, when the files are
 * opened.
 *
 * @typedef {import("./model-files.js").Task} Task
 * @typedef {{file: File, path: string}} PickedFile `path` is inside the folder that was chosen
 * @typedef {{role: string, path: string, file: File}} RoleFile
 * @typedef {{name: string, file: File}} NamedFile `name` is the path
 * @typedef {{title: string, files: {role: string, name: string, file: File}[]}} SortedFiles
 */
import { UserError } from "../shared/protocol.js";

export { weightType } from "./weight-type.js";

/** @param {PickedFile[]} picked @param {Task} task @returns {{title: string, files: RoleFile[]}} */
export function sortFiles(picked, task) {
  const files = picked.map(({ file, path }) => ({ name: path, file }));
  const onnx = files.find(({ name }) => /\.onnx$/i.test(name));
  if (onnx && files.length === 1) {
    throw new UserError("This is an ONNX model, which no view loads.", { where: onnx.name, hint: "Cells of the Lab run it: choose it there below Files, then pyapp.onnx.load(name) reads it." });
  }
  const whole = files.filter(({ file }) => file.size > 0);
  if (!whole.length) throw new UserError("This file is empty.", { where: files[0]?.name, hint: "Choose the complete file." });
  const sort = /** @type {Partial<Record<Task, (files: NamedFile[]) => SortedFiles>>} */ ({ transcribe: speechModel, chat: textModel, generate: storyModel, embed: embedder, translate: textModel, speak: voice, forecast: forecaster, answer: answerer, "label-sound": labeller })[task] ?? seer;
  const model = sort(files);
  const empty = model.files.find(({ file }) => file.size === 0);
  if (empty) throw new UserError("This file is empty.", { where: empty.file.name, hint: "Choose the complete file." });
  return { title: model.title, files: model.files.map(({ role, name, file }) => ({ role, path: name, file })) };
}

/** A llama2.c checkpoint and its tokenizer, or one of the models of the chat. @param {NamedFile[]} files @returns {SortedFiles} */
function storyModel(files) {
  if (files.some(({ name }) => /\.gguf$|(^|\/)config\.json$/i.test(name))) return textModel(files);
  const isTokenizer = (/** @type {NamedFile} */ { name }) => /tok.*\.(bin|json)$/i.test(name);
  const tokenizers = files.filter(isTokenizer);
  const models = files.filter((file) => !isTokenizer(file));
  const hint = "Choose two files together: the checkpoint (such as stories15M.bin) and its tokenizer (tokenizer.bin); or one .gguf file.";
  const other = models.find(({ name }) => !/\.(bin|safetensors)$/i.test(name));
  if (other) throw new UserError("This is not a model file.", { where: other.name, hint });
  if (models.length === 0) throw new UserError("There is no checkpoint among these files.", { hint });
  if (models.length > 1) {
    throw new UserError(`There are ${models.length} files that could be the checkpoint.`, {
      where: models.map(({ name }) => name).join(", "),
      hint: tokenizers.length ? "Choose one checkpoint at a time." : hint,
    });
  }
  if (tokenizers.length === 0) throw new UserError("The tokenizer is missing.", { where: models[0].name, hint: /\.safetensors$/i.test(models[0].name) ? TEXT : hint });
  if (tokenizers.length > 1) throw new UserError("There is more than one tokenizer.", { hint });
  return { title: models[0].name, files: [{ role: "model", ...models[0] }, { role: "tokenizer", ...tokenizers[0] }] };
}

const PART = /^(.*)-\d{5}-of-(\d{5})\.gguf$/is; // pyapp.formats.part_names

/**
 * A GGUF file in parts, all of which were chosen.
 * @param {NamedFile[]} gguf @param {NamedFile[]} seeing @param {string} stem @param {number} count
 * @returns {SortedFiles}
 */
function partsOf(gguf, seeing, stem, count) {
  const where = gguf.map(({ name }) => name).join(", ");
  const others = gguf.filter(({ name }) => PART.exec(name)?.[1] !== stem || Number(PART.exec(name)?.[2]) !== count);
  if (others.length) throw new UserError("These are files of several models.", { where, hint: "Choose one model at a time: all of its parts together." });
  const numbers = new Set(gguf.map(({ name }) => Number(name.slice(stem.length + 1, stem.length + 6))));
  if (numbers.size < count) {
    let first = 1;
    while (numbers.has(first)) first += 1;
    throw new UserError(`The model is in ${count} parts, and part ${first} is missing.`, { where, hint: `Choose all ${count} together: ${stem}-00001-of-${String(count).padStart(5, "0")}.gguf and so on.` });
  }
  return { title: `${stem}.gguf`, files: [...gguf, ...seeing].map((file) => ({ role: file.name, ...file })) };
}

const TEXT_WEIGHTS = /\.(gguf|safetensors|bin|pth?|ckpt)$/i;
const TEXT_FILES = /\.(gguf|safetensors|bin|pth?|ckpt|json|model|spm|txt|jinja|tiktoken)$/i;
const TEXT = "Choose one .gguf file, or the folder of a model: config.json, model.safetensors, tokenizer.json …";

/** Roles are the files' paths: Python finds out what they are. @param {NamedFile[]} files @returns {SortedFiles} */
function textModel(files) {
  const known = files.filter(({ name }) => TEXT_FILES.test(name));
  const all = known.filter(({ name }) => /\.gguf$/i.test(name));
  const seeing = all.length > 1 ? all.filter(({ name }) => /mmproj/i.test(name)) : []; // what sees pictures for the other
  const gguf = all.filter((file) => !seeing.includes(file));
  const [, stem, count] = PART.exec(gguf[0]?.name ?? "") ?? [];
  if (count && Number(count) > 1) return partsOf(gguf, seeing, stem, Number(count));
  if (gguf.length > 1) {
    throw new UserError(`There are ${gguf.length} files that could be the weights.`, { where: gguf.map(({ name }) => name).join(", "), hint: "Choose one model at a time." });
  }
  const weights = known.filter(({ name }) => TEXT_WEIGHTS.test(name) && !/(^|\/)tokenizer\.bin$/i.test(name) && !name.includes("/"));
  if (!weights.length) {
    const what = known.length ? "The weights are missing." : "This is not a model file.";
    throw new UserError(what, { where: files[0]?.name, hint: TEXT });
  }
  const names = new Set(known.map(({ name }) => name));
  if (!gguf.length && !names.has("config.json") && !names.has("tokenizer.bin")) {
    throw new UserError("The file config.json is missing.", { where: weights[0].name, hint: TEXT });
  }
  if (gguf.length && !seeing.length) return { title: gguf[0].name, files: [{ role: "model", ...gguf[0] }] };
  if (gguf.length) return { title: gguf[0].name, files: [...gguf, ...seeing].map((file) => ({ role: file.name, ...file })) };
  return { title: weights[0].name, files: known.map((file) => ({ role: file.name, ...file })) };
}

const EMBEDDER = "Choose the folder of an encoder: config.json, model.safetensors, tokenizer.json, with modules.json and 1_Pooling if it has them; or one .gguf file.";
const VOICE = "Choose the folder of a voice: config.json, model.safetensors, vocab.json, tokenizer_config.json.";
const STYLE = /^voices\/[\w.-]+\.(pt|safetensors|npy)$/; // the vectors of a voice
const STYLED = "Choose the folder of the model: config.json, its weights (.pth or .safetensors), and the folder voices.";
const SEER = "Choose the folder of a model of pictures: config.json, preprocessor_config.json, model.safetensors, and the files of its tokenizer, if it has one.";

/** An encoder: a folder of Hugging Face's or sentence-transformers', or a GGUF file. @param {NamedFile[]} files @returns {SortedFiles} */
const embedder = (files) => folderModel(files, EMBEDDER);

/** A reader of lines, or another model of pictures: a folder, or YOLO's weights. @param {NamedFile[]} files @returns {SortedFiles} */
const seer = ([file, ...others]) => {
  const alone = !others.length && /\.(pt|safetensors)$/i.test(file.name);
  return alone ? { title: file.name, files: [{ role: file.name, ...file }] } : folderModel([file, ...others], SEER);
};

/** What forecasts series. @param {NamedFile[]} files @returns {SortedFiles} */
const forecaster = (files) => folderModel(files, "Choose the folder of a model that forecasts: config.json and model.safetensors.");

/** What answers questions about pages. @param {NamedFile[]} files @returns {SortedFiles} */
const answerer = (files) => folderModel(files, "Choose the folder of a model that answers questions: config.json, model.safetensors, tokenizer.json …");

/** What labels moments of sound. @param {NamedFile[]} files @returns {SortedFiles} */
const labeller = (files) => folderModel(files, "Choose the folder of a model that labels sound: config.json, preprocessor_config.json and model.safetensors.");

/** What speaks texts. @param {NamedFile[]} files @returns {SortedFiles} */
const voice = (files) => (files.some(({ name }) => STYLE.test(name)) ? voiceWithStyles(files) : folderModel(files, VOICE));

/** A model that speaks in the style of vectors, each in a file (Kokoro). @param {NamedFile[]} files @returns {SortedFiles} */
function voiceWithStyles(files) {
  const weights = files.filter(({ name }) => /^[^/]+\.(pth|safetensors)$/i.test(name));
  const config = files.find(({ name }) => name === "config.json");
  if (!config) throw new UserError("The file config.json is missing.", { where: weights[0]?.name, hint: STYLED });
  if (weights.length !== 1) throw new UserError(weights.length ? `There are ${weights.length} files that could be the weights.` : "The weights are missing.", { where: weights.map(({ name }) => name).join(", "), hint: STYLED });
  const chosen = [...weights, config, ...files.filter(({ name }) => STYLE.test(name))];
  return { title: weights[0].name, files: chosen.map((file) => ({ role: file.name, ...file })) };
}

/** @param {NamedFile[]} files @param {string} hint what to choose @returns {SortedFiles} */
function folderModel(files, hint) {
  try {
    return textModel(files);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(error.what, { where: error.where, hint });
  }
}

/** Roles of the files that have fixed names in a speech model. @type {Record<string, string>} */
const ROLES = {
  "config.json": "config",
  "tokenizer.json": "tokenizer",
  "generation_config.json": "generation_config",
  "preprocessor_config.json": "preprocessor_config",
  "processor_config.json": "processor_config",
  "tokenizer_config.json": "tokenizer_config",
  "vocab.json": "vocab.json",
  "added_tokens.json": "added_tokens.json",
};
/** Names of weights. The first pattern that fits is used. */
const WEIGHTS = [/^model\.safetensors$/i, /\.safetensors$/i, /^pytorch_model\.bin$/i, /\.pt$/i, /\.bin$/i];
const WHISPER = "A Whisper model is a folder with config.json, model.safetensors and tokenizer.json, or one ggml-*.bin of whisper.cpp.";

/** @param {NamedFile[]} files @returns {SortedFiles} */
function speechModel(files) {
  const gguf = files.find(({ name }) => /\.gguf$/i.test(name));
  if (gguf) throw new UserError("This is a GGUF file: a language model, not a speech model.", { where: gguf.name, hint: `Open it in the Chat view. ${WHISPER}` });
  const named = files.filter(({ name }) => Object.hasOwn(ROLES, name));
  const kind = WEIGHTS.find((pattern) => files.some(({ name }) => pattern.test(name)));
  if (!kind) {
    if (!named.length) throw new UserError("This is not a model file.", { where: files[0]?.name, hint: WHISPER });
    throw new UserError("The weights are missing: there is no model.safetensors.", { where: named[0].name, hint: WHISPER });
  }
  const weights = files.filter(({ name }) => kind.test(name));
  if (weights.some(({ name }) => /-of-\d+\./.test(name))) {
    throw new UserError("The weights are in several parts.", { where: weights[0].name, hint: "Choose a model whose weights are one file." });
  }
  if (weights.length > 1) {
    const where = weights.map(({ name }) => name).join(", ");
    throw new UserError(`There are ${weights.length} files that could be the weights.`, { where, hint: "Choose one model at a time." });
  }
  if (/\.safetensors$|^pytorch_model\.bin$/i.test(weights[0].name)) {
    for (const needed of [["config.json"], ["tokenizer.json", "vocab.json"]]) {
      if (named.every(({ name }) => !needed.includes(name))) {
        throw new UserError(`The file ${needed[0]} is missing.`, { where: weights[0].name, hint: WHISPER });
      }
    }
  }
  const roles = named.map((file) => ({ role: ROLES[file.name], ...file }));
  return { title: weights[0].name, files: [{ role: "model", ...weights[0] }, ...roles] };
}
