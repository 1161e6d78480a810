/**
 * The addresses of the parts of the site, relative to this module: the page works under any path.
 */
const SITE = new URL("../../", import.meta.url);

/** @param {string} path relative to index.html */
export const siteUrl = (path) => new URL(path, SITE).href;
