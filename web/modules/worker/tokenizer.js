/**
 * Encodes text as token ids with Hugging Face's tokenizers in JavaScript, for pyapp.text.tokenization.tokenizer.
 */
import { siteUrl } from "../shared/site.js";
import { importPart } from "./parts.js";
import { encoderOf } from "./token-encoder.js";

/** @type {any} */
let library = null;

/** Loads the library. Python calls `createEncoder` synchronously, so the library must be loaded before. */
export async function loadTokenizers() {
  library = await importPart(siteUrl("tokenizers/tokenizers.min.js"));
}

/**
 * @param {string} json the text of a tokenizer.json
 * @returns {(text: string) => Uint32Array} without control tokens
 */
export function createEncoder(json) {
  return encoderOf(library.Tokenizer, json);
}
