/**
 * What this browser keeps of the work of a view: entries with a title, their content and their files, in IndexedDB.
 *
 * An entry is listed without its content, so that a list of long transcripts is read at once. Its files are Blobs, which
 * the browser keeps on disk. A browser without storage (a private window) keeps entries as long as the page.
 *
 * @typedef {{id: string, kind: string, title: string, about: string, created: number, updated: number, bytes: number}} HistoryEntry
 *   `kind` names the view, `about` is a line on what it is, times in milliseconds, `bytes` its size
 * @typedef {{name: string, blob: Blob}} KeptFile
 * @typedef {{entry: HistoryEntry, content: any, files: KeptFile[]}} HistoryItem
 */
import { UserError, megabytes } from "../shared/protocol.js";

const DATABASE = "pyapp-history";
const ENTRIES = "entries"; // by id
const CONTENTS = "contents"; // {id, content}
const FILES = "files"; // {id, name, blob}, by [id, name]
const SHARE = 0.5; // of what the browser allows
const MOST = 4e9; // bytes

export class HistoryStore {
  /** @param {string} kind of the entries that it lists */
  constructor(kind) {
    this.kind = kind;
    /** Whether what is written survives the page. */
    this.keeps = true;
    /** What a browser without storage has. @type {Map<string, HistoryItem>} */
    this.inMemory = new Map();
    this.opened = openDatabase().catch(() => {
      this.keeps = false;
      return null;
    });
    /** Writes come one after the other. @type {Promise<any>} */
    this.last = Promise.resolve();
    this.waiting = 0;
  }

  /** Whether something is not written yet. */
  get busy() {
    return this.waiting > 0;
  }

  /** @returns {Promise<HistoryEntry[]>} the last changed first */
  async list() {
    return (await this.#all()).filter(({ kind }) => kind === this.kind).sort((a, b) => b.updated - a.updated);
  }

  /** @returns {Promise<HistoryEntry[]>} */
  async #all() {
    await this.last.catch(() => {});
    const database = await this.opened;
    if (!database) return [...this.inMemory.values()].map(({ entry }) => entry);
    return asked(database.transaction(ENTRIES).objectStore(ENTRIES).getAll());
  }

  /**
   * How much all views keep, and how much they should.
   * @returns {Promise<{bytes: number, limit: number, oldest: HistoryEntry | null}>} `oldest`: what could be deleted first
   */
  async room() {
    const entries = await this.#all();
    const { quota = 2 * MOST } = await estimate();
    const own = entries.filter(({ kind }) => kind === this.kind).sort((a, b) => a.updated - b.updated);
    const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
    return { bytes, limit: Math.min(MOST, quota * SHARE), oldest: own[0] ?? null };
  }

  /** A new entry; `put` stores it. @param {string} title @returns {HistoryEntry} */
  begin(title) {
    const now = Date.now();
    return { id: crypto.randomUUID(), kind: this.kind, title, about: "", created: now, updated: now, bytes: 0 };
  }

  /**
   * Stores an entry and its content. Files that are not given stay as they are.
   * @param {HistoryEntry} entry @param {any} content JSON values @param {KeptFile[]} [files] @returns {Promise<void>}
   */
  put(entry, content, files) {
    const copy = structuredClone(content); // as it is now: the write may wait
    return this.#write(async (database) => {
      entry.updated = Date.now();
      if (!database) {
        const kept = files ?? this.inMemory.get(entry.id)?.files ?? [];
        entry.bytes = sizeOf(copy, kept);
        this.inMemory.set(entry.id, { entry: { ...entry }, content: copy, files: kept });
        return;
      }
      const transaction = database.transaction([ENTRIES, CONTENTS, FILES], "readwrite");
      const done = finished(transaction);
      const table = transaction.objectStore(FILES);
      if (files) {
        table.delete(rangeOf(entry.id));
        for (const { name, blob } of files) table.put({ id: entry.id, name, blob });
      }
      const there = await asked(transaction.objectStore(ENTRIES).get(entry.id));
      const fileBytes = files ? sum(files) : there?.fileBytes ?? 0;
      entry.bytes = fileBytes + lengthOf(copy);
      transaction.objectStore(ENTRIES).put({ ...entry, fileBytes });
      transaction.objectStore(CONTENTS).put({ id: entry.id, content: copy });
      await done;
    });
  }

  /** Adds a file to an entry. @param {string} id @param {string} name @param {Blob} blob @returns {Promise<void>} */
  addFile(id, name, blob) {
    return this.#write(async (database) => {
      if (!database) return void this.inMemory.get(id)?.files.push({ name, blob });
      const transaction = database.transaction([ENTRIES, FILES], "readwrite");
      const done = finished(transaction);
      const entries = transaction.objectStore(ENTRIES);
      const entry = await asked(entries.get(id));
      if (entry) {
        transaction.objectStore(FILES).put({ id, name, blob });
        entries.put({ ...entry, bytes: entry.bytes + blob.size, fileBytes: (entry.fileBytes ?? 0) + blob.size });
      }
      await done;
    });
  }

  /** @param {string} id @returns {Promise<HistoryItem | null>} null if it was deleted */
  async read(id) {
    await this.last.catch(() => {});
    const database = await this.opened;
    if (!database) return structuredCloneOf(this.inMemory.get(id));
    const transaction = database.transaction([ENTRIES, CONTENTS, FILES]);
    const [entry, kept, files] = await Promise.all([
      asked(transaction.objectStore(ENTRIES).get(id)), asked(transaction.objectStore(CONTENTS).get(id)),
      asked(transaction.objectStore(FILES).getAll(rangeOf(id))),
    ]);
    return entry && kept ? { entry, content: kept.content, files: files.map(({ name, blob }) => ({ name, blob })) } : null;
  }

  /** @param {string} id @param {string} title @returns {Promise<void>} */
  rename(id, title) {
    return this.#write(async (database) => {
      if (!database) {
        const item = this.inMemory.get(id);
        if (item) item.entry.title = title;
        return;
      }
      const transaction = database.transaction(ENTRIES, "readwrite");
      const done = finished(transaction);
      const entry = await asked(transaction.objectStore(ENTRIES).get(id));
      if (entry) transaction.objectStore(ENTRIES).put({ ...entry, title });
      await done;
    });
  }

  /** @param {string} id @returns {Promise<HistoryItem | null>} what was deleted, for `restore` */
  async remove(id) {
    const item = await this.read(id);
    await this.#write(async (database) => {
      this.inMemory.delete(id);
      if (!database) return;
      const transaction = database.transaction([ENTRIES, CONTENTS, FILES], "readwrite");
      const done = finished(transaction);
      transaction.objectStore(ENTRIES).delete(id);
      transaction.objectStore(CONTENTS).delete(id);
      transaction.objectStore(FILES).delete(rangeOf(id));
      await done;
    });
    return item;
  }

  /** Puts a deleted item back, at its place. @param {HistoryItem} item @returns {Promise<void>} */
  async restore({ entry, content, files }) {
    const { updated } = entry;
    await this.put(entry, content, files);
    await this.#write(async (database) => {
      if (!database) return void (this.inMemory.get(entry.id).entry.updated = updated);
      const transaction = database.transaction(ENTRIES, "readwrite");
      const done = finished(transaction);
      const stored = await asked(transaction.objectStore(ENTRIES).get(entry.id));
      transaction.objectStore(ENTRIES).put({ ...stored, updated });
      await done;
    });
  }

  /** @param {(database: IDBDatabase | null) => Promise<void>} work @returns {Promise<void>} */
  #write(work) {
    this.waiting += 1;
    this.last = this.last.catch(() => {}).then(async () => {
      try {
        await work(await this.opened);
      } catch (error) {
        throw error?.name === "QuotaExceededError" ? await this.#full() : error;
      } finally {
        this.waiting -= 1;
      }
    });
    return this.last;
  }

  async #full() {
    const { quota = 0, usage = 0 } = await estimate();
    return new UserError(`The disk, or this browser's room for this page, is full: ${megabytes(usage)} of ${megabytes(quota)} are used.`, {
      hint: "This is not kept after the page is closed. Save it as a file, or delete older entries below “Earlier”, or models under Storage.",
      action: "storage",
    });
  }
}

/** @returns {Promise<StorageEstimate>} empty where the browser does not tell */
async function estimate() {
  try {
    return await navigator.storage.estimate();
  } catch {
    return {};
  }
}

/** The keys of all files of an entry. @param {string} id */
const rangeOf = (id) => IDBKeyRange.bound([id], [id, []]);

/** @param {any} content @returns {number} bytes */
const lengthOf = (content) => new Blob([JSON.stringify(content)]).size;

/** @param {KeptFile[]} files */
const sum = (files) => files.reduce((bytes, { blob }) => bytes + blob.size, 0);

/** @param {any} content @param {KeptFile[]} files */
const sizeOf = (content, files) => lengthOf(content) + sum(files);

/** @param {HistoryItem | undefined} item @returns {HistoryItem | null} */
const structuredCloneOf = (item) => (item ? structuredClone(item) : null);

/** @returns {Promise<IDBDatabase>} */
function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(ENTRIES, { keyPath: "id" });
    request.result.createObjectStore(CONTENTS, { keyPath: "id" });
    request.result.createObjectStore(FILES, { keyPath: ["id", "name"] });
  };
  return asked(request);
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function asked(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}
