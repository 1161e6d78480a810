/**
 * Whether a recording was cut off: of Ogg, its last page says so, as natively (pyapp/audio/decoders.py).
 */
const LONGEST_PAGE = 65307; // bytes (RFC 3533, section 6)
const FLAGS = 5; // the byte of a page's header that has
const LAST = 4; // the mark of the last page of a stream

/** @param {Blob} file @param {number} seconds of its sound @returns {Promise<import("../shared/protocol.js").NoticeEvent | null>} what the user is told; null: nothing says that it was */
export async function cutOff(file, seconds) {
  const text = async (/** @type {Blob} */ part) => new TextDecoder("latin1").decode(await part.arrayBuffer());
  if (await text(file.slice(0, 4)) !== "OggS") return null;
  const end = await text(file.slice(-2 * LONGEST_PAGE));
  const page = end.lastIndexOf("OggS");
  if (page >= 0 && end.charCodeAt(page + FLAGS) & LAST) return null;
  return { type: "notice", what: `the recording ends after ${seconds.toFixed(1)} s: the mark of its end is missing`, hint: "If it was cut off, copy or download it again" };
}
