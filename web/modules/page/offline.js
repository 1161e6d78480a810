/**
 * The service worker: offline use, isolation on hosts that send no headers for it, and new versions.
 */
import { siteUrl } from "../shared/site.js";
import { byId, h } from "./dom.js";

const PATIENCE = 1200; // ms that a first visit may wait to become isolated
const SWITCH_PATIENCE = 3000; // ms until the page reloads without an answer of the service worker
const RELOADED = "pyapp.reloaded-for-isolation";

/**
 * Registers the service worker. On the first visit to a host without isolation headers it reloads the page once, immediately,
 * so that no work is lost and nothing is loaded twice.
 * @returns {Promise<boolean>} false if the page is being reloaded and must not start
 */
export async function setUpServiceWorker() {
  const workers = serviceWorkers();
  if (!workers || !isSecureContext) return true;
  try {
    const ready = workers.register(siteUrl("service-worker.js"), { scope: siteUrl("./"), updateViaCache: "none" })
      .then(() => workers.controller ?? new Promise((resolve) => workers.addEventListener("controllerchange", resolve, { once: true })));
    ready.catch(() => {});
    if (crossOriginIsolated || !mayReload()) return true;
    const controlled = await Promise.race([ready.then(() => true), new Promise((resolve) => setTimeout(() => resolve(false), PATIENCE))]);
    if (!controlled) return true; // the next visit is isolated
    sessionStorage.setItem(RELOADED, "1");
    location.reload();
    return false;
  } catch {
    return true; // the browser refuses (private window, policy): the page works without a service worker
  }
}

/** The service workers of this page; undefined where the browser has none, or refuses even to be asked (a sandboxed frame). */
function serviceWorkers() {
  try {
    return navigator.serviceWorker;
  } catch {
    return undefined;
  }
}

/** Whether this tab may still reload: it does so once, and never if it cannot store that it has done so. */
function mayReload() {
  try {
    if (sessionStorage.getItem(RELOADED)) return false;
    sessionStorage.setItem("pyapp.probe", "1");
    sessionStorage.removeItem("pyapp.probe");
    return true;
  } catch {
    return false;
  }
}

/** Whether the visitor has told the browser to save data: then nothing is fetched that is not needed now. */
export const savesData = () => /** @type {any} */ (navigator).connection?.saveData === true;

/** Stores the rest of the site for offline use, and checks for a new version. Called after the start of the page. */
export function keepOffline() {
  const workers = serviceWorkers();
  const worker = workers?.controller;
  if (!worker) return;
  workers?.addEventListener("message", ({ data }) => {
    if (data.notice === "not-kept") offerToKeep(worker, "Your browser saves data, so the page is not stored. ");
    if (data.notice === "failed") offerToKeep(worker, "The page could not be stored: the connection was lost, or there is no room. ");
    if (data.notice === "offline-ready" || data.notice === "update-ready") byId("offline-state").textContent = "Stored on this device: works offline. Nothing you type leaves the device.";
    if (data.notice === "update-ready") showUpdate("A new version of this page is available.");
    if (data.notice === "replaced") showUpdate("Another tab has begun to use a new version of this page: what this one has not loaded yet may not fit it.");
  });
  worker.postMessage({ method: "keep", saving: savesData() });
}

/** @param {ServiceWorker} worker @param {string} why it is not stored */
function offerToKeep(worker, why) {
  const state = byId("offline-state");
  const keep = () => {
    state.textContent = "Storing the page…";
    worker.postMessage({ method: "keep", asked: true });
  };
  state.replaceChildren("Runs on this device. ", why, h("button", { type: "button", class: "quiet", onclick: keep }, "Store it for use offline"));
}

/** @param {string} why */
function showUpdate(why) {
  const later = h("span", {});
  const reload = () => {
    if (!dispatchEvent(new Event("beforeunload", { cancelable: true }))) { // who then stays would have this page with the files of another
      later.textContent = " Something would be lost now: reload when it is finished and stored.";
      return;
    }
    navigator.serviceWorker.controller?.postMessage({ method: "switch" });
    navigator.serviceWorker.addEventListener("message", ({ data }) => data.notice === "switched" && location.reload());
    setTimeout(() => location.reload(), SWITCH_PATIENCE);
  };
  byId("page-notice").replaceChildren(`${why} `, h("button", { type: "button", class: "quiet", onclick: reload }, "Reload to use it"), later);
}
