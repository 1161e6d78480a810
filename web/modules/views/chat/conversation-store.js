/**
 * The conversations that this browser keeps, in IndexedDB; and drafts, in localStorage, which is written at once.
 *
 * A browser without storage (a private window) keeps them as long as the page.
 */
import { Conversation } from "./conversation.js";

const DATABASE = "pyapp-conversations";
const TABLE = "conversations";
const DRAFTS = "pyapp.chat-drafts";

export class ConversationStore {
  constructor() {
    /** @type {Map<string, import("./conversation.js").ConversationRecord>} what a browser without storage has */
    this.inMemory = new Map();
    /** Whether what is written survives the page. */
    this.keeps = true;
    this.opened = open().catch(() => {
      this.keeps = false;
      return null;
    });
    /** Writes come one after the other. */
    this.last = Promise.resolve();
    /** What is stored of each conversation, as far as this tab knows. @type {WeakMap<Conversation, string>} */
    this.stored = new WeakMap();
  }

  /** The conversation of a record of the list. @param {import("./conversation.js").ConversationRecord} record */
  read(record) {
    const conversation = new Conversation(record);
    this.stored.set(conversation, contentOf(record));
    return conversation;
  }

  /** @returns {Promise<import("./conversation.js").ConversationRecord[]>} all records, the last changed first */
  async list() {
    const database = await this.opened;
    const records = database ? await asked(database.transaction(TABLE).objectStore(TABLE).getAll()) : [...this.inMemory.values()];
    return records.sort((a, b) => b.updated - a.updated);
  }

  /**
   * Stores a conversation, if it has changed. If another tab has changed it too, both are kept: this one gets a new id.
   * @param {Conversation} conversation @returns {Promise<void>}
   */
  put(conversation) {
    this.last = this.last.catch(() => {}).then(() => this.#put(conversation));
    return this.last;
  }

  async #put(conversation) {
    const database = await this.opened;
    const content = contentOf(conversation.toRecord());
    if (this.stored.get(conversation) === content) return;
    if (!database) {
      this.inMemory.set(conversation.id, conversation.toRecord());
      return;
    }
    const transaction = database.transaction(TABLE, "readwrite");
    const table = transaction.objectStore(TABLE);
    const there = await asked(table.get(conversation.id));
    if (there && there.revision !== conversation.revision) conversation.id = crypto.randomUUID();
    conversation.revision += 1;
    table.put(conversation.toRecord());
    await finished(transaction);
    this.stored.set(conversation, content);
  }

  /** Stores records of a file; those that are there with other turns get new ids. @param {import("./conversation.js").ConversationRecord[]} records */
  async add(records) {
    const known = new Map((await this.list()).map((record) => [record.id, record]));
    const fresh = records.filter((record) => !known.has(record.id) || contentOf(record) !== contentOf(known.get(record.id)));
    for (const record of fresh) await this.put(new Conversation(known.has(record.id) ? { ...record, id: crypto.randomUUID() } : record));
    return fresh.length;
  }

  /** @param {string} id */
  async remove(id) {
    await this.last.catch(() => {});
    this.inMemory.delete(id);
    const database = await this.opened;
    if (!database) return;
    const transaction = database.transaction(TABLE, "readwrite");
    transaction.objectStore(TABLE).delete(id);
    await finished(transaction);
  }
}

/** What a user would miss. @param {import("./conversation.js").ConversationRecord} record */
const contentOf = ({ system, leaf, turns }) => JSON.stringify([system, leaf,
  ...turns.map(({ id, parent, role, text, thoughts, model, reason }) => [id, parent, role, text, thoughts, model, reason])]);

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

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

/** Texts that are being written, by the place where they are written. */
export const drafts = {
  /** @returns {Record<string, string>} */
  all() {
    try {
      const value = JSON.parse(localStorage.getItem(DRAFTS) ?? "{}");
      return value !== null && typeof value === "object" ? value : {};
    } catch {
      return {};
    }
  },
  /** @param {string} place @returns {string} */
  get(place) {
    const draft = this.all()[place];
    return typeof draft === "string" ? draft : "";
  },
  /** @param {string} place @param {string} text "" forgets it @returns {boolean} whether it is kept */
  set(place, text) {
    const { [place]: _, ...others } = this.all();
    try {
      localStorage.setItem(DRAFTS, JSON.stringify(text ? { ...others, [place]: text } : others));
      return true;
    } catch {
      return false; // no storage, or full
    }
  },
};
