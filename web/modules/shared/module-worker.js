/**
 * Workers of modules.
 */
import { siteUrl } from "./site.js";

/**
 * Starts a script of the site as a worker. Browsers start none of another origin: for a page that has the site's modules from there,
 * a script of the page's origin imports it.
 * @param {string} path @param {string} name @returns {Worker}
 */
export function moduleWorker(path, name) {
  const url = siteUrl(path);
  if (new URL(url).origin === location.origin) return new Worker(url, { type: "module", name });
  const importing = URL.createObjectURL(new Blob([`import ${JSON.stringify(url)};`], { type: "text/javascript" }));
  return new Worker(importing, { type: "module", name });
}
