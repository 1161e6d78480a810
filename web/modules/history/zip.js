/**
 * Writes a ZIP file of Blobs, in pieces: the browser may keep them on disk.
 */
import { Zip, ZipDeflate, ZipPassThrough } from "fflate";

const COMPRESSED = /\.(txt|srt|vtt|json|wav)$/i; // others are compressed already, or nothing is gained
const NAME_BYTES = 240; // file systems have room for 255; a number may come behind it

/**
 * @param {{path: string, blob: Blob}[]} files @param {(done: number, total: number) => void} [onProgress] in bytes
 * @returns {Promise<Blob>}
 */
export async function zipOf(files, onProgress = () => {}) {
  /** @type {Blob[]} */
  const parts = [];
  const total = files.reduce((bytes, { blob }) => bytes + blob.size, 0);
  let failure = null;
  const archive = new Zip((error, data) => { // called before push and end return
    failure ??= error;
    if (data) parts.push(new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (data)]));
  });
  let done = 0;
  const names = new Set();
  for (const { path, blob } of files) {
    const name = freeName(path, names);
    const file = COMPRESSED.test(name) ? new ZipDeflate(name, { level: 6 }) : new ZipPassThrough(name);
    archive.add(file);
    const reader = blob.stream().getReader();
    for (;;) {
      const { done: over, value } = await reader.read();
      file.push(value ?? new Uint8Array(0), over);
      if (over) break;
      done += value.length;
      onProgress(done, total);
    }
  }
  archive.end();
  if (failure) throw failure;
  return new Blob(parts, { type: "application/zip" });
}

/** The path, or with a number if it is taken; without what file systems refuse, and marks that would turn the letters round. @param {string} path @param {Set<string>} names */
function freeName(path, names) {
  const safe = path.split("/").map((part) => part.replace(/[\\:*?"<>|\u0000-\u001f]/g, "_").replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "").replace(/^\.+/, "_").replace(/[. ]+$/, "").trim() || "_").map(shorter).join("/");
  const [stem, ending] = parted(safe);
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? safe : `${stem} (${number})${ending}`;
    if (names.has(name.toLowerCase())) continue;
    names.add(name.toLowerCase());
    return name;
  }
}

/** A name before its ending, and the ending. @param {string} name */
function parted(name) {
  const ending = /\.[^./]{1,5}$/.exec(name)?.[0] ?? "";
  return [name.slice(0, name.length - ending.length), ending];
}

/** A name that file systems have room for, with its ending. @param {string} name of one file or folder */
function shorter(name) {
  if (new TextEncoder().encode(name).length <= NAME_BYTES) return name;
  const [stem, ending] = parted(name);
  const { read } = new TextEncoder().encodeInto(stem, new Uint8Array(NAME_BYTES - new TextEncoder().encode(ending).length));
  return stem.slice(0, read).trimEnd() + ending;
}
