/**
 * The tokenizers of Hugging Face in JavaScript: text to token ids, for pyapp.text.tokenizer.
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";

let library = null;

/** Loads the library; `createEncoder`, which Python calls, cannot wait. */
export async function loadTokenizers() {
  try {
    library = await import(siteUrl("tokenizers/tokenizers.min.mjs"));
  } catch {
    throw new UserError("A part of the program could not be loaded.", {
      where: "tokenizers/tokenizers.min.mjs",
      hint: "Check your connection, then reload the page.",
      action: "restart",
      fatal: true,
    });
  }
}

/**
 * @param {string} json the text of a tokenizer.json
 * @returns {(text: string) => Uint32Array} without control tokens
 */
export function createEncoder(json) {
  const tokenizer = new library.Tokenizer(JSON.parse(json), {});
  return (text) => Uint32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);
}
