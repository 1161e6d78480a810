/**
 * The views of the page, and what shows and loads them. A view's scripts and style are fetched when it is first opened;
 * the story view is in the page's first bundle.
 */
import { importPart, loadStyle } from "../shared/site-parts.js";
import { StoryView } from "../views/story/story-view.js";
import { byId, closeDialogs, h } from "./dom.js";
import { failedPart, showError } from "./errors.js";

/**
 * @typedef {import("./app.js").App} App
 * @typedef {import("./models.js").Models} Models
 * @typedef {{drop: (files: File[], folder?: string) => unknown, importFile?: (file: File) => unknown}} LoadedView `drop` takes files that the view
 *   accepts, `importFile` one that it has exported
 * @typedef {{
 *   id: string, title: string, page: string, task: import("../shared/registry.js").Task,
 *   tasks?: readonly import("../shared/registry.js").Task[],
 *   accepts: (kind: string, files: {size: number, name: string, type: string}[], shown: boolean, choice: import("./model-choice.js").ModelChoice) => boolean,
 *   plan: (count: number, kind: string) => string,
 *   parts: () => any[], mixed?: boolean,
 * }} View `id`: the address's hash, and the section `view-<id>`; `page`: the page's title;
 *   `task`: whose models it uses; `tasks`: of a view that uses models of several; `mixed`: it takes files of several kinds together, a notebook with its data; `accepts`: whether it takes files of this kind (file-kinds.js), while it is shown or always, with the model of `choice`; `plan`: what it does with them; `parts`: its module, whose default export is the class of the view, and its style, as they arrive
 */

const LONGEST_PROMPT = 10000; // bytes

/** @param {string} kind @param {{size: number}[]} files */
const isShortText = (kind, files) => kind === "text" && files.length === 1 && files[0].size <= LONGEST_PROMPT;

/** @param {{name: string, type: string}} file */
const isPdf = ({ name, type }) => type === "application/pdf" || /\.pdf$/i.test(name);

/** @type {View[]} the first one is shown at the first visit */
export const VIEWS = [
  {
    id: "story", title: "Story", page: "pyapp · a story in a browser tab", task: "generate",
    accepts: (kind, files) => isShortText(kind, files),
    plan: () => "Drop to begin a story with this text",
    parts: () => [{ default: StoryView }],
  },
  {
    id: "transcribe", title: "Transcribe", page: "pyapp · speech to text in a browser tab", task: "transcribe", tasks: ["transcribe", "label-sound"],
    accepts: (kind, _files, shown) => kind === "sound" || (kind === "unknown" && shown), // it tries to read them as sound
    plan: (count) => (count === 1 ? "Drop to transcribe this recording" : `Drop to transcribe these ${count} recordings`),
    parts: () => [importPart("modules/views/transcribe/transcribe-view.js"), loadStyle("css/transcribe.css")],
  },
  {
    id: "read", title: "Read", page: "pyapp · text out of pictures in a browser tab", task: "read", tasks: ["answer"],
    accepts: (kind) => kind === "picture",
    plan: (count) => (count === 1 ? "Drop to read the text in this picture" : `Drop to read the text in these ${count} pictures`),
    parts: () => [importPart("modules/views/read/read-view.js"), loadStyle("css/read.css")],
  },
  {
    id: "pictures", title: "Pictures", page: "pyapp · what pictures show in a browser tab", task: "detect",
    tasks: ["detect", "cut-out", "segment", "depth", "classify-image", "match-image", "image-to-text"],
    accepts: (kind, files, shown) => shown && kind === "picture" && !files.some(isPdf),
    plan: (count) => (count === 1 ? "Drop to look at this picture" : "Drop to look at the first of these pictures"),
    parts: () => [importPart("modules/views/pictures/pictures-view.js"), loadStyle("css/pictures.css")],
  },
  {
    id: "chat", title: "Chat", page: "pyapp · chat in a browser tab", task: "chat",
    accepts: (kind, files, shown, { sees }) => shown && (isShortText(kind, files) || (kind === "picture" && sees && !files.some(isPdf))),
    plan: (count, kind) => (kind === "text" ? "Drop to put this text into your message" : `Drop to show the model ${count === 1 ? "this picture" : `these ${count} pictures`}`),
    parts: () => [importPart("modules/views/chat/chat-view.js"), loadStyle("css/chat.css")],
  },
  {
    id: "translate", title: "Translate", page: "pyapp · translation in a browser tab", task: "translate",
    accepts: (kind, files, shown) => shown && kind === "text" && files.length === 1,
    plan: () => "Drop to translate this text",
    parts: () => [importPart("modules/views/translate/translate-view.js"), loadStyle("css/translate.css")],
  },
  {
    id: "speak", title: "Speak", page: "pyapp · text to speech in a browser tab", task: "speak",
    accepts: (kind, files, shown) => shown && kind === "text" && files.length === 1,
    plan: () => "Drop to hear this text",
    parts: () => [importPart("modules/views/speak/speak-view.js"), loadStyle("css/speak.css")],
  },
  {
    id: "forecast", title: "Forecast", page: "pyapp · forecasts in a browser tab", task: "forecast",
    accepts: (kind, files, shown) => shown && kind === "text" && files.length === 1,
    plan: () => "Drop to forecast the numbers of this table",
    parts: () => [importPart("modules/views/forecast/forecast-view.js"), loadStyle("css/forecast.css")],
  },
  {
    id: "search", title: "Search", page: "pyapp · search by meaning in a browser tab", task: "embed",
    accepts: (kind) => kind === "text",
    plan: (count) => (count === 1 ? "Drop to search this text" : `Drop to search these ${count} texts`),
    parts: () => [importPart("modules/views/search/search-view.js"), loadStyle("css/search.css")],
  },
  {
    id: "lab", title: "Lab", page: "pyapp · Python and training in a browser tab", task: "generate", mixed: true,
    accepts: (kind, _files, shown) => kind === "notebook" || (shown && kind !== "model"),
    plan: (count) => (count === 1 ? "Drop to open this notebook, or to use this file in its cells" : `Drop to use these ${count} files in the cells`),
    parts: () => [importPart("modules/views/lab/lab-view.js"), loadStyle("css/lab.css")],
  },
];

/** The view that the address's hash names, before "=" and what is handed to it; null if it names none. */
const named = () => VIEWS.find(({ id }) => `#${id}` === location.hash.split("=")[0]) ?? null;

/** @param {View} view */
const sectionOf = ({ id }) => byId(`view-${id}`);

/** Shows one view at a time, by the address's hash, and loads it. The section of the view fires "shown", that of the view before it "left". */
export class Views {
  /** @param {App} app @param {Models} models */
  constructor(app, models) {
    this.app = app;
    this.models = models;
    /** The loaded views, by id. @type {Map<string, Promise<LoadedView>>} */
    this.loaded = new Map();
    /** How far each view was scrolled when it was left, in pixels, by id. @type {Map<string, number>} */
    this.places = new Map();
    byId("views").addEventListener("click", () => this.#remember()); // before the browser goes there
    addEventListener("hashchange", () => {
      const wanted = named() ?? (location.hash === "" ? VIEWS[0] : null); // other hashes are targets within the view
      if (!wanted) return;
      closeDialogs(); // by Back, which on telephones is the way out of one
      this.#show(wanted);
    });
    this.#show(this.shown);
  }

  /** The view that is shown. @type {View} */
  get shown() {
    return shownView();
  }

  /** Goes to a view. @param {View} view @returns {Promise<LoadedView>} when it is loaded */
  open(view) {
    if (this.shown !== view) {
      this.#remember();
      history.pushState(null, "", `#${view.id}`);
      this.#show(view);
    }
    return this.#load(view);
  }

  #remember() {
    this.places.set(this.shown.id, scrollY);
  }

  /** @param {View} wanted */
  #show(wanted) {
    const left = VIEWS.find((view) => view !== wanted && !sectionOf(view).hidden);
    showOnly(wanted);
    if (left) {
      sectionOf(left).dispatchEvent(new Event("left"));
      scrollTo({ top: this.places.get(wanted.id) ?? 0, behavior: "instant" });
    }
    sectionOf(wanted).dispatchEvent(new Event("shown"));
    this.#load(wanted).catch((error) => this.#failed(wanted, error));
  }

  /** @param {View} view @returns {Promise<LoadedView>} */
  #load(view) {
    const loading = this.loaded.get(view.id) ?? this.#loadNow(view);
    this.loaded.set(view.id, loading);
    return loading;
  }

  /** @param {View} view */
  async #loadNow(view) {
    const section = sectionOf(view);
    const waiting = h("p", { class: "view-loading", role: "status" }, "Loading this view…");
    const later = setTimeout(() => { // most are there at once
      waiting.hidden = section.hidden; // another view may be shown meanwhile
      section.before(waiting);
    }, 300);
    section.setAttribute("aria-busy", "true");
    try {
      const [{ default: Loaded }] = await Promise.all(view.parts());
      /** @type {LoadedView} */
      const loaded = new Loaded(this.app, this.models, section);
      globalThis.pyappPage = { ...globalThis.pyappPage, [view.id]: loaded };
      this.#tell(view);
      return loaded;
    } catch (error) {
      this.loaded.delete(view.id);
      throw error;
    } finally {
      clearTimeout(later);
      waiting.remove();
      section.removeAttribute("aria-busy");
    }
  }

  /** What a view has missed that was loaded after the list of models. @param {View} view */
  #tell(view) {
    for (const choice of (view.tasks ?? [view.task]).map((task) => this.app.choices[task])) {
      if (choice.model) choice.dispatchEvent(new CustomEvent("model"));
      if (choice.models.length) choice.dispatchEvent(new CustomEvent("models"));
    }
  }

  /** @param {View} view @param {unknown} error */
  #failed(view, error) {
    if (sectionOf(view).hidden) return; // another one is wanted by now; this one is fetched again when it is
    const slot = byId("view-error");
    sectionOf(view).hidden = true;
    showError(slot, failedPart(`The view “${view.title}” could not be loaded.`, error), { retry: () => this.#show(view) });
  }
}

/** The view that is shown. */
export const shownView = () => VIEWS.find((view) => !sectionOf(view).hidden) ?? VIEWS[0];

/** Adds the links to the views, and shows the section that the address names. */
export function setUpViews() {
  const bar = byId("views");
  bar.append(...VIEWS.map(({ id, title }) => h("a", { href: `#${id}` }, title)));
  bar.hidden = false;
  showOnly(named() ?? VIEWS[0]);
}

/** @param {View} wanted */
function showOnly(wanted) {
  byId("view-error").replaceChildren();
  for (const view of VIEWS) sectionOf(view).hidden = view !== wanted;
  for (const waiting of document.querySelectorAll(".view-loading")) /** @type {HTMLElement} */ (waiting).hidden = waiting.nextElementSibling !== sectionOf(wanted);
  for (const link of byId("views").children) {
    if (link.getAttribute("href") === `#${wanted.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = wanted.page;
}
