/**
 * Trusted Types: the content policy requires that addresses of scripts and texts that become HTML pass this policy. Scripts
 * come from this site only. No text becomes HTML, but what `onlyRead` marks, for documents whose scripts do not run.
 * (DOMPurify has a policy of its own; the chat and the lab each have a copy of it, hence 'allow-duplicates'.)
 */
const ONLY_READ = "only read"; // no name of a sink; each bundle has a copy of this module, so no symbol

/** Sets the policy, in browsers that have Trusted Types; once in the page and once in each worker. */
export function allowOwnScripts() {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes || trustedTypes.defaultPolicy) return;
  trustedTypes.createPolicy("default", {
    createScriptURL: (/** @type {string} */ url) => (new URL(url, location.href).origin === location.origin ? url : null),
    createHTML: (/** @type {string} */ html, /** @type {string} */ use) => (use === ONLY_READ ? html : null),
  });
}

/** HTML for a document without a window, which runs and fetches nothing. @param {string} html @returns {string} */
export function onlyRead(html) {
  return /** @type {any} */ (globalThis).trustedTypes?.defaultPolicy?.createHTML(html, ONLY_READ) ?? html;
}
