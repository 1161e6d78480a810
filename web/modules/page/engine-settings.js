/**
 * The engine's settings in the storage panel: on how many threads models compute, and whether on the graphics card. A change
 * starts the engine anew.
 */
import { UserError } from "../shared/protocol.js";
import { MOST_THREADS, automaticThreads, mayShare } from "../shared/threads.js";
import { importPart } from "../shared/site-parts.js";
import { counted } from "../shared/words.js";
import { byId, h, memory } from "./dom.js";
import { clearError, showError } from "./errors.js";

const CRASHES = 2; // of the engine in one visit, after which it computes on one thread: threads may be the cause

/** The user's setting: "auto", or a number. @returns {string} */
function threadsWish() {
  const stored = memory.get("threads", null);
  return Number.isInteger(stored) && stored >= 1 && stored <= MOST_THREADS ? String(stored) : "auto";
}

/** What the worker is told. @param {import("./engine.js").Engine | undefined} engine undefined before the first start */
export const threadsNow = (engine) => ((engine?.crashes ?? 0) >= CRASHES ? "1" : threadsWish());

/** @param {number} count */
const threads = (count) => counted(count, "thread");

/** Fills and connects the field. @param {import("./app.js").App} app */
export function setUpThreads(app) {
  const select = byId("threads");
  const numbers = Array.from({ length: MOST_THREADS }, (_, i) => i + 1);
  select.append(
    h("option", { value: "auto" }, `Automatic (${threads(automaticThreads())})`),
    ...numbers.map((count) => h("option", { value: String(count) }, threads(count))),
  );
  const show = () => {
    select.value = threadsWish();
    byId("threads-help").textContent = explain(app.engine);
  };
  select.addEventListener("change", () => {
    clearError(byId("storage-error"));
    if (app.busy) {
      showError(byId("storage-error"), new UserError("The engine is working.", { hint: "Stop it first, then change the threads." }), app.actions);
    } else {
      memory.set("threads", select.value === "auto" ? "auto" : Number(select.value));
      app.engine.crashes = 0;
      app.engine.restart("The engine was restarted.");
    }
    show();
  });
  app.addEventListener("ready", show);
  byId("open-storage").addEventListener("click", show);
  show();
}

/**
 * The choice of the graphics card, where the browser has WebGPU and lets Python wait for it (JSPI). It is fetched when the panel
 * is opened, or at once where it is made already: the engine is told before its first request for a model.
 * @param {import("./app.js").App} app
 */
export async function setUpCard(app) {
  if (!("gpu" in navigator) || !("Suspending" in WebAssembly)) return;
  const load = async () => (await importPart("modules/page/graphics-card.js")).setUpCard(app);
  const later = () => byId("open-storage").addEventListener("click", () => load().catch(later), { once: true }); // offline: at the next click
  if (memory.get("graphics-card", false) === true) await load().catch(later);
  else later();
}

/** @param {{about: any, crashes: number}} engine of engine.js @returns {string} */
function explain({ about, crashes }) {
  if (!isSecureContext) return "Models compute on one thread: browsers let threads share memory only on pages of https:// addresses and localhost.";
  if (!mayShare()) {
    return "This browser or host does not let the page share memory between threads, so models compute on one thread. "
      + "They are faster where the host sends the headers for cross-origin isolation, or the browser keeps the page's service worker.";
  }
  if (about === null) return "The engine is starting.";
  const now = about.threads === 1 ? "Models compute on one thread now." : `Models compute on up to ${threads(about.threads)} now.`;
  if (crashes >= CRASHES) return `${now} The engine has failed ${crashes} times; reload the page to try more threads again.`;
  if (about.threads === 1 && threadsWish() !== "1" && automaticThreads() > 1) return `${now} The browser refused to share memory, or a part of the program is missing.`;
  return `${now} Results do not depend on it. While other programs use the processor, the engine uses fewer by itself.`;
}
