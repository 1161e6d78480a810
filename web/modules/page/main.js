/**
 * Starts the page.
 */
import { App } from "./app.js";
import { byId, h } from "./dom.js";
import { showError } from "./errors.js";
import { setUpCard, setUpThreads } from "./engine-settings.js";
import { Models } from "./models.js";
import { keepOffline, savesData, setUpServiceWorker } from "./offline.js";
import { FileRouter } from "./file-router.js";
import { foldSettings, setUpDialogs, setUpKeys, setUpTheme, setUpTopbar } from "./shell.js";
import { StorageDialog } from "./storage-dialog.js";
import { Views, setUpViews, shownView } from "./views.js";

async function start() {
  if (document.documentElement.dataset.boot === "failed") return; // boot.js says why
  document.documentElement.dataset.boot = "running";
  setUpTheme();
  setUpTopbar();
  setUpKeys();
  setUpViews();
  setUpDialogs();
  foldSettings();
  if (!(await setUpServiceWorker())) return;
  document.head.append(h("link", { rel: "manifest", href: "app.webmanifest" })); // after a possible reload, which would interrupt it
  const app = new App([byId("story-error"), byId("transcribe-error")], () => shownView().task);
  await setUpCard(app);
  const models = new Models(app);
  const storage = new StorageDialog(app);
  globalThis.pyappPage = { app, models, storage }; // for tests and debugging; the views add themselves
  const views = new Views(app, models);
  globalThis.pyappPage = { ...globalThis.pyappPage, views, router: new FileRouter(app, models, views) };
  setUpThreads(app);
  app.addEventListener("ready", () => whenIdle(app, () => {
    keepOffline();
    if (!savesData()) app.engine.call("warm").catch(() => {}); // the page is offline: the parts are fetched again when needed
  }));
  app.listed().catch((error) => {
    const shown = app.errorSlots.map((slot) => showError(slot, error, app.actions));
    app.addEventListener("ready", () => shown.forEach((box) => box?.remove()), { once: true }); // the list was read again
  });
}

/** Runs `work` when the page is idle and no story is being written. @param {App} app @param {() => void} work */
function whenIdle(app, work) {
  setTimeout(() => (app.busy ? whenIdle(app, work) : work()), 1500);
}

start();
