/**
 * The text of a file: in UTF-8 or UTF-16, as a mark at its beginning or the bytes themselves say, else in an older encoding.
 *
 * @typedef {{text: string, assumed: boolean}} Decoded `assumed`: the bytes do not tell their encoding
 */

/** Older encodings, by the names of the Encoding Standard. The first is assumed. @type {Record<string, string>} */
export const ENCODINGS = {
  "windows-1252": "Western European (Windows-1252)",
  "windows-1250": "Central European (Windows-1250)",
  "windows-1251": "Cyrillic (Windows-1251)",
  "koi8-u": "Cyrillic (KOI8)",
  "windows-1253": "Greek (Windows-1253)",
  "windows-1254": "Turkish (Windows-1254)",
  "windows-1255": "Hebrew (Windows-1255)",
  "windows-1256": "Arabic (Windows-1256)",
  "windows-1257": "Baltic (Windows-1257)",
  "windows-1258": "Vietnamese (Windows-1258)",
  "gb18030": "Chinese (GB 18030)",
  "big5": "Chinese (Big5)",
  "shift_jis": "Japanese (Shift JIS)",
  "euc-kr": "Korean (EUC-KR)",
  "macintosh": "Mac OS Roman",
};
const CONTROLS = /[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]/; // in no text of an older encoding

/**
 * @param {ArrayBuffer} bytes @param {string} [encoding] of a text that is not in UTF-8 or UTF-16
 * @returns {Decoded | null} the text, with "\n" at the ends of lines; null if it is no text
 */
export function decoded(bytes, encoding = "windows-1252") {
  const [first, second] = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
  const marked = first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : null;
  const known = read(bytes, marked ?? "utf-8");
  if (known !== null) return known.includes("\0") ? null : { text: known, assumed: false };
  const text = marked ? null : read(bytes, encoding, false);
  return text === null || CONTROLS.test(text) ? null : { text, assumed: true };
}

/** @param {ArrayBuffer} bytes @param {string} encoding @param {boolean} [strict] null for bytes that are not in this encoding */
function read(bytes, encoding, strict = true) {
  try {
    return new TextDecoder(encoding, { fatal: strict }).decode(bytes).replace(/\r\n?/g, "\n");
  } catch {
    return null;
  }
}
