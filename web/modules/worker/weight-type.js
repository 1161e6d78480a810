/**
 * The type of the weights in a user's file, by its header: what the file takes in memory depends on it. The formats are checked
 * later, by Python.
 */
const HEADER_BYTES = 1 << 16;

/** The names of types that formats use. @type {Record<string, string>} */
const TYPES = { F32: "float32", F16: "float16", BF16: "float16", FloatStorage: "float32", HalfStorage: "float16", BFloat16Storage: "float16" };

/** Types of GGUF files and of whisper.cpp's by their numbers; the others are quantised. @type {Record<number, string>} */
const NUMBERED = { 0: "float32", 1: "float16", 32: "float16" };
const WHISPER_TYPE = 44; // where the header of whisper.cpp has its type
const LLAMA2C_MAGIC = "24ka"; // "ak42" as a number; files of older versions have none, and are in float32

/** @param {File} file @returns {Promise<string | undefined>} undefined: quantised, or not known */
export async function weightType(file) {
  const header = await file.slice(0, HEADER_BYTES).arrayBuffer();
  const view = new DataView(header);
  const text = new TextDecoder("latin1").decode(header);
  const number = (/** @type {number} */ at) => (at >= 0 && at + 4 <= header.byteLength ? view.getUint32(at, true) : NaN);
  const magic = text.slice(0, 4);
  if (magic === "GGUF") {
    const name = "general.file_type";
    const at = text.indexOf(name);
    return at < 0 ? undefined : NUMBERED[number(at + name.length + 4)]; // behind the type of the value
  }
  if (magic === "lmgg") return NUMBERED[number(WHISPER_TYPE)];
  if (/\.safetensors$/i.test(file.name)) return commonest(text.matchAll(/"dtype"\s*:\s*"(\w+)"/g));
  if (magic.startsWith("PK")) return commonest(text.matchAll(/torch\n(\w+Storage)/g));
  if (/\.bin$/i.test(file.name)) return magic === LLAMA2C_MAGIC && number(4) !== 1 ? undefined : "float32";
  return undefined;
}

/** @param {Iterable<RegExpMatchArray>} found names of types @returns {string | undefined} */
function commonest(found) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [, name] of found) counts.set(name, (counts.get(name) ?? 0) + 1);
  const [first] = [...counts].sort(([, a], [, b]) => b - a);
  return first && TYPES[first[0]];
}
