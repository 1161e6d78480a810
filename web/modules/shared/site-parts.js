/**
 * Scripts and styles of the page that are fetched when they are first needed. Each failed fetch can be tried again.
 * The window fires "part" (detail: a promise) with each: the page shows that it waits.
 */
import { UserError } from "./protocol.js";
import { checkThere, lost } from "./sent.js";
import { siteUrl } from "./site.js";

/** How often the script at a path did not arrive. @type {Map<string, number>} */
const failed = new Map();

/**
 * Imports a script. Some browsers remember that a script did not arrive, by its address: each further try has another one.
 * @param {string} path @param {string} [without] what works without it: a sentence
 * @returns {Promise<any>} the module; throws UserError with the action "retry"
 */
export function importPart(path, without) {
  return told(importNow(path, without));
}

/** As importPart. @param {string} path @param {string} [without] @returns {Promise<any>} */
async function importNow(path, without) {
  const times = failed.get(path) ?? 0;
  try {
    return await import(siteUrl(times ? `${path}?try=${times + 1}` : path));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has arrived
    failed.set(path, times + 1);
    throw await notArrived(path, without);
  }
}

/** Adds a style to the page. @param {string} path @returns {Promise<void>} throws UserError with the action "retry" */
export function loadStyle(path) {
  return told(loadNow(path));
}

/** @template T @param {Promise<T>} part @returns {Promise<T>} */
function told(part) {
  dispatchEvent(new CustomEvent("part", { detail: part }));
  return part;
}

/** As loadStyle. @param {string} path @returns {Promise<void>} */
async function loadNow(path) {
  const link = document.createElement("link");
  Object.assign(link, { rel: "stylesheet", href: siteUrl(path) });
  const arrived = await new Promise((resolve) => {
    link.onload = () => resolve((link.sheet?.cssRules.length ?? 0) > 0); // a web page in its place has none
    link.onerror = () => resolve(false);
    document.head.append(link);
  });
  if (arrived) return;
  link.remove();
  throw await notArrived(path);
}

/** @param {string} path @param {string} [without] */
async function notArrived(path, without = "") {
  try {
    await checkThere(siteUrl(path), path, { action: "retry" });
  } catch (error) {
    if (error instanceof UserError) error.hint = `${error.hint} ${without}`.trim();
    return error;
  }
  return lost(path, { without, action: "retry" });
}
