/**
 * Writes a ZIP file of Blobs, in pieces: the browser may keep them on disk.
 */
import { Zip, ZipDeflate, ZipPassThrough } from "fflate";
import { parted, safeName } from "../shared/file-name.js";

const COMPRESSED = /\.(txt|srt|vtt|tsv|csv|json|hocr|ipynb|py|wav)$/i; // others are compressed already, or nothing is gained

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

/** The path of safe names, or with a number if it is taken. @param {string} path @param {Set<string>} names */
function freeName(path, names) {
  const safe = path.split("/").map(safeName).join("/");
  const [stem, ending] = parted(safe);
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? safe : `${stem} (${number})${ending}`;
    if (names.has(name.toLowerCase())) continue;
    names.add(name.toLowerCase());
    return name;
  }
}
