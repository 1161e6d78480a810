/**
 * Files stored in the browser's origin private file system (OPFS). Some private windows do not have one.
 *
 * Each file is a folder `files/<key>/` with `data` (the bytes so far) and `journal` (one JSON object in each line; the last
 * complete line counts). A line is written after the data that it describes has been flushed. So after an interruption the
 * journal never claims more bytes than there are.
 *
 * @typedef {{name: string, url: string, size: number | null, received: number, etag: string | null,
 *   sha256: string | null, complete: boolean, group: string | null, time: number}} Journal
 */
import { locked } from "../shared/locks.js";
import { present } from "../shared/present.js";
import { UserError, nameOf } from "../shared/protocol.js";
import { soon } from "../shared/soon.js";
import { openHandle } from "./sources.js";

const MODELS = "models.json";

/** A folder or file name that every file system accepts. @param {string} name */
export function keyOf(name) {
  return name.replace(/[^A-Za-z0-9._-]/g, (c) => `~${c.charCodeAt(0).toString(16)}~`);
}

/**
 * @param {FileSystemDirectoryHandle} folder
 * @param {string} name
 * @param {(file: FileSystemSyncAccessHandle) => T} use
 * @returns {Promise<T>}
 * @template T
 */
async function withFile(folder, name, use) {
  const handle = await folder.getFileHandle(name, { create: true });
  const file = await handle.createSyncAccessHandle();
  try {
    return use(file);
  } finally {
    file.close();
  }
}

/** @param {FileSystemFileHandle} handle @returns {Promise<Uint8Array>} */
async function readAll(handle) {
  const source = await openHandle(handle, handle.name);
  try {
    return present(source.read(0, source.size), "the stored file");
  } finally {
    source.close();
  }
}

/** The last complete line of a journal. @param {string} text @returns {Journal | null} */
function lastJournal(text) {
  const lines = text.split("\n");
  for (let i = lines.length - 1; i >= 0; i -= 1) {
    try {
      const journal = JSON.parse(lines[i]);
      if (typeof journal?.received === "number") return journal;
    } catch {
      // An incomplete or empty line: the line before it counts.
    }
  }
  return null;
}

/** One stored file. */
export class Entry {
  /** @param {FileSystemDirectoryHandle} folder @param {string} key */
  constructor(folder, key) {
    this.folder = folder;
    this.key = key;
    /** @type {FileSystemSyncAccessHandle | null} */
    this.data = null;
  }

  /** @returns {Promise<Journal | null>} the file's state; `received` is at most the bytes that are there */
  async journal() {
    try {
      const handle = await this.folder.getFileHandle("journal");
      const journal = lastJournal(await (await handle.getFile()).text());
      if (!journal) return null;
      const data = await (await this.folder.getFileHandle("data")).getFile();
      const received = Math.min(journal.received, data.size);
      const complete = journal.complete && data.size === journal.size;
      return { ...journal, received, complete };
    } catch (error) {
      if (nameOf(error) === "NotFoundError") return null;
      throw error;
    }
  }

  /** Opens the data for writing from `position` on. @param {number} position */
  async open(position) {
    const handle = await this.folder.getFileHandle("data", { create: true });
    this.data = await handle.createSyncAccessHandle();
    this.data.truncate(position);
  }

  /** @param {Uint8Array} bytes @param {number} position */
  write(bytes, position) {
    const written = present(this.data, "the open file").write(bytes, { at: position });
    if (written !== bytes.length) throw new DOMException("short write", "QuotaExceededError");
  }

  /** Flushes the data, then adds a line to the journal. @param {Journal} journal */
  async commit(journal) {
    this.data?.flush();
    const line = new TextEncoder().encode(`${JSON.stringify({ ...journal, time: Date.now() })}\n`);
    await withFile(this.folder, "journal", (file) => {
      const end = file.getSize();
      if (file.write(line, { at: end }) !== line.length) throw new DOMException("short write", "QuotaExceededError");
      file.flush();
    });
  }

  close() {
    this.data?.close();
    this.data = null;
  }

  /** @returns {Promise<File>} the bytes, readable by several tabs at once */
  async file() {
    return (await this.folder.getFileHandle("data")).getFile();
  }
}

/** The stored files of this page. */
export class Store {
  /** @param {FileSystemDirectoryHandle} root */
  constructor(root) {
    this.root = root;
  }

  async #files() {
    return this.root.getDirectoryHandle("files", { create: true });
  }

  /** The file of a name; makes its folder if there is none. @param {string} name as in Journal.name */
  async entry(name) {
    const key = keyOf(name);
    return new Entry(await (await this.#files()).getDirectoryHandle(key, { create: true }), key);
  }

  /** @returns {Promise<(Journal & {key: string})[]>} all stored files, complete or not */
  async list() {
    const reading = [];
    for await (const [key, folder] of (await this.#files()).entries()) {
      if (folder.kind === "directory") reading.push(new Entry(folder, key).journal().then((journal) => journal && { ...journal, key }));
    }
    const found = await Promise.all(reading);
    return found.filter((one) => one !== null).sort((a, b) => a.name.localeCompare(b.name));
  }

  /** @param {string} key */
  async remove(key) {
    for (let attempt = 0; attempt < 25; attempt += 1) {
      try {
        await (await this.#files()).removeEntry(key, { recursive: true });
        return;
      } catch (error) {
        if (nameOf(error) === "NotFoundError") return;
        await new Promise((resolve) => setTimeout(resolve, 200)); // it may be open for reading
      }
    }
    throw new UserError("This file is in use in another tab of this page.", {
      where: key,
      hint: "Close the other tab, or stop its download, and delete again.",
    });
  }

  /** The models that the user has added, as they were written. @returns {Promise<import("../shared/registry.js").Model[]>} */
  async models() {
    try {
      const handle = await this.root.getFileHandle(MODELS);
      const found = JSON.parse(await (await handle.getFile()).text());
      return Array.isArray(found) ? found : [];
    } catch (error) {
      if (nameOf(error) === "NotFoundError" || error instanceof SyntaxError) return []; // none yet, or it was cut off
      throw error;
    }
  }

  /** Changes the list of added models. Tabs change it one after the other. @param {(models: import("../shared/registry.js").Model[]) => import("../shared/registry.js").Model[]} change */
  async changeModels(change) {
    const work = async () => {
      const bytes = new TextEncoder().encode(JSON.stringify(change(await this.models())));
      await withFile(this.root, MODELS, (file) => {
        file.truncate(0);
        if (file.write(bytes, { at: 0 }) !== bytes.length) throw new DOMException("short write", "QuotaExceededError");
        file.flush();
      });
    };
    await locked("pyapp:models", work);
  }

  async clear() {
    for (const { key } of await this.list()) await this.remove(key);
    try {
      await this.root.removeEntry("snapshots", { recursive: true });
    } catch (error) {
      if (nameOf(error) !== "NotFoundError") throw error;
    }
  }

  /** @param {string} name @returns {Promise<{bytes: Promise<Uint8Array>} | null>} */
  async snapshot(name) {
    try {
      const folder = await this.root.getDirectoryHandle("snapshots");
      return { bytes: readAll(await folder.getFileHandle(name)) };
    } catch (error) {
      if (nameOf(error) === "NotFoundError") return null;
      throw error;
    }
  }

  /** Stores a snapshot, and deletes all others. @param {string} name @param {Uint8Array<ArrayBuffer>} bytes */
  async writeSnapshot(name, bytes) {
    const folder = await this.root.getDirectoryHandle("snapshots", { create: true });
    for await (const old of folder.keys()) await folder.removeEntry(old).catch(() => {});
    const handle = await folder.getFileHandle(name, { create: true });
    // createWritable replaces the file on close: an interrupted write changes nothing.
    const file = await handle.createWritable();
    await file.write(bytes);
    await file.close();
  }

  /** @param {string} name */
  async removeSnapshot(name) {
    const folder = await this.root.getDirectoryHandle("snapshots", { create: true });
    await folder.removeEntry(name).catch(() => {});
  }
}

/** The error where there is none. @param {string} hint what to do without */
export const noStore = (hint) => new UserError("This browser does not store files for this page.", {
  hint: `${isSecureContext ? "It may be a private window." : "Browsers do so only for https:// addresses and localhost."} ${hint}`,
});

/** @returns {Promise<Store | null>} null if the browser does not store files for this page */
export async function openStore() {
  try {
    const top = await soon(navigator.storage.getDirectory());
    return new Store(await soon(top.getDirectoryHandle("pyapp", { create: true })));
  } catch {
    return null;
  }
}
