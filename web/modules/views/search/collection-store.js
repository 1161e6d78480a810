/**
 * The collections that this browser keeps, in IndexedDB. A browser without storage keeps them as long as the page.
 */
const DATABASE = "pyapp-search";
const TABLE = "collections";

export class CollectionStore {
  constructor() {
    /** @type {Map<string, import("./collection.js").CollectionRecord>} what a browser without storage has */
    this.inMemory = new Map();
    /** Whether what is written survives the page. */
    this.keeps = true;
    this.opened = open().catch(() => {
      this.keeps = false;
      return null;
    });
  }

  /** @returns {Promise<import("./collection.js").CollectionRecord[]>} all records, the last changed first */
  async list() {
    const database = await this.opened;
    const records = database ? await asked(database.transaction(TABLE).objectStore(TABLE).getAll()) : [...this.inMemory.values()];
    return records.sort((a, b) => b.updated - a.updated);
  }

  /** @param {import("./collection.js").CollectionRecord} record */
  async put(record) {
    const database = await this.opened;
    if (!database) this.inMemory.set(record.id, record);
    else await written(database, (table) => table.put(record));
  }

  /** @param {string} id */
  async remove(id) {
    const database = await this.opened;
    this.inMemory.delete(id);
    if (database) await written(database, (table) => table.delete(id));
  }
}

function written(database, change) {
  const transaction = database.transaction(TABLE, "readwrite");
  change(transaction.objectStore(TABLE));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(undefined);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

function open() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "id" });
  return asked(request);
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function asked(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
