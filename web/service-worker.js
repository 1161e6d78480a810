/**
 * Makes the page work offline and isolated on any static host.
 *
 * `manifest.json` (made by `make site`) lists the files of one version with their SHA-256. Each version has its own cache,
 * and is used only when all its files have arrived and match their hashes. A newer version is stored in a second cache. It is
 * used when no tab uses the old one, or when the user wants it. Until a version is complete, files come from the network.
 * Files that few need ("on_demand") are stored when they are used, and do not make a version incomplete.
 *
 * @typedef {{version: string, files: {path: string, size: number, sha256: string, on_demand?: boolean}[], complete?: boolean}} Manifest
 */
const META = "pyapp-meta";
const PREFIX = "pyapp-files-";
const SHARED = "pyapp-shared"; // files that the page has not taken yet
const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));
const PATIENCE = 4000; // ms that a request waits for the browser's storage
const SCOPE = worker.registration.scope;
const LAB = `${SCOPE}lab-worker.js`;
const HOST = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/;
const LOCAL = /^(localhost|127\.0\.0\.1)(:|$)/;
const HEADERS = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "Permissions-Policy": "microphone=(self), camera=(self), geolocation=()",
  // The same policy as in index.html: a worker gets its policy from its response.
  "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; media-src blob:; connect-src 'self' https: http://localhost:* http://127.0.0.1:*; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types default dompurify 'allow-duplicates'",
};

worker.addEventListener("install", () => worker.skipWaiting());

worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const inside = request.url.startsWith(SCOPE);
  if (request.method === "POST" && request.url === `${SCOPE}share`) event.respondWith(receive(request));
  if (request.method === "GET" && inside && !request.headers.has("Range")) event.respondWith(answer(event));
});

worker.addEventListener("message", (event) => {
  const tell = (/** @type {string} */ notice) => event.source?.postMessage({ notice });
  if (event.data.method === "keep") event.waitUntil(keep(tell, event.data.saving).catch(() => event.data.asked && tell("failed"))); // offline, or the storage is full: the next visit tries again
  if (event.data.method === "switch") event.waitUntil(switchVersion().then(() => tellOthers(event.source)).catch(() => {}).then(() => tell("switched")));
});

/** Tells the other tabs that their version is not the current one any more: what they fetch from now on is of another. @param {ExtendableMessageEvent["source"]} asking */
async function tellOthers(asking) {
  for (const client of await worker.clients.matchAll({ type: "window" })) {
    if (client.id !== /** @type {Client | null} */ (asking)?.id) client.postMessage({ notice: "replaced" });
  }
}

/** @param {FetchEvent} event */
async function answer(event) {
  const response = await found(event);
  const url = new URL(event.request.url);
  return url.origin + url.pathname === LAB ? limited(response, url.searchParams.get("hosts") ?? "") : response;
}

/**
 * The Lab's worker with a policy of its own: its cells reach this site, and the hosts that the visitor has named
 * (modules/shared/lab-hosts.js); of workers it starts the pool's alone, since others have a wider policy.
 * @param {Response} response @param {string} hosts
 */
function limited(response, hosts) {
  const named = hosts.split(" ").filter((host) => HOST.test(host)).flatMap((host) => (LOCAL.test(host) ? [`http://${host}`, `https://${host}`] : [`https://${host}`, `wss://${host}`]));
  const headers = new Headers(response.headers);
  headers.set("Content-Security-Policy", HEADERS["Content-Security-Policy"]
    .replace(/connect-src [^;]*/, ["connect-src 'self'", ...named].join(" "))
    .replace(/worker-src [^;]*/, `worker-src ${SCOPE}modules/worker/pool-helper.js`));
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

/**
 * From the kept version where it is complete, else from the network. A file that is kept answers where the network fails.
 * A browser's storage that fails, or does not answer, stops neither.
 * @param {FetchEvent} event
 */
async function found(event) {
  const { request } = event;
  if (request.mode === "navigate") {
    const next = await soon(nextAlone()).catch(() => null);
    if (next) event.waitUntil(takeNext(next).catch(() => {})); // the storage is full: the next visit takes it again
  }
  if (request.cache !== "no-store") {
    const kept = (await soon(keptFile(request.url)).catch(() => undefined)) ?? (await rareFile(request.url));
    if (kept) return kept;
  }
  let response;
  try {
    response = await fetch(request);
  } catch (error) {
    const stored = await soon(caches.match(keyOf(request.url), { ignoreVary: true })).catch(() => undefined);
    if (stored) return stored;
    throw error;
  }
  return response.type === "basic" && response.status !== 304 ? withHeaders(response) : response;
}

/** A file of the complete version. @param {string} url */
async function keptFile(url) {
  const current = await readMeta("current");
  if (!current?.complete) return undefined;
  return (await caches.open(PREFIX + current.version)).match(keyOf(url), { ignoreVary: true });
}

/** A file that is fetched, and stored, when it is first used. @param {string} url */
async function rareFile(url) {
  const current = await soon(readMeta("current")).catch(() => null);
  const rare = current?.complete && current.files.find(({ path, on_demand }) => on_demand && SCOPE + path === keyOf(url));
  const fresh = rare && (await fetchChecked(rare).catch(() => null)); // null: of another version, or offline
  if (!fresh) return undefined;
  const response = withHeaders(fresh);
  const copy = response.clone();
  await soon(caches.open(PREFIX + current.version).then((cache) => cache.put(SCOPE + rare.path, copy))).catch(() => {}); // the storage is full
  return response;
}

/** Whether the storage did not answer a request in time. It is then left alone, until the browser stops this worker. */
let silent = false;

/**
 * @template T @param {Promise<T>} promise of the browser's storage, which may be long in answering, or never do it
 * @returns {Promise<T>} rejected after PATIENCE
 */
async function soon(promise) {
  let timer = 0;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      silent = true;
      reject(new Error("the storage does not answer"));
    }, silent ? 0 : PATIENCE);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Stores files and text that another app shares with the installed page (app.webmanifest), and opens the page, which takes
 * them (modules/page/file-router.js). @param {Request} request
 */
async function receive(request) {
  const form = await request.formData();
  const text = ["title", "text", "url"].map((field) => form.get(field)).filter(Boolean).join("\n");
  const files = form.getAll("files").filter((file) => file instanceof File);
  if (text && !files.length) files.push(new File([text], "shared.txt", { type: "text/plain" }));
  const cache = await caches.open(SHARED);
  for (const [i, file] of files.entries()) {
    const headers = { "Content-Type": file.type, "X-File-Name": encodeURIComponent(file.name) };
    await cache.put(`${SCOPE}shared/${i}`, new Response(file, { headers }));
  }
  return Response.redirect(`${SCOPE}#shared`, 303);
}

/** Whether another tab uses the stored version. A page that is being reloaded counts too: the change then waits. */
async function othersOpen() {
  return (await worker.clients.matchAll({ type: "window", includeUncontrolled: true })).length > 0;
}

/** A file's address without its query; the folder itself is index.html. @param {string} url */
function keyOf(url) {
  const address = new URL(url);
  address.search = address.hash = "";
  return address.href === SCOPE ? `${SCOPE}index.html` : address.href;
}

/** The same response with the headers for isolation. The body is decoded already. @param {Response} response */
function withHeaders(response) {
  const headers = new Headers(response.headers);
  headers.delete("Content-Encoding");
  headers.delete("Content-Length");
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

/** @type {Promise<"offline-ready" | "update-ready"> | null} */
let keeping = null;

/**
 * Keeps the newest version whole; `saving`: only where one is kept already.
 * @param {(notice: string) => void} tell @param {boolean} saving
 */
async function keep(tell, saving) {
  if (saving && !keeping && !(await readMeta("current"))?.complete) return tell("not-kept");
  keeping ??= keepNewest().finally(() => (keeping = null));
  return keeping.then(tell);
}

/** @returns {Promise<"offline-ready" | "update-ready">} */
async function keepNewest() {
  const current = await readMeta("current");
  let newest;
  try {
    const response = await fetch(`${SCOPE}manifest.json`, { cache: "no-store" });
    if (!response.ok) throw new Error("no manifest");
    newest = await response.json();
  } catch (error) {
    if (current?.complete) return "offline-ready"; // offline, and the stored version is complete
    throw error;
  }
  if (current?.complete && newest.version === current.version) return "offline-ready";
  try {
    await fill(newest, current);
  } catch (error) {
    if (current?.complete) return "offline-ready"; // a half-deployed version, or the connection was lost: the next visit tries again
    throw error;
  }
  const first = !current?.complete;
  await writeMeta(first ? "current" : "next", { ...newest, complete: true });
  await forgetOthers();
  return first ? "offline-ready" : "update-ready";
}

/**
 * Fetches the missing files of a version. Unchanged files are copied from the stored version.
 * @param {Manifest} manifest @param {Manifest | null} current
 */
async function fill(manifest, current) {
  const cache = await caches.open(PREFIX + manifest.version);
  const have = new Set((await cache.keys()).map((request) => request.url));
  const old = await caches.open(PREFIX + (current?.version ?? manifest.version));
  const same = new Map(current?.complete ? current.files.map(({ path, sha256 }) => [sha256, path]) : []);
  const missing = manifest.files.filter(({ path }) => !/\.(br|gz)$/.test(path) && !have.has(SCOPE + path));
  const work = async () => {
    for (let file = missing.pop(); file; file = missing.pop()) {
      const kept = same.get(file.sha256) === file.path ? await old.match(SCOPE + file.path, { ignoreVary: true }) : null;
      if (kept || !file.on_demand) await cache.put(SCOPE + file.path, kept ?? withHeaders(await fetchChecked(file)));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
}

/** Fetches a file of the manifest. The browser checks its hash (`integrity`). @param {{path: string, sha256: string}} file */
async function fetchChecked({ path, sha256 }) {
  const bytes = sha256.replace(/../g, (pair) => String.fromCharCode(parseInt(pair, 16)));
  const response = await fetch(SCOPE + path, { cache: "no-cache", integrity: `sha256-${btoa(bytes)}` });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response;
}

/** The waiting version, if no tab uses the present one. */
async function nextAlone() {
  return (await othersOpen()) ? null : readMeta("next");
}

/** Takes the waiting version, as the user wants it. */
async function switchVersion() {
  const next = await readMeta("next");
  if (next) await takeNext(next);
}

/** Makes the waiting version the current one: for this worker at once. @param {Manifest} next */
async function takeNext(next) {
  await writeMeta("current", next);
  await (await caches.open(META)).delete(`${SCOPE}meta/next`);
  remembered.set("next", null);
  await forgetOthers();
}

/** Deletes the caches of versions that are neither current nor next. */
async function forgetOthers() {
  const used = (await Promise.all([readMeta("current"), readMeta("next")])).map((manifest) => PREFIX + manifest?.version);
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && !used.includes(name) && (await isOurs(name))) await caches.delete(name);
  }
}

/** Whether a cache belongs to this copy of the page. Copies under other paths of the origin have caches of the same prefix. @param {string} name */
async function isOurs(name) {
  const keys = await (await caches.open(name)).keys();
  return keys.every((request) => request.url.startsWith(SCOPE));
}

/** The result of readMeta, until the browser stops this worker. */
const remembered = new Map();

/** @param {"current" | "next"} name @returns {Promise<Manifest | null>} */
async function readMeta(name) {
  if (!remembered.has(name)) {
    const response = await (await caches.open(META)).match(`${SCOPE}meta/${name}`);
    remembered.set(name, response ? await response.json() : null);
  }
  return remembered.get(name);
}

/** @param {"current" | "next"} name @param {Manifest} manifest */
async function writeMeta(name, manifest) {
  remembered.set(name, manifest);
  await (await caches.open(META)).put(`${SCOPE}meta/${name}`, new Response(JSON.stringify(manifest)));
}
