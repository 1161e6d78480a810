/**
 * Where files go that are dropped on the page or pasted, shared with the installed app or opened with it: recordings, texts,
 * pictures and models each to the view that uses them, whichever is shown. A view hands files over by the application's event "files".
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { byId, closeDialogs } from "./dom.js";
import { showError } from "./errors.js";
import { exporterOf, isForPrograms, kindOf, recognised, sorted, taskOf, unusable } from "./file-kinds.js";
import { setUpDropping } from "./shell.js";
import { VIEWS } from "./views.js";

const SHARED = "#shared"; // the address to which the service worker leads after it has stored shared files
const SHARED_CACHE = "pyapp-shared";
const ANYTHING = "Drop a recording, a picture, a text or a model";

export class FileRouter {
  /**
   * @param {import("./app.js").App} app @param {import("./models.js").Models} models
   * @param {import("./views.js").Views} views
   */
  constructor(app, models, views) {
    this.app = app;
    this.models = models;
    this.views = views;
    setUpDropping((files, folder) => this.take(files, folder), (types) => this.#plan(types), (error) =>
      showError(byId("view-error"), new UserError("A folder that was dropped could not be read.", { where: String(error), hint: "It may have been moved, or belong to another user." }), app.actions));
    addEventListener("paste", (event) => {
      const { clipboardData } = event;
      const files = [...(clipboardData?.files ?? [])];
      if (!files.length || clipboardData?.types.includes("text/plain")) return; // a text is pasted into its field
      event.preventDefault();
      this.take(files);
    });
    const { launchQueue } = /** @type {any} */ (globalThis); // of an installed app
    launchQueue?.setConsumer(async (/** @type {{files: FileSystemFileHandle[]}} */ { files = [] }) => {
      if (files.length) this.take(await Promise.all(files.map((handle) => handle.getFile())));
    });
    app.addEventListener("files", ({ detail: { files, folder, view } }) => this.take(files, folder, view));
    if (location.hash === SHARED) this.#takeShared();
  }

  /**
   * Gives files to the view that uses them. @param {File[]} files @param {string} [folder] the folder that contained them
   * @param {string} [wanted] the id of the view, where another view hands them over
   */
  async take(files, folder = undefined, wanted = undefined) {
    byId("view-error").replaceChildren();
    try {
      await this.#take(await Promise.all(files.map(recognised)), folder, wanted);
    } catch (error) {
      showError(byId("view-error"), error, this.app.actions);
    }
  }

  /** @param {File[]} files @param {string} [folder] @param {string} [wanted] */
  async #take(files, folder, wanted) {
    const given = VIEWS.find(({ id }) => id === wanted);
    if (wanted && !given) throw new UserError(`The page has no view "${wanted}".`, { hint: `The views are ${VIEWS.map(({ id }) => id).join(", ")}.` });
    const exporter = files.length === 1 && !given && !this.views.shown.mixed && (await exporterOf(files[0]));
    const back = exporter && VIEWS.find(({ id }) => id === exporter);
    if (back) {
      (await this.views.open(back)).importFile?.(files[0]);
      return;
    }
    const kinds = sorted(files);
    const lab = VIEWS.find(({ mixed }) => mixed);
    const together = !given && lab && kinds.size > 1 && !kinds.has("model") && (lab === this.views.shown || (kinds.has("notebook") && !folder));
    const kind = /** @type {const} */ (["model", "notebook", "sound", "picture", "text", "unknown", "other"]).find((one) => kinds.has(one));
    const taken = together ? [...kinds.values()].flat() : kind && kinds.get(kind);
    const hidden = files.length > 0 && folder === undefined;
    if (!kind || !taken) throw new UserError(hidden ? "Files whose names begin with a dot are left out." : "There are no files in this folder.", { where: folder, hint: "Drop a recording, a picture, a text, or the files of a model." });
    const forCells = kind === "model" && !given && lab === this.views.shown && (await isForPrograms(taken));
    if (kind === "model" && !forCells) await this.#takeModel(taken, folder, given);
    else {
      closeDialogs(); // what becomes of the files is seen below them
      const view = forCells ? lab : given ?? this.#viewFor(kind, taken);
      if (!view) throw unusable(taken[0]);
      const loaded = await this.views.open(view);
      Promise.resolve(loaded.drop(taken, folder)).catch((error) => showError(byId("view-error"), error, this.app.actions)); // it may take long
    }
    const left = files.filter((file) => !taken.includes(file) && !file.name.startsWith("."));
    if (left.length) throw new UserError(`${left.length === 1 ? "One file was" : `${left.length} files were`} left out.`, { where: left.map(({ name }) => name).join(", "), hint: "Drop files of one kind at a time." });
  }

  /** @param {File[]} files @param {string} [folder] @param {import("./views.js").View} [given] */
  async #takeModel(files, folder, given) {
    const task = given ? given.task : await taskOf(files);
    const view = given ?? VIEWS.find((one) => one.task === task || one.tasks?.some((other) => other === task)) ?? this.views.shown;
    await this.views.open(view);
    const choices = /** @type {Record<string, import("./model-choice.js").ModelChoice>} */ (this.app.choices);
    await this.models.addFiles(files, choices[task ?? view.task] ?? choices[view.task], folder); // voices have no view
  }

  /** The shown view if it takes the files, else the last one that does. @param {string} kind @param {{size: number, name: string, type: string}[]} files */
  #viewFor(kind, files) {
    const { shown } = this.views;
    const able = VIEWS.filter((view) => view.accepts(kind, files, view === shown, this.app.choices[view.task]));
    return able.includes(shown) ? shown : able.at(-1);
  }

  /** What will happen with files that are dragged over the page. Their names are not known yet. @param {string[]} types */
  #plan(types) {
    const kinds = new Set(types.map((type) => kindOf({ name: "", type })));
    const [kind] = kinds;
    if (kinds.size !== 1 || kind === "unknown") return ANYTHING;
    const view = this.#viewFor(kind, types.map((type) => ({ size: 0, name: "", type })));
    return view ? view.plan(types.length, kind) : ANYTHING;
  }

  /** Takes the files that another app has shared; the service worker has stored them. */
  async #takeShared() {
    history.replaceState(null, "", siteUrl("./"));
    const cache = await caches.open(SHARED_CACHE);
    const files = [];
    for (const request of await cache.keys()) {
      if (!request.url.startsWith(siteUrl("./"))) continue; // of another copy of this page
      const response = await cache.match(request);
      if (!response) continue; // another tab has taken it
      const name = decodeURIComponent(response.headers.get("X-File-Name") ?? "shared");
      files.push(new File([await response.blob()], name, { type: response.headers.get("Content-Type") ?? "" }));
      await cache.delete(request);
    }
    if (files.length) await this.take(files);
  }
}
