/**
 * Finds the roles of a user's files in a model by their names. The formats are checked later, by content, when the files are
 * opened.
 *
 * @typedef {{role: string, file: File}} RoleFile
 */
import { UserError } from "../shared/protocol.js";

/** @param {File[]} files @param {"generate" | "transcribe" | "chat"} task @returns {{title: string, files: RoleFile[]}} */
export function sortFiles(files, task) {
  const model = { transcribe: speechModel, chat: chatModel, generate: languageModel }[task](files);
  const empty = model.files.find(({ file }) => file.size === 0);
  if (empty) throw new UserError("This file is empty.", { where: empty.file.name, hint: "Choose the complete file." });
  return model;
}

function languageModel(files) {
  const isTokenizer = (file) => /tok.*\.(bin|json)$/i.test(file.name);
  const tokenizers = files.filter(isTokenizer);
  const models = files.filter((file) => !isTokenizer(file));
  const hint = "Choose two files together: the checkpoint (such as stories15M.bin) and its tokenizer (tokenizer.bin).";
  const other = models.find((file) => !/\.(bin|safetensors)$/i.test(file.name));
  if (other) throw new UserError("This is not a model file.", { where: other.name, hint });
  if (models.length === 0) throw new UserError("There is no checkpoint among these files.", { hint });
  if (models.length > 1) {
    throw new UserError(`There are ${models.length} files that could be the checkpoint.`, {
      where: models.map((file) => file.name).join(", "),
      hint: tokenizers.length ? "Choose one checkpoint at a time." : hint,
    });
  }
  if (tokenizers.length === 0) throw new UserError("The tokenizer is missing.", { where: models[0].name, hint });
  if (tokenizers.length > 1) throw new UserError("There is more than one tokenizer.", { hint });
  return { title: models[0].name, files: [{ role: "model", file: models[0] }, { role: "tokenizer", file: tokenizers[0] }] };
}

const CHAT_WEIGHTS = /\.(gguf|safetensors|bin)$/i;
const CHAT_FILES = /\.(gguf|safetensors|bin|json|model|txt|jinja|tiktoken)$/i;
const CHAT = "Choose one .gguf file, or the folder of a model: config.json, model.safetensors, tokenizer.json …";

/** Roles are the files' names: Python finds out what they are. */
function chatModel(files) {
  const known = files.filter(({ name }) => CHAT_FILES.test(name));
  const gguf = known.filter(({ name }) => /\.gguf$/i.test(name));
  if (gguf.length > 1) {
    const parts = gguf.every(({ name }) => /-of-\d+\.gguf$/i.test(name));
    const what = parts ? "The weights are in several parts." : `There are ${gguf.length} files that could be the weights.`;
    const hint = parts ? "Join them first (gguf-split --merge), or choose a model of one file." : "Choose one model at a time.";
    throw new UserError(what, { where: gguf.map(({ name }) => name).join(", "), hint });
  }
  const weights = known.filter(({ name }) => CHAT_WEIGHTS.test(name) && !/^tokenizer\.bin$/i.test(name));
  if (!weights.length) {
    const what = known.length ? "The weights are missing." : "This is not a model file.";
    throw new UserError(what, { where: files[0]?.name, hint: CHAT });
  }
  const names = new Set(known.map(({ name }) => name));
  if (!gguf.length && !names.has("config.json") && !names.has("tokenizer.bin")) {
    throw new UserError("The file config.json is missing.", { where: weights[0].name, hint: CHAT });
  }
  return { title: weights[0].name, files: known.map((file) => ({ role: file.name, file })) };
}

/** Roles of the files that have fixed names in a Whisper model. */
const ROLES = {
  "config.json": "config",
  "tokenizer.json": "tokenizer",
  "generation_config.json": "generation_config",
  "preprocessor_config.json": "preprocessor_config",
};
/** Names of weights. The first pattern that fits is used. */
const WEIGHTS = [/^model\.safetensors$/i, /\.safetensors$/i, /^pytorch_model\.bin$/i, /\.pt$/i, /\.bin$/i];
const WHISPER = "A Whisper model is a folder with config.json, model.safetensors and tokenizer.json, or one ggml-*.bin of whisper.cpp.";

function speechModel(files) {
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
    for (const needed of ["config.json", "tokenizer.json"]) {
      if (named.every(({ name }) => name !== needed)) {
        throw new UserError(`The file ${needed} is missing.`, { where: weights[0].name, hint: WHISPER });
      }
    }
  }
  const roles = named.map((file) => ({ role: ROLES[file.name], file }));
  return { title: weights[0].name, files: [{ role: "model", file: weights[0] }, ...roles] };
}
