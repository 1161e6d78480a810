/**
 * What this browser keeps of the work of a view: entries with a title, their content and their files, in IndexedDB.
 *
 * An entry is listed without its content, so that a list of long transcripts is read at once. Its files are Blobs, which
 * the browser keeps on disk. A browser without storage (a private window) keeps entries as long as the page.
 *
 * Two tabs may change the same entry. The one that stores later finds another revision there, and becomes an entry of its own.
 *
 * @typedef {{id: string, kind: string, title: string, about: string, created: number, updated: number, bytes: number, revision?: number, renamed?: number}} HistoryEntry
 *   `kind` says what it is, `about` is a line on it, times in milliseconds, `bytes` its size, `revision`: how often it was stored, `renamed`: when the user last did
 * @typedef {{name: string, blob: Blob}} KeptFile
 * @typedef {{name: string, type?: string, blob: Blob | ArrayBuffer}} StoredFile
 * @typedef {{entry: HistoryEntry, content: any, files: KeptFile[]}} HistoryItem
 */
import { UserError, megabytes, nameOf } from "../shared/protocol.js";
import { randomId } from "../shared/random-id.js";
import { soon } from "../shared/soon.js";
import { asked, change, takeRecords } from "./database.js";
import { arrive, leave, leftOf } from "./left.js";

const DATABASE = "pyapp-history";
const ENTRIES = "entries"; // by id
const CONTENTS = "contents"; // {id, content}
const FILES = "files"; // {id, name, type, blob}, by [id, name]
const SHARE = 0.5; // of what the browser allows
const MOST = 4e9; // bytes

export class HistoryStore {
  /**
   * @param {string} kind of the entries that it lists
   * @param {{database: string, table: string, itemOf: (record: any) => HistoryItem, textOf: (content: any) => string}} [earlier] where
   *   earlier versions of the page kept them; `add` explains textOf
   */
  constructor(kind, earlier) {
    this.kind = kind;
    /** Whether what is written survives the page. */
    this.keeps = true;
    /** What a browser without storage has. @type {Map<string, HistoryItem>} */
    this.inMemory = new Map();
    /** @type {Promise<IDBDatabase | null> | null} */
    this.opening = this.#open();
    /** Whether files can be stored as Blobs; asked when there is the first. @type {Promise<boolean> | null} */
    this.takesBlobs = null;
    /** Writes come one after the other. @type {Promise<any>} */
    this.last = Promise.resolve();
    this.waiting = 0;
    /** Ids of what could not be written as it is now. @type {Set<string>} */
    this.failed = new Set();
    /** When what was kept of an entry, by its id, was to be written: it is forgotten once that is. @type {Map<string, number>} */
    this.left = new Map();
    /** Resolves when what earlier pages had no time to write is here. @type {Promise<void>} */
    this.recovered = this.#recover();
    this.recovered.catch(() => {}); // it stays where it is, for the next page
    /** Resolves when the records of earlier versions are here. @type {Promise<void>} */
    this.moved = earlier ? takeRecords(earlier.database, earlier.table, (records) => this.#adopt(records.map(earlier.itemOf), earlier.textOf)) : Promise.resolve();
  }

  /** @returns {Promise<IDBDatabase | null>} null where the browser has no storage for the page */
  get opened() {
    return (this.opening ??= this.#open());
  }

  /** @returns {Promise<IDBDatabase | null>} */
  async #open() {
    try {
      const database = await openDatabase();
      database.onclose = () => (this.opening = null); // the browser's data was cleared: the next use opens it anew
      return database;
    } catch {
      this.keeps = false;
      return null;
    }
  }

  async #recover() {
    for (const { entry, content } of leftOf(this.kind)) {
      const there = await this.#read(entry.id);
      if (!there || there.entry.updated < entry.updated) await this.put(entry, content, { updated: entry.updated });
      arrive(entry.id);
    }
  }

  /** Whether something is not written yet. */
  get busy() {
    return this.waiting > 0;
  }

  /** Whether something of an entry is lost if the page is left now. @param {HistoryEntry | null} entry what is shown; null: nothing */
  loses(entry) {
    return this.busy || (entry !== null && (!this.keeps || this.failed.has(entry.id)));
  }

  /** @returns {Promise<HistoryEntry[]>} the last changed first */
  async list() {
    await this.recovered.catch(() => {});
    await this.moved.catch(() => {}); // the view says why
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
    return { id: randomId(), kind: this.kind, title, about: "", created: now, updated: now, bytes: 0, revision: 0 };
  }

  /**
   * Stores an entry and its content, and sets its size and revision. If another tab has changed it too, both are kept: this
   * one gets a new id. A title that the user gave it in another tab stays. Files that are not given stay as they are.
   * @param {HistoryEntry} entry @param {any} content plain values
   * @param {{files?: KeptFile[], allFiles?: KeptFile[], updated?: number}} [options] `allFiles` are stored if another tab has deleted the entry
   * @returns {Promise<void>}
   */
  put(entry, content, { files: changed, allFiles, updated = Date.now() } = {}) {
    const copy = copyOf(content); // as it is now: the write may wait
    if (document.visibilityState === "hidden" && this.keeps) {
      leave({ ...entry, updated }, copy); // the page may be closed before it is written
      this.left.set(entry.id, updated);
    }
    const length = lengthOf(copy);
    return this.#writeOf(entry.id, async (database) => {
      this.failed.delete(entry.id);
      const changes = { updated, revision: (entry.revision ?? 0) + 1 };
      if (!database) {
        const kept = changed ?? this.inMemory.get(entry.id)?.files ?? allFiles ?? [];
        Object.assign(entry, changes, { bytes: length + sum(kept) });
        this.inMemory.set(entry.id, { entry: { ...entry }, content: copy, files: kept });
        return;
      }
      const deleted = !changed && allFiles?.length && await asked(database.transaction(ENTRIES).objectStore(ENTRIES).count(entry.id)) === 0;
      const files = deleted ? allFiles : changed;
      const storable = files && await this.#storable(database, files);
      await change(database, [ENTRIES, CONTENTS, FILES], async (transaction) => {
        const [entries, table] = [transaction.objectStore(ENTRIES), transaction.objectStore(FILES)];
        const there = await asked(entries.get(entry.id));
        const other = there && (there.revision ?? 0) !== (entry.revision ?? 0);
        const id = other ? randomId() : entry.id;
        const given = storable ?? (other ? await asked(table.getAll(rangeOf(entry.id))) : null);
        if (given) {
          table.delete(rangeOf(id));
          for (const file of given) table.put({ ...file, id });
        }
        const fileBytes = given ? sum(given) : there?.fileBytes ?? 0;
        const { title, renamed } = (there?.renamed ?? 0) > (entry.renamed ?? 0) ? there : entry;
        Object.assign(changes, { id, title, renamed, bytes: fileBytes + length });
        entries.put({ ...entry, ...changes, fileBytes });
        transaction.objectStore(CONTENTS).put({ id, content: copy });
      });
      if (this.left.get(entry.id) === updated) arrive(entry.id);
      Object.assign(entry, changes);
    });
  }

  /**
   * Adds entries of a file. Those that are here with the same text are left out, those with another text get new ids.
   * @param {HistoryItem[]} items @param {(content: any) => string} textOf what a user would miss of a content
   * @returns {Promise<number>} how many were added
   */
  async add(items, textOf) {
    await this.moved.catch(() => {});
    return this.#adopt(items, textOf);
  }

  /** As `add`. @param {HistoryItem[]} items @param {(content: any) => string} textOf */
  async #adopt(items, textOf) {
    let added = 0;
    for (const { entry, content, files } of items) {
      const there = await this.read(entry.id);
      if (there && textOf(there.content) === textOf(content)) continue;
      const fresh = { ...entry, kind: this.kind, id: there ? randomId() : entry.id, revision: 0 };
      await this.put(fresh, content, { files, updated: entry.updated });
      added += 1;
    }
    return added;
  }

  /** Adds a file to an entry. @param {string} id @param {string} name @param {Blob} blob @returns {Promise<void>} */
  addFile(id, name, blob) {
    return this.#writeOf(id, async (database) => {
      if (!database) return void this.inMemory.get(id)?.files.push({ name, blob });
      const [file] = await this.#storable(database, [{ name, blob }]);
      await change(database, [ENTRIES, FILES], async (transaction) => {
        const entries = transaction.objectStore(ENTRIES);
        const entry = await asked(entries.get(id));
        if (!entry) return;
        transaction.objectStore(FILES).put({ ...file, id });
        entries.put({ ...entry, bytes: entry.bytes + blob.size, fileBytes: (entry.fileBytes ?? 0) + blob.size });
      });
    });
  }

  /** @param {string} id @returns {Promise<HistoryItem | null>} null if it was deleted */
  async read(id) {
    await this.recovered.catch(() => {});
    return this.#read(id);
  }

  /** @param {string} id @returns {Promise<HistoryItem | null>} */
  async #read(id) {
    await this.last.catch(() => {});
    const database = await this.opened;
    if (!database) return structuredCloneOf(this.inMemory.get(id));
    const transaction = database.transaction([ENTRIES, CONTENTS, FILES]);
    const [entry, kept, files] = await Promise.all([
      asked(transaction.objectStore(ENTRIES).get(id)), asked(transaction.objectStore(CONTENTS).get(id)),
      asked(transaction.objectStore(FILES).getAll(rangeOf(id))),
    ]);
    return entry && kept ? { entry, content: kept.content, files: files.map(fileOf) } : null;
  }

  /** @param {string} id @param {string} title @returns {Promise<void>} */
  rename(id, title) {
    return this.#write(async (database) => {
      if (!database) {
        const item = this.inMemory.get(id);
        if (item) item.entry.title = title;
        return;
      }
      await change(database, ENTRIES, async (transaction) => {
        const entry = await asked(transaction.objectStore(ENTRIES).get(id));
        if (entry) transaction.objectStore(ENTRIES).put({ ...entry, title, renamed: Date.now() });
      });
    });
  }

  /** @param {string} id @returns {Promise<HistoryItem | null>} what was deleted, for `restore` */
  async remove(id) {
    const item = await this.read(id);
    await this.#write(async (database) => {
      arrive(id);
      this.inMemory.delete(id);
      this.failed.delete(id);
      if (!database) return;
      await change(database, [ENTRIES, CONTENTS, FILES], (transaction) => {
        transaction.objectStore(ENTRIES).delete(id);
        transaction.objectStore(CONTENTS).delete(id);
        transaction.objectStore(FILES).delete(rangeOf(id));
      });
    });
    return item;
  }

  /** Puts a deleted item back, at its place. @param {HistoryItem} item @returns {Promise<void>} */
  restore({ entry, content, files }) {
    return this.put(entry, content, { files, updated: entry.updated });
  }

  /** @param {(database: IDBDatabase | null) => Promise<void>} work @returns {Promise<void>} */
  #write(work) {
    this.waiting += 1;
    this.last = this.last.catch(() => {}).then(async () => {
      try {
        await this.#attempt(work);
      } catch (error) {
        throw nameOf(error) === "QuotaExceededError" ? await this.#full() : error;
      } finally {
        this.waiting -= 1;
      }
    });
    return this.last;
  }

  /** Notes where it fails. @param {string} id @param {(database: IDBDatabase | null) => Promise<void>} work @returns {Promise<void>} */
  #writeOf(id, work) {
    return this.#write(async (database) => {
      try {
        await work(database);
      } catch (error) {
        this.failed.add(id);
        throw error;
      }
    });
  }

  /**
   * Once more where the browser says InvalidStateError. In Firefox, the first change after one that found no room may only
   * delete; and where the browser's data was cleared, the database is opened anew. @param {(database: IDBDatabase | null) => Promise<void>} work
   */
  async #attempt(work) {
    try {
      await work(await this.opened);
    } catch (error) {
      if (nameOf(error) !== "InvalidStateError") throw error;
      await work(await this.opened);
    }
  }

  /** Files as this browser stores them. @param {IDBDatabase} database @param {KeptFile[]} files @returns {Promise<StoredFile[]>} */
  async #storable(database, files) {
    this.takesBlobs ??= files.length ? takesBlobs(database) : null;
    this.takesBlobs?.catch(() => (this.takesBlobs = null)); // no room even to try: it is asked again
    const asBlobs = await (this.takesBlobs ?? true);
    return Promise.all(files.map(async ({ name, blob }) => ({ name, type: blob.type, blob: asBlobs ? blob : await blob.arrayBuffer() })));
  }

  async #full() {
    const { usage } = await estimate(); // its quota is not that of the disk
    const used = usage ? `: it keeps ${megabytes(usage)}` : "";
    return new UserError(`The disk, or this browser's room for this page, is full${used}.`, {
      hint: "This is not kept after the page is closed. Save it as a file, or delete older entries in its list, or models under Storage.",
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

/** A copy of plain values that shares their texts, which do not change: a notebook may have megabytes of them. @param {any} value @returns {any} */
function copyOf(value) {
  if (Array.isArray(value)) return value.map(copyOf);
  if (value === null || typeof value !== "object") return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, copyOf(part)]));
}

/** About how much room a content takes. @param {any} content @returns {number} bytes */
function lengthOf(content) {
  if (typeof content === "string") return lengthOfText(content) + 2;
  if (content === null || typeof content !== "object") return 8;
  if (ArrayBuffer.isView(content) || content instanceof ArrayBuffer) return content.byteLength;
  let bytes = 2;
  for (const name in content) bytes += lengthOf(content[name]) + (Array.isArray(content) ? 1 : name.length + 4);
  return bytes;
}

/** Bytes of a text in UTF-8, without a copy of it. @param {string} text */
function lengthOfText(text) {
  let bytes = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 0x7ff && (code < 0xd800 || code > 0xdfff)) bytes += 2;
    else if (code > 0x7f) bytes += 1; // each half of a pair of surrogates has two of its four bytes
  }
  return bytes;
}

/** @param {(KeptFile | StoredFile)[]} files */
const sum = (files) => files.reduce((bytes, { blob }) => bytes + (blob instanceof Blob ? blob.size : blob.byteLength), 0);

/** @param {StoredFile} file @returns {KeptFile} */
const fileOf = ({ name, type, blob }) => ({ name, blob: blob instanceof Blob ? blob : new Blob([blob], { type }) });

/** @param {HistoryItem | undefined} item @returns {HistoryItem | null} */
const structuredCloneOf = (item) => (item ? structuredClone(item) : null);

/** Whether Blobs can be stored: WebKit refuses them in private windows. @param {IDBDatabase} database */
async function takesBlobs(database) {
  const transaction = database.transaction(FILES, "readwrite");
  const written = asked(transaction.objectStore(FILES).put({ id: "", name: "", blob: new Blob(["a"]) }));
  const takes = await written.then(() => true, (error) => {
    if (nameOf(error) === "QuotaExceededError") throw error;
    return false;
  });
  if (takes) transaction.abort(); // nothing is to stay
  return takes;
}

/** Rejects, too, where the browser refuses even to look at `indexedDB`. @returns {Promise<IDBDatabase>} */
async function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(ENTRIES, { keyPath: "id" });
    request.result.createObjectStore(CONTENTS, { keyPath: "id" });
    request.result.createObjectStore(FILES, { keyPath: ["id", "name"] });
  };
  return soon(asked(request));
}
