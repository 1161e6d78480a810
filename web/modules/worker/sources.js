/**
 * Byte sources that Python reads: a File (dropped, or stored in OPFS), or bytes in memory. `readInto` copies directly into
 * WebAssembly memory, so that no model is in memory twice. Python uses `name`, `size`, `read` and `readInto`. A file of the user
 * may be gone: `read` then returns undefined, and `readInto` false. (Exceptions of JavaScript have no class that Python knows.)
 */
import { UNREADABLE, nameOf } from "../shared/protocol.js";

/** A file of any size. Only the requested slices are read. */
export class FileSource {
  #reader = new FileReaderSync();

  /** @param {Blob} file @param {string} name */
  constructor(file, name) {
    this.file = file;
    this.name = name;
    this.size = file.size;
  }

  /** @param {number} offset @param {number} length @returns {Uint8Array | undefined} undefined: the file has changed or is gone */
  read(offset, length) {
    try {
      return new Uint8Array(this.#reader.readAsArrayBuffer(this.file.slice(offset, offset + length)));
    } catch (error) {
      if (UNREADABLE.includes(nameOf(error))) return undefined;
      throw error;
    }
  }

  /** @param {Uint8Array} target a view of WebAssembly memory, filled from `offset` on @param {number} offset @returns {boolean} as `read` */
  readInto(target, offset) {
    const bytes = this.read(offset, target.length);
    if (bytes) target.set(bytes);
    return bytes !== undefined;
  }

  close() {}
}

/** A stored file, read by its sync access handle: its bytes do not pass through the browser's process. */
class HandleSource {
  /** @param {FileSystemSyncAccessHandle} handle @param {string} name */
  constructor(handle, name) {
    this.handle = handle;
    this.name = name;
    this.size = handle.getSize();
  }

  /** @param {number} offset @param {number} length @returns {Uint8Array} */
  read(offset, length) {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.size - offset)));
    this.handle.read(bytes, { at: offset });
    return bytes;
  }

  /** @param {Uint8Array} target a view of WebAssembly memory, filled from `offset` on @param {number} offset */
  readInto(target, offset) {
    this.handle.read(target, { at: offset });
  }

  close() {
    this.handle.close();
  }
}

/** Bytes in memory. */
export class MemorySource {
  /** @param {ArrayBuffer} buffer @param {string} name */
  constructor(buffer, name) {
    this.bytes = new Uint8Array(buffer);
    this.name = name;
    this.size = this.bytes.length;
  }

  /** @param {number} offset @param {number} length @returns {Uint8Array} */
  read(offset, length) {
    return this.bytes.subarray(offset, offset + length);
  }

  /** @param {Uint8Array} target a view of WebAssembly memory, filled from `offset` on @param {number} offset */
  readInto(target, offset) {
    target.set(this.bytes.subarray(offset, offset + target.length));
  }

  close() {}
}

/**
 * Opens a stored file for reading.
 * @param {FileSystemFileHandle} handle
 * @param {string} name
 */
export async function openHandle(handle, name) {
  try {
    // Tabs can share read-only handles. Browsers without modes have exclusive handles only; those are not for reading.
    if ("mode" in FileSystemSyncAccessHandle.prototype) {
      return new HandleSource(await handle.createSyncAccessHandle({ mode: "read-only" }), name);
    }
  } catch (error) {
    if (nameOf(error) !== "NoModificationAllowedError") throw error; // another tab writes the file
  }
  return new FileSource(await handle.getFile(), name);
}

/**
 * @param {import("./store.js").Entry} entry a complete file
 * @param {string} name
 */
export const openEntry = async (entry, name) => openHandle(await entry.folder.getFileHandle("data"), name);
