/**
 * The ids that the Rust library gives, from Hugging Face's tokenizers in JavaScript: it has no bytes for unknown characters in a
 * Unigram vocabulary, and no id for an unknown word. This file imports nothing, so that tests run it in node.
 */

/**
 * @param {new (...settings: any[]) => any} Tokenizer the library's class
 * @param {string} json the text of a tokenizer.json
 * @returns {(text: string) => Uint32Array} without control tokens
 */
export function encoderOf(Tokenizer, json) {
  const document = JSON.parse(json);
  const tokenizer = new Tokenizer(document, {});
  const encode = (/** @type {string} */ text) => tokenizer.encode(text, { add_special_tokens: false });
  const inBytes = byteFallback(document);
  if (inBytes) return (text) => Uint32Array.from(inBytes(encode(text)));
  const unknown = document.model?.vocab?.[document.model.unk_token]; // of words and pieces
  return (text) => Uint32Array.from(encode(text).ids.flatMap((/** @type {number | undefined} */ id) => id ?? unknown ?? []));
}

/**
 * For a Unigram vocabulary with byte_fallback: a function that writes unknown characters as the tokens of their UTF-8 bytes, where
 * all of these are in the vocabulary.
 * @param {any} document of a tokenizer.json @returns {((encoding: {ids: number[], tokens: string[]}) => number[]) | null}
 */
function byteFallback({ model, added_tokens: added }) {
  if (model?.type !== "Unigram" || !model.byte_fallback) return null;
  const pieces = new Map(model.vocab.map((/** @type {[string, number]} */ [piece], /** @type {number} */ id) => [piece, id]));
  for (const { content, id } of added ?? []) pieces.set(content, id);
  const encoder = new TextEncoder();
  const idsOf = (/** @type {string} */ token) =>
    Array.from(encoder.encode(token), (byte) => pieces.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`));
  return ({ ids, tokens }) =>
    ids.flatMap((id, place) => {
      if (id !== model.unk_id || pieces.has(tokens[place])) return id;
      const bytes = idsOf(tokens[place]);
      return bytes.includes(undefined) ? id : bytes;
    });
}
