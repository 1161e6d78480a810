/**
 * Whether the site sent a file, or something in its place: hosts answer with a web page where a file is missing, and so do
 * networks that want their visitors to sign in.
 */
import { UserError } from "./protocol.js";
import { siteUrl } from "./site.js";

const PAGE = "a web page came instead";
const WHOLE = "Try again later. If you copied this page to a server yourself, copy the whole dist folder.";

/** Why an answer is not the file; "" if it may be. @param {Response} response @param {boolean} script whether it must be a script */
function refusal(response, script) {
  const [type] = (response.headers.get("Content-Type") ?? "").split(";");
  if (!response.ok) return `status ${response.status}`;
  if (type === "text/html") return PAGE;
  return script && !/javascript/.test(type) ? `it came as ${type || "a file of no type"}, not as text/javascript` : "";
}

/**
 * Throws UserError where an answer is not the file.
 * @param {Response} response @param {string} where
 * @param {{what?: string, script?: boolean, action?: string, fatal?: boolean}} [details] `what` is missing, in words
 */
export function checkSent(response, where, { what = "A part of the program", script = false, ...details } = {}) {
  const why = refusal(response, script);
  if (!why) return;
  const hint = why === PAGE ? `If this network asks you to sign in, do that, then reload the page. ${WHOLE}` : WHOLE;
  throw new UserError(`${what} is missing on the server (${why}).`, { where, hint, ...details });
}

/**
 * The error of a file that did not arrive, or not to its end.
 * @param {string} where @param {{what?: string, next?: string, without?: string, action?: string, fatal?: boolean}} [details] `what` it is,
 *   `next`: what to do when there is a connection; `without`: what works without the file, a sentence
 */
export function lost(where, { what = "A part of the program", next = "try again", without = "", ...details } = {}) {
  const connect = navigator.onLine ? "Check your connection" : "This device is offline. Connect it";
  return new UserError(`${what} could not be loaded.`, { where, hint: `${connect}, then ${next}. ${without}`.trim(), ...details });
}

/**
 * A file of the site, read to its end. Throws UserError where it is missing, or the connection breaks off before or in it.
 * @template T
 * @param {string} path @param {(response: Response) => Promise<T>} read @param {{what: string, next?: string, action?: string}} details as of `lost`
 * @returns {Promise<T>}
 */
export async function fetchWhole(path, read, { what, next, action }) {
  try {
    const response = await fetch(siteUrl(path));
    checkSent(response, path, { what, action });
    return await read(response);
  } catch (error) {
    throw error instanceof UserError ? error : lost(path, { what, next, action });
  }
}

/**
 * Throws UserError where a script or a style did not arrive because the site does not have it. @param {string} url
 * @param {string} where @param {{action?: string, fatal?: boolean}} [details]
 */
export async function checkThere(url, where, details) {
  const response = await fetch(url, { method: "HEAD", cache: "no-store" }).catch(/** @returns {null} */ () => null);
  if (response) checkSent(response, where, { script: url.includes(".js"), ...details });
}
