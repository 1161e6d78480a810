/**
 * Recordings by their addresses: fetched from other servers, where these let other pages read them (CORS).
 */
import { UserError, megabytes, throwIfCancelled } from "../shared/protocol.js";

const LARGEST = 4e9; // bytes
const PIECE = 8 << 20; // bytes in each Blob: the browser may store them on disk
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];

/** Whether a text is an address, and nothing else. @param {string} text */
export const isAddress = (text) => /^https?:\/\/\S+$/i.test(text.trim());

/**
 * @param {string} text what the user wrote
 * @param {{signal: AbortSignal, onProgress: (done: number, total: number | null) => void}} options progress in bytes
 * @returns {Promise<File>}
 */
export async function fetchRecording(text, { signal, onProgress }) {
  const address = parse(text);
  const where = address.href;
  onProgress(0, null);
  const response = await fetch(address, { signal, mode: "cors", credentials: "omit", referrerPolicy: "no-referrer" }).catch(() => {
    throwIfCancelled(signal);
    throw unreachable(where);
  });
  try {
    check(response, where);
    const total = response.headers.has("Content-Encoding") ? null : Number(response.headers.get("Content-Length")) || null;
    if (total !== null && total > LARGEST) throw tooLarge(where, total);
    if (!response.body) throw new UserError("There is no recording at this address: the answer is empty.", { where, hint: "Check the address." });
    const parts = await collect(response.body.getReader(), where, (done) => onProgress(done, total));
    return new File(parts, nameOf(address), { type: response.headers.get("Content-Type")?.split(";")[0] ?? "" });
  } catch (error) {
    response.body?.cancel().catch(() => {});
    throwIfCancelled(signal);
    if (error instanceof UserError) throw error;
    throw new UserError("The connection was lost before the whole recording had arrived.", { where, hint: "Try again.", action: "retry" });
  }
}

/** @param {string} text @returns {URL} */
function parse(text) {
  const trimmed = text.trim();
  const address = urlOf(trimmed);
  const hint = "Copy the whole address of a sound or video file. It begins with https://";
  if (!address || !["http:", "https:"].includes(address.protocol)) throw new UserError("This is not the address of a recording.", { where: trimmed.slice(0, 200), hint });
  if (address.protocol === "http:" && !LOCAL.includes(address.hostname)) {
    throw new UserError("Browsers load recordings only from addresses that begin with https://.", { where: address.href, hint: "Try the address with https://, or save the recording and choose the file." });
  }
  address.username = address.password = address.hash = "";
  return address;
}

/** @param {string} text @returns {URL | null} */
function urlOf(text) {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

/** @param {Response} response @param {string} where */
function check(response, where) {
  if (response.status === 404 || response.status === 410) throw new UserError(`There is nothing at this address (${response.status}).`, { where, hint: "Check the address." });
  if (response.status === 401 || response.status === 403) throw new UserError(`The server permits this file only to some (${response.status}).`, { where, hint: "Save the recording where you are signed in, then choose the file." });
  if (!response.ok) throw new UserError(`The server answered ${response.status}.`, { where, hint: "Try again later.", action: "retry" });
  if (/^text\/html\b/i.test(response.headers.get("Content-Type") ?? "")) {
    throw new UserError("This address leads to a web page, not to a recording.", { where, hint: "Copy the address of the sound file itself, which often ends in .mp3, .m4a or .mp4." });
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader @param {string} where @param {(done: number) => void} onProgress */
async function collect(reader, where, onProgress) {
  const parts = [];
  /** @type {Uint8Array<ArrayBuffer>[]} */
  let chunks = [];
  let waiting = 0;
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (value) {
      chunks.push(value);
      waiting += value.length;
      size += value.length;
      if (size > LARGEST) {
        reader.cancel().catch(() => {});
        throw tooLarge(where, size);
      }
      onProgress(size);
    }
    if (done || waiting >= PIECE) {
      parts.push(new Blob(chunks));
      chunks = [];
      waiting = 0;
    }
    if (done) return parts;
  }
}

/** @param {string} where */
function unreachable(where) {
  if (!navigator.onLine) return new UserError("This device is offline.", { where, hint: "Connect it to the network, then try again.", action: "retry" });
  return new UserError("This page could not read that address.", {
    where,
    hint: "Either nothing answers there, or the server lets only its own pages read the file (CORS), as many do. Save the recording on this device, then choose the file.",
    action: "retry",
  });
}

/** @param {string} where @param {number} size */
const tooLarge = (where, size) => new UserError(`This recording is too large: ${megabytes(size)}, at most ${megabytes(LARGEST)}.`, { where, hint: "Split it, or save only its sound." });

/** The last part of the path; it may have no ending. @param {URL} address */
function nameOf({ pathname, hostname }) {
  const last = pathname.split("/").filter(Boolean).at(-1) ?? hostname;
  try {
    return decodeURIComponent(last);
  } catch {
    return last; // no encoded text
  }
}
