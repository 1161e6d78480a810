/**
 * Unpacks wheels into Python's file system. The members of this site's wheels are uncompressed (scripts/site.py): their bytes
 * become files without a copy, which saves 0.1 s for NumPy. Pyodide unpacks other wheels.
 * Source of the format: APPNOTE.TXT 6.3.10 of PKWARE.
 */
const END_BYTES = 22;
const END = 0x06054b50;
const ENTRY = 0x02014b50;
const ENTRY_BYTES = 46;

const FOLDER_MODE = 0o40777;
const FILE_MODE = 0o100666;

/** @param {any} pyodide @param {ArrayBuffer} wheel @param {{info: {python: string}}} lock */
export function unpackWheel(pyodide, wheel, { info }) {
  const members = storedMembers(wheel);
  const place = `/lib/python${info.python.split(".", 2).join(".")}/site-packages`;
  if (!members) return pyodide.unpackArchive(wheel, "wheel", { extractDir: place });
  writeFiles(pyodide.FS, place, members);
  forgetFolders(pyodide);
}

/**
 * Appends the rest of Python's standard library to its archive: the parts of a package must be in one.
 * @param {any} pyodide @param {ArrayBuffer} later an archive
 */
export function addLibrary(pyodide, later) {
  const { FS } = pyodide;
  const sys = pyodide.pyimport("sys");
  const place = sys.path.find((/** @type {string} */ path) => path.endsWith(".zip"));
  sys.destroy();
  FS.writeFile(place, joined(FS.readFile(place), new Uint8Array(later)), { canOwn: true });
  forgetFolders(pyodide);
}

/** @param {any} pyodide */
function forgetFolders(pyodide) {
  const importlib = pyodide.pyimport("importlib");
  importlib.invalidate_caches();
  importlib.destroy();
}

/**
 * One ZIP archive with the members of two; those of the first stay where they are. @param {Uint8Array} first
 * @param {Uint8Array} second @returns {Uint8Array<ArrayBuffer>}
 */
export function joined(first, second) {
  const [a, b] = [directoryOf(first), directoryOf(second)];
  const result = new Uint8Array(first.length + second.length - END_BYTES);
  let at = 0;
  const append = (/** @type {Uint8Array} */ bytes) => {
    result.set(bytes, at);
    at += bytes.length;
  };
  append(first.subarray(0, a.start));
  append(second.subarray(0, b.start));
  append(first.subarray(a.start, a.end));
  append(second.subarray(b.start, b.end));
  append(second.subarray(b.end));
  const view = new DataView(result.buffer);
  let entry = a.start + b.start + a.end - a.start;
  for (let left = b.count; left > 0; left -= 1) {
    view.setUint32(entry + 42, view.getUint32(entry + 42, true) + a.start, true);
    entry += ENTRY_BYTES + view.getUint16(entry + 28, true) + view.getUint16(entry + 30, true) + view.getUint16(entry + 32, true);
  }
  const end = result.length - END_BYTES;
  for (const place of [8, 10]) view.setUint16(end + place, a.count + b.count, true);
  view.setUint32(end + 12, a.end - a.start + b.end - b.start, true);
  view.setUint32(end + 16, a.start + b.start, true);
  return result;
}

/** Where an archive's list of members is. @param {Uint8Array} archive without a comment */
function directoryOf(archive) {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  const end = archive.length - END_BYTES;
  if (end < 0 || view.getUint32(end, true) !== END) throw new Error("Python's library is no ZIP archive");
  return { start: view.getUint32(end + 16, true), end, count: view.getUint16(end + 10, true) };
}

/**
 * Writes files below a folder. In folders that it makes it adds the nodes itself, as Emscripten's writeFile does in the end:
 * that takes a fifth of the time, because no path is looked up and nothing can be there already.
 * @param {any} FS Emscripten's @param {string} root @param {{name: string, data: Uint8Array}[]} files
 */
function writeFiles(FS, root, files) {
  const folders = new Map([["", { node: FS.lookupPath(root).node, made: false }]]);
  /** @param {string} path of a folder below the root @returns {{node: any, made: boolean}} */
  const folderAt = (path) => {
    const known = folders.get(path);
    if (known) return known;
    const [above, name] = splitPath(path);
    const parent = folderAt(above);
    const found = parent.made ? null : childOf(FS, parent.node, name);
    const folder = found ? { node: found, made: false } : { node: parent.node.node_ops.mknod(parent.node, name, FOLDER_MODE, 0), made: true };
    folders.set(path, folder);
    return folder;
  };
  for (const { name: path, data } of files) {
    const [above, name] = splitPath(path);
    const folder = folderAt(above);
    if (folder.made) {
      const node = folder.node.node_ops.mknod(folder.node, name, FILE_MODE, 0);
      node.contents = data;
      node.usedBytes = data.length;
    } else {
      FS.writeFile(`${root}/${path}`, data, { canOwn: true });
    }
  }
}

/** @param {string} path @returns {[string, string]} the folder, and the name in it */
function splitPath(path) {
  const cut = path.lastIndexOf("/");
  return cut < 0 ? ["", path] : [path.slice(0, cut), path.slice(cut + 1)];
}

/** @param {any} FS @param {any} folder a node @param {string} name @returns {any} the node of that name, or null */
function childOf(FS, folder, name) {
  try {
    return FS.lookupNode(folder, name);
  } catch {
    return null; // there is none
  }
}

/**
 * The files in a ZIP archive, as views of its bytes; null if one is compressed, or if the archive is unusual.
 * @param {ArrayBuffer} archive @returns {{name: string, data: Uint8Array}[] | null}
 */
function storedMembers(archive) {
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
