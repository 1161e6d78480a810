/**
 * The tokenizers of Hugging Face in JavaScript: text to token ids, for pyapp.text.tokenizer.
 */
import { siteUrl } from "../shared/site.js";
import { importPart } from "./parts.js";

let library = null;

/** Loads the library; `createEncoder`, which Python calls, cannot wait. */
export async function loadTokenizers() {
  library = await importPart(siteUrl("tokenizers/tokenizers.min.mjs"));
}

/**
 * @param {string} json the text of a tokenizer.json
 * @returns {(text: string) => Uint32Array} without control tokens
 */
export function createEncoder(json) {
  const tokenizer = new library.Tokenizer(JSON.parse(json), {});
  return (text) => Uint32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);
}
