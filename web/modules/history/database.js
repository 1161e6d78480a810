/**
 * IndexedDB by promises, and the records that earlier versions of the page kept in databases of their own.
 */
import { locked } from "../shared/locks.js";
import { soon } from "../shared/soon.js";

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
export function asked(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = ({ target }) => reject(/** @type {IDBRequest} */ (target).error); // the transaction's own is not set yet
    transaction.onabort = () => reject(transaction.error);
  });
}

/**
 * Changes tables: all that `work` asks for is done, or nothing of it. `work` may wait for requests of its transaction only.
 * @template T @param {IDBDatabase} database @param {string | string[]} tables @param {(transaction: IDBTransaction) => Promise<T> | T} work @returns {Promise<T>}
 */
export async function change(database, tables, work) {
  const transaction = database.transaction(tables, "readwrite");
  const done = finished(transaction);
  done.catch(() => {}); // where `work` fails first, its error counts
  try {
    const result = await work(transaction);
    await done;
    return result;
  } catch (error) {
    try {
      transaction.abort();
    } catch {
      // It has ended.
    }
    throw error;
  }
}

/**
 * Takes all records out of a table, once they are kept elsewhere. The empty database stays: a tab with the earlier page may
 * have it open, and would not let it be deleted.
 * @param {string} name of the database @param {string} table with the key `id` @param {(records: any[]) => Promise<unknown>} keep @returns {Promise<void>}
 */
export async function takeRecords(name, table, keep) {
  const work = async () => {
    const database = await openIfThere(name);
    if (!database) return;
    try {
      const records = await asked(database.transaction(table).objectStore(table).getAll());
      if (records.length === 0) return;
      await keep(records);
      await change(database, table, (transaction) => {
        for (const { id } of records) transaction.objectStore(table).delete(id);
      });
    } finally {
      database.close();
    }
  };
  await locked(`pyapp:${name}`, work);
}

/** @param {string} name @returns {Promise<IDBDatabase | null>} null: there is none, or the browser keeps nothing */
async function openIfThere(name) {
  try {
    const request = indexedDB.open(name);
    request.onupgradeneeded = () => request.transaction?.abort(); // it would be a new one
    return await soon(asked(request));
  } catch {
    return null;
  }
}
