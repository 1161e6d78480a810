/**
 * Byte sources that Python reads: a File (dropped, or kept in OPFS), or bytes in memory. Reading copies straight into
 * WebAssembly memory, so a model is never held twice. Python sees `name`, `size`, `read` and `readInto`.
 */

/** A file of any size: only the slices that are asked for are read. */
export class FileSource {
  #reader = new FileReaderSync();

  /** @param {Blob} file @param {string} name */
  constructor(file, name) {
    this.file = file;
    this.name = name;
    this.size = file.size;
  }

  /** @param {number} offset @param {number} length @returns {Uint8Array} */
  read(offset, length) {
    return new Uint8Array(this.#reader.readAsArrayBuffer(this.file.slice(offset, offset + length)));
  }

  /** @param {Uint8Array} target a view of WebAssembly memory, filled from `offset` on */
  readInto(target, offset) {
    target.set(this.read(offset, target.length));
  }

  close() {}
}

/** A kept file through its sync access handle: no copy through the browser's process. */
export class HandleSource {
  /** @param {FileSystemSyncAccessHandle} handle @param {string} name */
  constructor(handle, name) {
    this.handle = handle;
    this.name = name;
    this.size = handle.getSize();
  }

  read(offset, length) {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.size - offset)));
    this.handle.read(bytes, { at: offset });
    return bytes;
  }

  readInto(target, offset) {
    this.handle.read(target, { at: offset });
  }

  close() {
    this.handle.close();
  }
}

/** Bytes that are in memory already. */
export class MemorySource {
  /** @param {ArrayBuffer} buffer @param {string} name */
  constructor(buffer, name) {
    this.bytes = new Uint8Array(buffer);
    this.name = name;
    this.size = this.bytes.length;
  }

  read(offset, length) {
    return this.bytes.subarray(offset, offset + length);
  }

  readInto(target, offset) {
    target.set(this.bytes.subarray(offset, offset + target.length));
  }

  close() {}
}

/**
 * @param {FileSystemFileHandle} handle
 * @param {string} name
 */
export async function openHandle(handle, name) {
  try {
    // Read-only handles are shared between tabs. Browsers without modes would take an exclusive one: not for reading.
    if ("mode" in FileSystemSyncAccessHandle.prototype) {
      return new HandleSource(await handle.createSyncAccessHandle({ mode: "read-only" }), name);
    }
  } catch (error) {
    if (error.name !== "NoModificationAllowedError") throw error; // it is being written: what was there before is read
  }
  return new FileSource(await handle.getFile(), name);
}

/**
 * @param {import("./store.js").Entry} entry a complete file
 * @param {string} name
 */
export const openEntry = async (entry, name) => openHandle(await entry.folder.getFileHandle("data"), name);
