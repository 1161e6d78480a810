/**
 * Starts the page.
 */
import { App } from "./app.js";
import { siteUrl } from "../shared/site.js";
import { byId, h } from "./dom.js";
import { showError } from "./errors.js";
import { setUpThreads } from "./engine-settings.js";
import { ModelDialog } from "./model-dialog.js";
import { keepOffline, setUpServiceWorker } from "./offline.js";
import { foldSettings, isShown, setUpDialogs, setUpDropping, setUpTheme, setUpViews } from "./shell.js";
import { StorageDialog } from "./storage-dialog.js";
import { StoryView } from "../views/story/story-view.js";
import { TranscribeView } from "../views/transcribe/transcribe-view.js";

async function start() {
  document.documentElement.dataset.boot = "running";
  setUpTheme();
  setUpViews([
    { id: "story", title: "Story", page: "pyapp · a story in a browser tab" },
    { id: "transcribe", title: "Transcribe", page: "pyapp · speech to text in a browser tab" },
    { id: "chat", title: "Chat", page: "pyapp · chat in a browser tab" },
  ]);
  setUpDialogs();
  foldSettings();
  if (!(await setUpServiceWorker())) return;
  document.head.append(h("link", { rel: "manifest", href: "app.webmanifest" })); // after a possible reload, which would interrupt it
  const app = new App([byId("story-error"), byId("transcribe-error")]);
  const models = new ModelDialog(app);
  const storage = new StorageDialog(app);
  setUpThreads(app);
  const story = new StoryView(app, models);
  const transcribe = new TranscribeView(app, models);
  const chat = byId("view-chat");
  onFirstShown(chat, async () => {
    const { openChat } = await import(siteUrl("modules/views/chat/chat-view.js"));
    globalThis.pyappPage.chat = await openChat(app, models, chat);
  }, app);
  setUpDropping((files, folder) => {
    if (isShown(transcribe.view)) transcribe.drop(files, folder);
    else models.addFiles(files, isShown(chat) ? app.choices.chat : app.choices.generate, folder);
  });
  app.addEventListener("ready", () => whenIdle(app, () => {
    keepOffline();
    app.engine.call("warm").catch(() => {}); // the page is offline: the parts are fetched again when needed
  }));
  app.listed().catch((error) => app.errorSlots.forEach((slot) => showError(slot, error, app.actions)));
  Object.assign(globalThis, { pyappPage: { app, models, storage, story, transcribe } }); // for tests and debugging
}

/**
 * Loads the parts of a view when it is first shown; the page's start does not wait for them.
 * @param {HTMLElement} view @param {() => Promise<void>} load @param {App} app
 */
function onFirstShown(view, load, app) {
  const show = async () => {
    view.removeEventListener("shown", show);
    try {
      await load();
    } catch (error) {
      view.addEventListener("shown", show);
      const failed = { type: "error", what: "This view could not be loaded.", where: String(error), hint: "Check your connection.", action: "retry" };
      showError(view, failed, { ...app.actions, retry: show });
    }
  };
  view.addEventListener("shown", show);
  if (isShown(view)) show();
}

/** Runs `work` when the page is idle and no story is being written. @param {App} app @param {() => void} work */
function whenIdle(app, work) {
  setTimeout(() => (app.busy ? whenIdle(app, work) : work()), 1500);
}

start();
