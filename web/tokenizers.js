/**
 * Hugging Face's tokenizers for pyapp in a Pyodide that is not this site's (docs/javascript.md): pyapp.browser.use_tokenizers(createEncoder).
 */
import { Tokenizer } from "@huggingface/tokenizers";
import { encoderOf } from "./modules/worker/token-encoder.js";

/** @param {string} json the text of a tokenizer.json @returns {(text: string) => Uint32Array} without control tokens */
export const createEncoder = (json) => encoderOf(Tokenizer, json);
