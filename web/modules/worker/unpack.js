/**
 * Unpacks wheels into Python's file system. The members of this site's wheels are uncompressed (scripts/site.py): their bytes
 * become files without a copy, which saves 0.1 s for NumPy. Pyodide unpacks other wheels.
 * Source of the format: APPNOTE.TXT 6.3.10 of PKWARE.
 */
const END_BYTES = 22;
const END = 0x06054b50;
const ENTRY = 0x02014b50;
const ENTRY_BYTES = 46;

/** @param {any} pyodide @param {ArrayBuffer} wheel @param {{info: {python: string}}} lock */
export function unpackWheel(pyodide, wheel, { info }) {
  const members = storedMembers(wheel);
  if (!members) return pyodide.unpackArchive(wheel, "wheel");
  const { FS } = pyodide;
  const root = `/lib/python${info.python.split(".", 2).join(".")}/site-packages`;
  const folders = new Set(members.map(({ name }) => name.slice(0, name.lastIndexOf("/") + 1)));
  for (const folder of folders) FS.mkdirTree(`${root}/${folder}`);
  for (const { name, data } of members) FS.writeFile(`${root}/${name}`, data, { canOwn: true });
  pyodide.runPython("import importlib; importlib.invalidate_caches()");
}

/**
 * The files in a ZIP archive, as views of its bytes; null if one is compressed, or if the archive is unusual.
 * @param {ArrayBuffer} archive @returns {{name: string, data: Uint8Array}[] | null}
 */
export function storedMembers(archive) {
  try {
    return readMembers(archive);
  } catch (error) {
    if (error instanceof RangeError) return null; // a position outside the archive
    throw error;
  }
}

/** @param {ArrayBuffer} archive */
function readMembers(archive) {
  const view = new DataView(archive);
  const end = archive.byteLength - END_BYTES;
  if (end < 0 || view.getUint32(end, true) !== END) return null;
  const decoder = new TextDecoder();
  const members = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    if (at + ENTRY_BYTES > end || view.getUint32(at, true) !== ENTRY) return null;
    const [method, size, stored] = [view.getUint16(at + 10, true), view.getUint32(at + 24, true), view.getUint32(at + 20, true)];
    const lengths = [view.getUint16(at + 28, true), view.getUint16(at + 30, true), view.getUint16(at + 32, true)];
    const name = decoder.decode(new Uint8Array(archive, at + ENTRY_BYTES, lengths[0]));
    const local = view.getUint32(at + 42, true);
    if (method !== 0 || size !== stored || name.startsWith("/") || name.split("/").includes("..")) return null;
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    if (start + size > end) return null;
    if (!name.endsWith("/")) members.push({ name, data: new Uint8Array(archive, start, size) });
    at += ENTRY_BYTES + lengths[0] + lengths[1] + lengths[2];
  }
  return members;
}
