/**
 * The text of a file in UTF-8 or UTF-16, with "\n" at the ends of lines.
 * @param {ArrayBuffer} bytes @returns {string | null} null if it is no text
 */
export function decoded(bytes) {
  const [first, second] = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
  const encoding = first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes).replace(/\r\n?/g, "\n");
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
