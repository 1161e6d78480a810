/**
 * Finds the models in a repository of a hub by its list of files, in the layout of huggingface.co's API.
 *
 * @typedef {{repo: string, revision: string, file: string | null}} HubName
 * @typedef {{path: string, size: number | null, sha256: string | null}} HubFile
 */
import { BUSY_HINT, isBusy } from "../shared/busy-hub.js";
import { UserError } from "../shared/protocol.js";
import { lastPart } from "../shared/words.js";

const NAME = /^(?<repo>[\w.-]+\/[\w.-]+)(@(?<revision>[\w./-]+?))?([:/](?<file>[^\s:]+))?$/;
const GGUF = /^(generate|chat|embed|translate)$/; // tasks whose models GGUF files have
/** Vectors of English voices, which a model of phonemes speaks in: the page reads English (misaki's names of its voices). */
const VOICES = /^voices\/[ab][fm]_[\w-]+\.(pt|safetensors|npy)$/;
const FIRST = /-00001-of-(\d{5})\.gguf$/; // the first part of one in several
const PAGES = 10; // of a list of files
const HEADER_BYTES = 1 << 16; // enough for the architecture, which GGUF files name first
/** Files beside the weights that a model may need. The last two are in folders of sentence-transformers. */
const COMPANIONS = /^(config|generation_config|preprocessor_config|processor_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template|modules|config_sentence_transformers|sentence_bert_config)\.json$|^(merges|vocab)\.txt$|^chat_template\.jinja$|^(tokenizer|spiece|sentencepiece|sentencepiece\.bpe|spm)\.model$|^(source|target)\.spm$|^\d+_\w+\/(config\.json|model\.safetensors|pytorch_model\.bin)$|^tokenizer\.bin$/;
/** The roles of files in a speech model. @type {Record<string, string>} */
const ROLES = { "config.json": "config", "tokenizer.json": "tokenizer", "generation_config.json": "generation_config", "preprocessor_config.json": "preprocessor_config", "processor_config.json": "processor_config", "tokenizer_config.json": "tokenizer_config", "vocab.json": "vocab.json", "added_tokens.json": "added_tokens.json" };
/** Names of weights that are no GGUF files. */
const WEIGHTS = /\.(safetensors|bin|pt|pth|ckpt)$/i;
const QUANTISED = /(?:^|[-._])((?:i?q\d|tq\d|mxfp\d|nvfp\d)\w*)(?=\.)/i;

/** Escapes of an address as text; those of no text as they are. @param {string} escapes */
function decoded(escapes) {
  try {
    return decodeURI(escapes);
  } catch {
    return escapes;
  }
}

/** @param {string} text what a user writes: owner/name, owner/name/file, owner/name:file, owner/name:Q4_K_M as llama.cpp and Ollama have it, or an address @returns {HubName} */
export function parseHubName(text) {
  const plain = text.trim().replace(/(%[0-9a-f]{2})+/gi, (escapes) => decoded(escapes)).replace(/^(https?:\/\/[^/]+|(www\.)?(huggingface\.co|hf\.co))\//i, "").replace(/[?#].*$/, "").replace(/\/(tree|blob|resolve)\/([^/]+)\/?/, "@$2:").replace(/[:/]$/, "");
  const { repo, revision = "main", file = null } = NAME.exec(plain)?.groups ?? {};
  if (!repo || /(^|\/)\.\.?(\/|$)/.test(plain)) {
    throw new UserError("This is not the name of a model.", { where: text.slice(0, 200), hint: "Write owner/name as on the hub, such as Qwen/Qwen2.5-0.5B-Instruct-GGUF, or owner/name/file.gguf." });
  }
  return { repo, revision: revision ?? "main", file: file ?? null };
}

/** The files of a repository. @param {string} hub @param {HubName} name @param {AbortSignal} signal @returns {Promise<HubFile[]>} */
export async function listFiles(hub, { repo, revision }, signal) {
  /** @type {string | null} */
  let address = new URL(`api/models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`, hub).href;
  const found = [];
  for (let page = 0; address && page < PAGES; page += 1) {
    const response = await ask(address, repo, signal);
    const entries = await response.json().catch(/** @returns {null} */ () => null);
    if (!Array.isArray(entries)) {
      throw new UserError("The server does not answer like a hub: it sends no list of files.", { where: hub, hint: "Check the hub address." });
    }
    for (const { type, path, size, lfs } of entries) {
      if (type !== "file" || typeof path !== "string") continue;
      const sha256 = /^[0-9a-f]{64}$/.test(lfs?.oid ?? "") ? lfs.oid : null;
      found.push({ path, size: Number.isSafeInteger(lfs?.size ?? size) ? lfs?.size ?? size : null, sha256 });
    }
    const next = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get("Link") ?? "");
    address = next && new URL(next[1], address).origin === new URL(hub).origin ? new URL(next[1], address).href : null;
  }
  return found;
}

/** @param {string} address @param {string} where @param {AbortSignal} signal */
async function ask(address, where, signal) {
  const response = await fetch(address, { signal, mode: "cors", credentials: "omit" }).catch((error) => {
    if (signal.aborted) throw error;
    throw new UserError("The hub cannot be reached.", { where: address, hint: "Check your connection and the hub address, then try again." });
  });
  if (response.ok) return response;
  const denied = response.status === 401 || response.status === 403;
  // The hub answers 401 for names that it does not know.
  const what = response.status === 404 || denied ? "The hub has no such model, or it is not public." : `The hub answered ${response.status}.`;
  throw new UserError(what, { where, hint: isBusy(response.status) ? BUSY_HINT : "Check the name: owner/name, with capital letters as on the hub." });
}

/** The first bytes of a file. @param {string} address @param {AbortSignal} signal @returns {Promise<Uint8Array>} */
export async function firstBytes(address, signal) {
  const { body } = await ask(address, address, signal);
  if (!body) throw new UserError("The hub's answer is empty.", { where: address, hint: "Check the hub address." });
  const reader = body.getReader();
  const bytes = new Uint8Array(HEADER_BYTES);
  let length = 0;
  while (length < bytes.length) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, bytes.length - length);
    bytes.set(part, length);
    length += part.length;
  }
  reader.cancel().catch(() => {}); // the rest is not needed
  return bytes.slice(0, length);
}

/** The text of a small file. @param {string} address @param {AbortSignal} signal */
export const textOf = async (address, signal) => (await ask(address, address, signal)).text();

/** Whether a GGUF file is quantised in a way that a user names. @param {string} path @param {string} wanted */
const isQuantised = (path, wanted) => /\.gguf$/i.test(path) && QUANTISED.exec(lastPart(path).replace(FIRST, ".gguf"))?.[1].toLowerCase() === wanted.toLowerCase();

/**
 * The models in a repository's files for a task, quantised ones first.
 * @param {HubName} name @param {HubFile[]} files @param {import("./model-files.js").Task} task
 * @returns {import("./model-files.js").Model[]}
 */
export function modelsOf({ repo, revision, file }, files, task) {
  const beside = (/** @type {string} */ path) => files.filter((one) => folderOf(one.path) === folderOf(path) || (task === "speak" && VOICES.test(one.path)) || one.path.startsWith(`${folderOf(path)}${/^\d+_/.exec(one.path) ?? "\0"}`));
  const paths = new Set(weightsOf(files, task, file).filter((path) => !file || path === file || isQuantised(path, file)));
  const found = files.filter(({ path }) => paths.has(path)).map((weights) => {
    const alone = /\.gguf$|(^|\/)ggml-[^/]*\.bin$/i.test(weights.path);
    const more = alone ? partsOf(weights, files) : companions(weights, beside(weights.path), task);
    const chosen = [{ role: "model", ...weights }, ...more];
    const name = weights.path.replace(FIRST, ".gguf");
    return {
      id: `hub:${repo}@${revision}:${weights.path}`, title: lastPart(alone || files.length === 1 ? name : repo),
      description: `From ${repo}.`, kind: /** @type {const} */ ("hub"), task, repo, revision, files: chosen,
      precision: QUANTISED.exec(name)?.[1].toLowerCase() ?? (/bf16|f16|fp16/i.test(name) ? "float16" : alone ? "" : "float"),
    };
  });
  const rank = (/** @type {{precision: string}} */ { precision }) => (!precision || precision.startsWith("float") ? 1 : 0);
  const size = (/** @type {{files: {size: number | null}[]}} */ { files: all }) => all.reduce((sum, one) => sum + (one.size ?? 0), 0);
  return found.sort((a, b) => rank(a) - rank(b) || size(a) - size(b));
}

/** The ONNX network of a repository. @param {HubName} name @param {HubFile[]} files @returns {import("./model-files.js").Model} */
export function networkOf({ repo, revision, file }, files) {
  const all = files.filter(({ path }) => /\.onnx$/i.test(path));
  const usual = all.find(({ path }) => path === "onnx/model.onnx") ?? all.find(({ path }) => path === "model.onnx");
  const chosen = file ? all.find(({ path }) => path === file) : usual ?? (all.length === 1 ? all[0] : undefined);
  if (!chosen) {
    const has = all.map(({ path }) => path).slice(0, 8).join(", ");
    throw new UserError(has && !file ? "The repository has several networks." : "The repository has no such network.", {
      where: `${repo}: ${has || "no ONNX file"}`, hint: "Write owner/name/file.onnx.",
    });
  }
  return { id: `hub:${repo}@${revision}:${chosen.path}`, title: lastPart(repo), description: `From ${repo}.`, kind: "hub", network: true, repo, revision, files: [{ role: "model", ...chosen }] };
}

/** @param {string} path */
const folderOf = (path) => path.slice(0, path.lastIndexOf("/") + 1);

/** The files of weights at the top of a repository, the preferred first. Those of an index are in several parts. */
const USUAL = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];
const OTHER = /^(tok.*|.*tokenizer\.bin|training_args\.bin|(optimizer|scheduler|scaler|rng_state.*|adapter_model)\.\w+)$/i;
const WHISPER = ["model.safetensors", "pytorch_model.bin"];

/**
 * The files of weights for a task: GGUF and whisper.cpp's files, and what pyapp/hub/resolver.py chooses of the others.
 * @param {HubFile[]} files @param {import("./model-files.js").Task} task @param {string | null} asked the file that a user names
 */
function weightsOf(files, task, asked) {
  const paths = files.map(({ path }) => path);
  const whole = paths.filter((path) => !/-\d+-of-\d+\./.test(path)); // the others are parts of a model
  if (task === "transcribe") {
    const usual = WHISPER.find((path) => paths.includes(path));
    return [...(usual ? [usual] : []), ...whole.filter((path) => /^ggml-.*\.bin$/i.test(lastPart(path)) && !/encoder|vad|silero/i.test(lastPart(path)))];
  }
  const stands = [...whole, ...paths.filter((path) => FIRST.test(path))]; // the first part for all
  const gguf = GGUF.test(task) ? stands.filter((path) => /\.gguf$/i.test(path) && !/mmproj|imatrix/i.test(lastPart(path))) : [];
  const top = whole.filter((path) => !path.includes("/") && !OTHER.test(path)); // in folders are other forms of the model: onnx, openvino …
  const named = top.filter((path) => path === asked && WEIGHTS.test(path));
  const usual = USUAL.find((path) => paths.includes(path));
  const others = top.filter((path) => WEIGHTS.test(path));
  const settled = others.filter((path) => !/\.ckpt$/i.test(path)); // which is of training, as a rule
  const told = paths.includes("config.json") || (task === "generate" && paths.includes("tokenizer.bin")); // what the weights are of
  const only = told && (settled.length ? settled : others).length === 1 ? settled.concat(others).slice(0, 1) : [];
  const each = /^(detect|cut-out)$/.test(task) ? others.filter((path) => /\.pth?$/i.test(path)) : []; // YOLO, Segment Anything: each is a model
  return [...gguf, ...(named.length ? named : usual ? [usual] : only.length ? only : each)];
}

/** The other parts of a GGUF file in several. @param {HubFile} weights its first part @param {HubFile[]} files */
function partsOf({ path }, files) {
  const [stem, count] = FIRST.test(path) ? path.split(FIRST) : [];
  return files.filter((one) => count && one.path !== path && one.path.startsWith(`${stem}-`) && one.path.endsWith(`-of-${count}.gguf`)).map((one) => ({ role: one.path, ...one }));
}

/**
 * The files that go with weights, by role: speech models have names of their own, others the paths in the folder.
 * @param {HubFile} weights @param {HubFile[]} files @param {import("./model-files.js").Task} task
 */
function companions(weights, files, task) {
  const whole = files.some(({ path }) => path === "tokenizer.json"); // which says what the others say
  const part = /^(?<stem>.*)\.(?<kind>\w+)\.index\.json$/.exec(weights.path)?.groups;
  const shards = part ? files.filter(({ path }) => path.startsWith(`${part.stem}-`) && /-\d+-of-\d+\.\w+$/.test(path) && path.endsWith(`.${part.kind}`)) : [];
  const wanted = files.filter(({ path }) => (task === "transcribe" ? Object.hasOwn(ROLES, path) && !(whole && /^(vocab|added_tokens|tokenizer_config)/.test(path)) : COMPANIONS.test(path) || VOICES.test(path)));
  return [...wanted, ...shards].map((one) => ({ role: (task === "transcribe" && ROLES[one.path]) || one.path, ...one }));
}
