/**
 * Resumable downloads. A download is recorded in a journal and continued by a Range request while the entity tag is the same.
 * Complete files are verified. Only one tab downloads a file at a time.
 *
 * @typedef {{name: string, url: string, size: number | null, sha256: string | null, group?: string}} Wanted
 * @typedef {import("./store.js").Journal} Journal
 * @typedef {import("./store.js").Entry} Entry
 * @typedef {{signal: AbortSignal, onProgress: (done: number, total: number | null) => void, onWait?: () => void,
 *   onRetry?: (attempt: number, attempts: number) => void, hash: (entry: Entry, size: number) => Promise<string>}} DownloadOptions
 */
import { BUSY_HINT, isBusy } from "../shared/busy-hub.js";
import { locked } from "../shared/locks.js";
import { Cancelled, UserError, nameOf, storageFull, throwIfCancelled } from "../shared/protocol.js";
import { watched } from "./watched.js";

const COMMIT_BYTES = 4 << 20; // a closed tab loses at most this much
const ATTEMPTS = 5; // of a download that has begun, over 8 s
const FIRST_ATTEMPTS = 3; // of one that has not: the address may be wrong; over 1.5 s

/**
 * Downloads one file into the store. Does nothing if the complete file is there.
 * @param {Wanted} wanted
 * @param {import("./store.js").Store} store
 * @param {DownloadOptions} options
 * @returns {Promise<Entry>}
 */
export async function download(wanted, store, options) {
  const entry = await store.entry(wanted.name);
  return withLock(`pyapp:${entry.key}`, options, async () => {
    const known = await entry.journal();
    if (known?.complete && (!wanted.sha256 || known.sha256 === wanted.sha256)) return entry;
    await checkSpace(wanted, known);
    let journal = startJournal(wanted, known);
    try {
      journal = await receiveAll(wanted, entry, journal, options);
    } finally {
      entry.close();
    }
    await verify(wanted, entry, journal, options);
    return entry;
  });
}

/**
 * Runs `work` under a lock of this name. If another tab is downloading the same file, waits for that tab first.
 * @param {string} name @param {{signal?: AbortSignal, onWait?: () => void}} options @param {() => Promise<any>} work
 */
async function withLock(name, { signal, onWait }, work) {
  const done = await locked(name, async (lock) => lock && { value: await work() }, { ifAvailable: true });
  if (done) return done.value;
  onWait?.();
  return locked(name, work, { signal });
}

/** @param {Wanted} wanted @param {Journal | null} known @returns {Journal} */
function startJournal(wanted, known) {
  /** @type {Pick<Journal, "received" | "etag" | "complete">} */
  const fresh = { received: 0, etag: null, complete: false };
  const kept = known && !known.complete && known.url === wanted.url ? known : fresh;
  const { name, url, size, sha256, group = null } = wanted;
  return { name, url, size, sha256, group, received: kept.received, etag: kept.etag, complete: false, time: Date.now() };
}

/** @param {Wanted} wanted @param {Journal | null} known */
async function checkSpace(wanted, known) {
  const { quota, usage } = (await navigator.storage?.estimate?.()) ?? {};
  if (!quota || usage === undefined || !wanted.size) return;
  const needed = wanted.size - (known?.received ?? 0);
  if (needed > quota - usage) {
    throw storageFull({ needed, free: Math.max(0, quota - usage), kept: known?.received });
  }
}

/** @param {Wanted} wanted @param {Entry} entry @param {Journal} journal @param {DownloadOptions} options */
async function receiveAll(wanted, entry, journal, options) {
  let attempt = 0;
  for (;;) {
    throwIfCancelled(options.signal);
    if (!navigator.onLine && !isLocal(wanted.url)) throw offline(wanted, journal);
    const before = journal.received;
    try {
      return await receive(wanted, entry, journal, options);
    } catch (error) {
      if (options.signal.aborted) throw new Cancelled();
      if (error instanceof UserError) throw error;
      if (nameOf(error) === "QuotaExceededError") throw storageFull({ kept: (await entry.journal())?.received });
      attempt = journal.received > before ? 1 : attempt + 1; // progress resets the count of attempts
      const attempts = journal.received > 0 ? ATTEMPTS : FIRST_ATTEMPTS;
      if (attempt >= attempts) throw givenUp(wanted, journal, error);
      options.onRetry?.(attempt + 1, attempts);
      await pause(250 * 2 ** attempt, options.signal);
    }
  }
}

/**
 * One request, from the current position to the end. Updates `journal` in place.
 * @param {Wanted} wanted @param {Entry} entry @param {Journal} journal @param {DownloadOptions} options
 */
async function receive(wanted, entry, journal, { signal, onProgress }) {
  const watch = watched(signal);
  const onBytes = (/** @type {number} */ done, /** @type {number | null} */ total) => (watch.heard(), onProgress(done, total));
  try {
    return await receiveFrom(wanted, entry, journal, watch.signal, onBytes);
  } finally {
    watch.end();
  }
}

/**
 * @param {Wanted} wanted @param {Entry} entry @param {Journal} journal @param {AbortSignal} signal @param {DownloadOptions["onProgress"]} onProgress
 */
async function receiveFrom(wanted, entry, journal, signal, onProgress) {
  const response = await ask(wanted, journal, signal);
  if (response.status === 416 && journal.received > 0) {
    if (journal.received !== journal.size) journal.received = 0;
    else return finish(entry, journal);
    throw new Error("the range was refused: start again");
  }
  if (!response.ok) throw badStatus(wanted, response);
  takeHeaders(journal, wanted, response);
  if (!response.body) throw new Error("the answer is empty");
  await entry.open(journal.received);
  try {
    await pump(response.body.getReader(), entry, journal, onProgress);
    return await finish(entry, journal);
  } finally {
    entry.close();
  }
}

/**
 * A compressed answer has the length of its compressed bytes, and a page does not see that another origin compresses. So where the
 * length is not the expected one, the file is asked for as a range: browsers have ranges sent as they are.
 * @param {Wanted} wanted @param {Journal} journal @param {AbortSignal} signal
 */
async function ask({ url, size }, { received }, signal) {
  // If-Range would need a preflight request, which file hosts refuse. So takeHeaders compares the entity tag.
  const range = { Range: `bytes=${received}-` };
  const request = (/** @type {HeadersInit} */ headers) => fetch(url, { headers, signal, mode: "cors", credentials: "omit", cache: "no-store" });
  const response = await request(received > 0 ? range : {});
  const length = Number(response.headers.get("Content-Length"));
  if (response.status !== 200 || !length || length === size) return response;
  response.body?.cancel();
  return request(range);
}

/**
 * Updates the journal by the response's headers: where its bytes begin, the length of the file, its entity tag.
 * @param {Journal} journal @param {Wanted} wanted @param {Response} response
 */
function takeHeaders(journal, wanted, response) {
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get("Content-Range") ?? "");
  const etag = response.headers.get("ETag");
  const changed = journal.etag && etag && etag !== journal.etag;
  if (response.status === 206 && range && Number(range[1]) === journal.received && !changed) {
    if (range[2] !== "*") journal.size = Number(range[2]);
  } else if (response.status === 206 && (range || journal.received > 0)) {
    response.body?.cancel();
    journal.received = 0;
    journal.etag = null;
    throw new Error("another version or another range: start again");
  } else {
    journal.received = 0;
    const encoded = response.headers.get("Content-Encoding");
    const length = Number(response.headers.get("Content-Length"));
    journal.size = length && !encoded ? length : wanted.size;
  }
  journal.etag = etag;
  if (wanted.size && journal.size && journal.size !== wanted.size) {
    response.body?.cancel();
    throw new UserError(`The file has ${journal.size} bytes instead of ${wanted.size}.`, {
      where: wanted.url,
      hint: "The hub has another version of it, or the address is wrong. Check the hub address.",
    });
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {Entry} entry @param {Journal} journal @param {DownloadOptions["onProgress"]} onProgress */
async function pump(reader, entry, journal, onProgress) {
  let committed = journal.received;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      entry.write(value, journal.received);
      journal.received += value.length;
      onProgress(journal.received, journal.size);
      if (journal.received - committed >= COMMIT_BYTES) {
        await entry.commit(journal);
        committed = journal.received;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
    if (journal.received > committed) await entry.commit(journal).catch(() => {});
  }
}

/** @param {Entry} entry @param {Journal} journal */
async function finish(entry, journal) {
  if (journal.size && journal.received < journal.size) throw new Error("the connection ended early");
  if (journal.size && journal.received > journal.size) {
    await entry.commit({ ...journal, received: 0, etag: null });
    throw new UserError(`The file is longer than the expected ${journal.size} bytes.`, {
      where: journal.url,
      hint: "The hub has another version of it, or the address is wrong. Check the hub address.",
    });
  }
  journal.size = journal.received;
  await entry.commit(journal);
  return journal;
}

/**
 * Checks the SHA-256 if it is known, and marks the file as complete. The size has been checked before.
 * @param {Wanted} wanted @param {Entry} entry @param {Journal} journal @param {DownloadOptions} options
 */
async function verify(wanted, entry, journal, { hash }) {
  if (wanted.sha256) {
    const found = await hash(entry, journal.received);
    if (found !== wanted.sha256) {
      await entry.open(0);
      await entry.commit({ ...journal, received: 0, etag: null, complete: false });
      entry.close();
      throw new UserError("The downloaded file is damaged: its SHA-256 is not the expected one.", {
        where: wanted.url,
        hint: "It has been deleted. Download it again. If that fails too, check the hub address.",
        action: "retry",
      });
    }
  }
  await entry.commit({ ...journal, complete: true });
}

/** The hub refused the request for now. A later attempt may succeed. */
class HubBusy extends Error {}

/** @param {Wanted} wanted @param {Response} response */
function badStatus(wanted, response) {
  const message = `The hub answered ${response.status} ${response.statusText}`.trim();
  if (isBusy(response.status)) return new HubBusy(`${message}.`);
  const hint = response.status === 404 ? "Check the model's name and the hub address." : "The file may need a permission that this page does not have.";
  return new UserError(`${message}.`, { where: wanted.url, hint });
}

/** @param {Wanted} wanted @param {Journal} journal @param {unknown} error */
function givenUp(wanted, journal, error) {
  const busy = error instanceof HubBusy;
  const hint = busy ? BUSY_HINT : "Check your connection and the hub address, then try again.";
  return new UserError(busy ? error.message : "The connection was lost.", {
    where: wanted.url,
    hint: journal.received > 0 ? `The part that was downloaded is stored: press Resume ${busy ? "in a minute" : "when you are online again"}.` : hint,
    action: "retry",
  });
}

/** Whether a file comes from this machine, which needs no network. @param {string} url */
const isLocal = (url) => ["localhost", "127.0.0.1"].includes(new URL(url).hostname);

/** @param {Wanted} wanted @param {Journal} journal */
const offline = (wanted, journal) => new UserError("This device is offline.", {
  where: wanted.url,
  hint: `Connect it to the network, then download.${journal.received > 0 ? " The part that was downloaded is stored." : ""}`,
  action: "retry",
});

/** @param {number} milliseconds @param {AbortSignal} signal @returns {Promise<void>} */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(new Cancelled())), { once: true });
  });
}
