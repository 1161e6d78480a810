/**
 * The worker: answers requests (see modules/shared/protocol.js). It starts Python immediately, before the first request.
 *
 * Its name contains "pyapp", the number of threads ("auto", or the user's), the task of the page ("none": not known yet) and the chosen model.
 */
import { allowOwnScripts } from "./modules/shared/trusted-types.js";
import { UserError, eventFromError } from "./modules/shared/protocol.js";
import { LATER, Python } from "./modules/worker/python.js";
import { threadsFor } from "./modules/shared/threads.js";
import { openStore } from "./modules/worker/store.js";
import { ModelFiles } from "./modules/worker/model-files.js";
import { handlersFor } from "./modules/worker/handlers.js";

/** Packages that a task needs at once. @type {Record<string, string[]>} */
const PACKAGES = { none: [], generate: [], transcribe: ["numpy"], chat: ["markupsafe", "jinja2", ...LATER], embed: ["numpy", ...LATER], read: ["numpy", "numpy-later", ...LATER] };

allowOwnScripts();
const running = new Map(); // request id -> AbortController
const inlets = new Map(); // request id -> Inlet: requests that receive sound while they run
const storePromise = openStore();
const python = new Python(storePromise, (notice) => postMessage(notice));
const models = new ModelFiles(storePromise, python);
const handlers = handlersFor({ python, models, storePromise, inlets });

const [, threads, task = "generate", model] = self.name.split(" ");
models.prefetch(task, model);
python.start(PACKAGES[task] ?? PACKAGES.read, threadsFor(threads));

/** Messages to a running request; they have no answer. @type {Record<string, (params: any) => void>} */
const asides = {
  cancel: ({ id }) => running.get(id)?.abort(),
  push: ({ id, samples }) => inlets.get(id)?.push(samples),
  finish: ({ id }) => inlets.get(id)?.finish(),
};

self.onmessage = ({ data: { id, method, params } }) => {
  if (Object.hasOwn(asides, method)) asides[method](params);
  else answer(id, method, params ?? {});
};

/** @param {number} id @param {string} method @param {any} params */
async function answer(id, method, params) {
  const controller = new AbortController();
  running.set(id, controller);
  const emit = (/** @type {object[]} */ ...events) => postMessage({ id, events });
  try {
    if (!Object.hasOwn(handlers, method)) throw new UserError(`The engine has no request "${method}".`);
    const last = await handlers[method](params, { id, emit, signal: controller.signal });
    if (last !== null) emit({ type: "done", reason: "complete", ...last });
  } catch (error) {
    if (!(error instanceof UserError)) console.debug(error);
    emit(eventFromError(error));
  } finally {
    running.delete(id);
  }
}
