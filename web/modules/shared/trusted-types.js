/**
 * Trusted Types: the content policy requires that addresses of scripts and texts that become HTML pass this policy. Scripts
 * come from this site only. No text becomes HTML, but in documents that are only read: their scripts do not run.
 * (DOMPurify has a policy of its own; the chat and the lab each have a copy of it, hence 'allow-duplicates'.)
 */
const READ_ONLY_SINK = "DOMParser parseFromString";

/** Sets the policy, in browsers that have Trusted Types; once in the page and once in each worker. */
export function allowOwnScripts() {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes || trustedTypes.defaultPolicy) return;
  trustedTypes.createPolicy("default", {
    createScriptURL: (/** @type {string} */ url) => (new URL(url, location.href).origin === location.origin ? url : null),
    createHTML: (/** @type {string} */ html, /** @type {string} */ _type, /** @type {string} */ sink) => (sink === READ_ONLY_SINK ? html : null),
  });
}
