/**
 * The read view: pictures and PDFs come in, their pages are read one after the other, the text stands beside the picture, is
 * corrected and saved. Loaded when it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 */
import { present } from "../../shared/present.js";
import { Cancelled, UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { byId, copyText, find, h, showRows, tabMemory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { hubRow } from "../../page/offer-row.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { fetchSample, sampleButton } from "../../page/sample.js";
import { saveFile } from "../../page/save-file.js";
import { isShown } from "../../page/shell.js";
import { HistoryStore } from "../../history/history-store.js";
import { pixelsOf } from "../../pictures/decoded-picture.js";
import { PictureView } from "../../pictures/picture-view.js";
import { Arriving, Page } from "./page.js";
import { PagePicture } from "./page-picture.js";
import { closePdf, countPages, drawPage, isPdf, pageNumbers } from "./page-source.js";
import { PageQueue } from "./page-queue.js";
import { PageText } from "./page-text.js";
import { PasswordForm } from "./password-form.js";
import { LockedPdf } from "./pdf-file.js";
import { Questions } from "./questions.js";
import { buildRead } from "./read-parts.js";
import { aboutOf, askedOf, contentOf, filesOf, keptFiles, pagesOf, titleOf } from "./session.js";

const MOST_PAGES = 500; // in the queue
const SHOWN_EVERY = 200; // ms between two pictures of the text that arrives
const KEEP_AFTER = 2000; // ms after which edits are stored
const MODEL_FILES = /\.safetensors$|^(config|tokenizer|preprocessor_config)\.json$/i;
/** @type {Record<string, any>} as tasks.read has them, and the pages of PDFs */
const INITIAL = { layout: "page", tables: true, straighten: true, threshold: 0.6, pdf_pages: "" };
/** Models of the hub for handwriting; their sizes are about those of the weights. */
const HANDWRITING = [
  { name: "microsoft/trocr-small-handwritten", size: "250 MB" },
  { name: "microsoft/trocr-base-handwritten", size: "1.3 GB" },
];
/** What pages are saved as: the engine writes the files, as `pyapp read --format` does. */
const FORMATS = [
  { format: "text", suffix: "txt", label: "TXT", title: "Plain text", type: "text/plain" },
  { format: "csv", suffix: "csv", label: "CSV", title: "The tables, CSV", type: "text/csv" },
  { format: "json", suffix: "json", label: "JSON", title: "Everything with its places, JSON", type: "application/json" },
  { format: "hocr", suffix: "hocr", label: "hOCR", title: "Words with their places, hOCR", type: "text/html" },
  { format: "html", suffix: "html", label: "HTML", title: "Paragraphs and tables, HTML", type: "text/html" },
];

export default class ReadView extends PictureView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildRead(view);
    super(app, models, view, "read", "Reading");
    this.picture = new PagePicture();
    this.text = new PageText();
    this.password = new PasswordForm(byId("read-locked"));
    /** @type {import("./pdf-file.js").Ask} */
    this.ask = (name, wrong, signal) => this.password.ask(name, wrong, signal);
    /** Ends with the queue that is shown. */
    this.session = new AbortController();
    /** Ends when another page is shown. */
    this.showing = new AbortController();
    this.store = new HistoryStore("reading");
    this.entry = this.store.begin("Pictures");
    /** The queue. @type {Page[]} */
    this.pages = [];
    /** The page that is shown. @type {Page | null} */
    this.page = null;
    this.queue = new PageQueue(byId("read-queue"), byId("read-files"), { choose: (page) => this.choose(page), remove: (page) => this.remove(page) });
    /** Its picture. @type {HTMLCanvasElement | null} */
    this.canvas = null;
    this.editing = false;
    /** Pages that were removed from the queue, the last one at the end. @type {{page: Page, at: number}[]} */
    this.removed = [];
    /** Whether the page that is being read is shown: until the user looks at another one. */
    this.follows = true;
    /** What arrives of the page that is being read. @type {Arriving | null} */
    this.arriving = null;
    /** Edits are stored when it is over. @type {number | undefined} */
    this.later = undefined;
    /** The model that is loaded, by id. @type {string | null} */
    this.loaded = null;
    this.settings = new RememberedFields("read-settings", {
      layout: byId("read-layout"), tables: byId("read-find-tables"), straighten: byId("read-straighten"),
      threshold: byId("read-threshold"), pdf_pages: byId("read-pdf-pages"),
    }, INITIAL);
    this.card = this.historyCard(this.store, {
      name: "readings",
      open: (item) => this.open(item),
      renamed: (id, title) => id === this.entry.id && (this.entry.title = title),
      removed: (id) => id === this.entry.id && this.begin(),
      flush: () => this.keep(),
      begin: { label: "New pictures", run: () => this.begin() },
      filesOf: (item) => this.#exported(item),
    });
    this.questions = new Questions(this);
    this.showModel();
    this.#listen();
    this.ready = this.#restore();
  }

  get choice() {
    return this.app.choices.read;
  }

  get shown() {
    return this.page;
  }

  #listen() {
    this.camera.addEventListener("taken", ({ detail }) => this.add([detail]));
    byId("read-turn").addEventListener("click", () => this.turn());
    byId("read-edit").addEventListener("click", () => this.edit(!this.editing));
    byId("read-undo").addEventListener("click", () => this.undo());
    byId("read-back").addEventListener("click", () => this.goBack());
    byId("read-copy").addEventListener("click", () => this.attempt(async () => this.page && copyText(byId("read-copy"), (await this.written("text", [this.page])).trimEnd(), byId("read-text"))));
    byId("read-formats").append(...FORMATS.map((kind) =>
      h("button", { type: "button", title: kind.title, "data-format": kind.format, onclick: () => this.attempt(() => this.save(kind)) }, kind.label)));
    byId("read-scope").addEventListener("change", () => this.#showFormats());
    this.picture.addEventListener("mark", ({ detail }) => this.mark(detail, "picture"));
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.later !== undefined && this.keep());
    addEventListener("beforeunload", (event) => {
      if (this.later === undefined && !this.store.loses(this.pages.some((page) => page.read) ? this.entry : null)) return;
      event.preventDefault(); // the browser asks whether to leave; what was edited is being stored
      this.keep();
    });
    addEventListener("resize", () => this.editing && this.text.fit());
    this.text.addEventListener("mark", ({ detail }) => this.mark(detail, "text"));
    this.text.addEventListener("edited", ({ detail }) => this.edited(detail));
  }

  /** The options of tasks.read. */
  get options() {
    const { layout, tables, straighten, threshold } = this.settings.values;
    return { layout, tables, straighten, threshold };
  }

  // -- the model

  offer() {
    const { models } = this.choice;
    const samples = models.flatMap((model) => model.samples ?? []);
    byId("read-samples-group").hidden = samples.length === 0;
    showRows(byId("read-samples"), samples.map((sample) => sampleButton(sample, () => this.attempt(() => this.trySample(sample)))));
    showRows(byId("read-offer-list"), HANDWRITING.map((model) => hubRow(model, this.choice, this.models)));
    byId("read-offer").hidden = this.choice.model !== null && this.choice.model.kind !== "embedded";
  }

  /** Loads the chosen model before it is needed. */
  load() {
    const { model } = this.choice;
    if (!model || !isShown(this.view) || this.loaded === model.id || this.button.running || !this.engine.about) return;
    this.loaded = model.id;
    this.prepared = this.engine.call("read.load", { model: model.id }).catch((error) => {
      if (this.loaded === model.id) this.loaded = null;
      if (this.choice.uses(model)) showError(this.slot, error, this.actions);
    });
  }

  // -- the queue

  /** What was dropped on the page: pictures and PDFs, or the files of a model. @param {File[]} files @param {string} [folder] */
  drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.add(files);
  }

  /** @param {{path: string}} sample a picture of the site */
  async trySample({ path }) {
    await this.add([await fetchSample(path, "image/png")]);
  }

  /** Adds the pages of files, and reads them. @param {File[]} files */
  async add(files) {
    clearError(this.slot);
    const { signal } = this.session;
    /** @type {Page[]} */
    const added = [];
    const failed = [];
    for (const file of files) {
      if (!this.button.running) this.progress.show(`Opening ${file.name}…`);
      try {
        added.push(...(await this.#pagesOf(file, this.pages.length + added.length, signal)));
      } catch (error) {
        failed.push({ name: file.name, error: /** @type {any} */ (error) });
      }
      if (signal.aborted) break;
    }
    if (!this.button.running) this.progress.hide();
    if (failed.length) showError(this.slot, failed.length === 1 ? failed[0].error : notOpened(failed), this.actions);
    if (!added.length || signal.aborted) return;
    const told = [...this.slot.children];
    this.pages.push(...added);
    this.#showQueue();
    if (this.button.running) return; // it reads these too
    this.follows = true;
    await this.show(added[0]);
    for (const one of told) if (!one.isConnected) this.slot.append(one); // its picture could not be shown, either
    if (this.#next()) await this.read();
    else await this.keep(); // its picture could not be shown, so there is nothing to read
  }

  /** The pages of a file that are to be read. @param {File} file @param {number} before how many pages there are @param {AbortSignal} signal */
  async #pagesOf(file, before, signal) {
    const count = await countPages(file, { ask: this.ask, signal });
    const numbers = isPdf(file) ? pageNumbers(this.settings.values.pdf_pages, count) : [1];
    if (before + numbers.length > MOST_PAGES) {
      throw new UserError(`There are more than ${MOST_PAGES} pages.`, { where: file.name, hint: "Read fewer at a time: “Pages of PDFs” in the settings chooses some." });
    }
    return numbers.map((number) => new Page(file, number, count));
  }

  /** The main button: Stop, Read, or Read again. */
  pressed() {
    if (this.button.running) return this.button.stop();
    clearError(this.slot);
    if (this.page && !this.pages.some(({ state }) => state === "waiting")) this.page.forget();
    this.follows = true;
    return this.read();
  }

  /** Says why a page could not be read, and offers to try again. @param {Page} page */
  #showFailed(page) {
    showError(this.slot, { ...page.error, action: page.error?.action ?? "retry" }, { ...this.actions, retry: () => this.#again(page) });
  }

  /** Reads a page once more, and what else waits. @param {Page} page */
  async #again(page) {
    page.forget();
    this.follows = true;
    await this.read();
  }

  /** Reads the pages that wait, one after the other. */
  async read() {
    if (this.button.running || !this.#next()) return;
    const told = [...this.slot.children]; // files that could not be opened, while others can
    this.edit(false);
    await this.questions.button.interrupt(); // the models take turns
    if (this.button.running || !this.#next()) return;
    this.over = this.button.run(async (signal) => {
      this.slot.append(...told);
      await this.app.listed(signal);
      const { id, title } = this.choice.present;
      for (let page = this.#next(); page && !signal.aborted; page = this.#next()) await this.#readPage(page, id, title, signal);
    }, { fail: () => {}, retry: () => this.read() });
    this.#label();
    await this.over;
    this.progress.hide();
    this.#label();
    this.#showQueue();
    if (!this.editing) this.#showPage(); // what somebody types goes on
    await this.keep();
    const read = this.pages.filter((page) => page.state === "done").length;
    if (this.page?.state === "done") this.announcer.say(`Finished. ${counted(read, "page")} read, ${counted(this.page.figures().words, "word")} on this one.`);
  }

  #next() {
    return this.pages.find(({ state }) => state === "waiting");
  }

  /** @param {Page} page @param {string} model @param {string} title @param {AbortSignal} signal */
  async #readPage(page, model, title, signal) {
    page.forget();
    page.state = "reading";
    this.#showQueue();
    try {
      if (this.follows && this.page !== page) await this.show(page, signal);
      else if (this.page === page) this.#showPage();
      const canvas = this.page === page && this.canvas ? this.canvas : await this.draw(page, signal);
      await this.#readCanvas(page, canvas, model, title, signal);
    } catch (error) {
      if (signal.aborted || !isOfPage(error)) {
        page.state = "waiting";
        throw error;
      }
      // Who has no password is asked for it once.
      for (const one of error instanceof LockedPdf ? this.pages.filter(({ file, state }) => file === page.file && state === "waiting") : []) one.fail(error);
      page.fail(error);
    } finally {
      this.arriving = null;
    }
    if (this.page === page) this.#showPage();
    this.#showQueue();
    if (this.pages.length > 1) await this.keep();
  }

  /** @param {Page} page @param {HTMLCanvasElement} canvas @param {string} model @param {string} title @param {AbortSignal} signal */
  async #readCanvas(page, canvas, model, title, signal) {
    const arriving = (this.arriving = new Arriving(canvas, this.settings.values.layout));
    const { data } = pixelsOf(canvas, page.file.name);
    let drawn = performance.now();
    this.#say(page, "Finding the lines", 0, null);
    const onEvent = (/** @type {TaskEvent} */ event) => {
      if (event.type === "region") arriving.region(event);
      else if (event.type === "line") arriving.line(event);
      else if (event.type === "item") page.values = /** @type {any} */ (valuesOf(event));
      else if (event.type === "progress" && event.what === "layout") this.#say(page, "Finding the lines", event.done, event.total, false);
      else if (event.type === "progress" && event.what === "lines") this.#say(page, "Reading line", event.done, event.total);
      else if (event.type === "progress" && event.what !== "pictures") this.#say(page, event.what, event.done, event.total);
      if (this.page !== page || !["region", "line"].includes(event.type) || performance.now() - drawn < SHOWN_EVERY) return;
      drawn = performance.now();
      this.#showArriving(arriving);
    };
    const params = { model, pixels: data, height: canvas.height, width: canvas.width, name: page.name, options: this.options };
    const { reason } = await this.engine.call("read", params, { signal, onEvent });
    this.loaded = model;
    page.model = title;
    if (reason !== "cancelled") page.state = "done";
    else {
      page.values = arriving.values;
      page.state = page.values.regions.length ? "stopped" : "waiting";
    }
  }

  /** @param {Page} page @param {string} what @param {number} done @param {number | null} total @param {boolean} [counted] whether the text says which of how many */
  #say(page, what, done, total, counted = true) {
    const place = this.pages.length > 1 ? `Page ${this.pages.indexOf(page) + 1} of ${this.pages.length}: ` : "";
    const text = place ? what.charAt(0).toLowerCase() + what.slice(1) : what;
    this.progress.show(`${place}${text}${total && counted ? ` ${Math.min(done + 1, total)} of ${total}` : "…"}`, done, total);
  }

  /** @param {Page} page @param {AbortSignal} [signal] */
  async draw(page, signal) {
    const { canvas, smaller } = await drawPage(page.file, page.number, page.turns, { ask: this.ask, signal });
    page.smaller = smaller;
    return canvas;
  }

  #showQueue() {
    this.queue.show(this.pages, this.page);
  }

  /** Shows a page of the queue, because the user wants it. @param {Page} page */
  async choose(page) {
    this.follows = page.state === "reading";
    await this.show(page);
  }

  /** @param {Page} page */
  async remove(page) {
    const at = this.pages.indexOf(page);
    this.pages.splice(at, 1);
    this.removed.push({ page, at });
    this.#showQueue();
    this.#offerUndo();
    if (this.page === page) await this.show(this.pages[Math.min(at, this.pages.length - 1)] ?? null);
    if (this.pages.length) await this.keep();
    else await this.begin();
  }

  /** Offers to bring back the page that was removed last. */
  #offerUndo() {
    const last = this.removed.at(-1);
    byId("read-removed").hidden = !last;
    byId("read-removed").replaceChildren(...(last ? [`“${last.page.name}” is removed. `, h("button", { type: "button", class: "quiet", onclick: () => this.#bringBack() }, "Undo")] : []));
  }

  async #bringBack() {
    const { page, at } = present(this.removed.pop(), "the removed page");
    this.pages.splice(at, 0, page);
    this.#offerUndo();
    await this.choose(page);
    find(byId("read-queue"), "[aria-current]").focus(); // the button that was pressed goes away
    this.#label();
    await this.keep();
  }

  // -- the page that is shown

  /** Shows a page, or nothing. @param {Page | null} page @param {AbortSignal} [signal] */
  async show(page, signal) {
    this.edit(false);
    this.showing.abort();
    const showing = (this.showing = new AbortController());
    signal?.addEventListener("abort", () => showing.abort(), { once: true });
    this.page = page;
    this.canvas = null;
    this.picture.show(null);
    this.#showQueue();
    this.#showPage();
    if (!page) return;
    try {
      const canvas = await this.draw(page, showing.signal);
      if (this.page !== page) return;
      this.canvas = canvas;
      this.picture.show(canvas, page.name);
      this.#showPage();
    } catch (error) {
      if (error instanceof Cancelled && !signal?.aborted) return; // another page is shown
      if (signal) throw error;
      if (page.state === "waiting" && !this.button.running) { // else its reading says so
        if (isOfPage(error)) page.fail(error);
        else showError(this.slot, error, { ...this.actions, retry: () => this.show(page) });
      }
      this.#showQueue();
      this.#showPage();
    }
  }

  #showPage() {
    const { page, canvas } = this;
    const values = page?.state === "reading" ? this.arriving?.values : page?.values;
    byId("read-sheet").dataset.state = page?.state ?? "empty";
    byId("read-empty").hidden = page !== null;
    byId("read-head").hidden = page === null;
    byId("read-sides").hidden = page === null || page.state === "failed";
    byId("read-name").textContent = page?.name ?? "";
    byId("read-facts").textContent = page ? factsOf(page, canvas) : "";
    const turning = page?.state === "reading";
    if (turning && document.activeElement === byId("read-turn")) byId("read-start").focus(); // now Stop
    byId("read-turn").toggleAttribute("disabled", turning);
    if (page?.state === "failed") this.#showFailed(page);
    const regions = values?.regions ?? [];
    this.picture.draw(regions);
    this.text.show(regions, this.editing);
    const nothing = byId("read-nothing");
    nothing.hidden = !page || regions.length > 0;
    nothing.textContent = page?.state === "done" ? "No text was found. If there is some, a sharper or larger picture may help; a picture that lies on its side can be turned." : page?.state === "waiting" ? "This page waits to be read." : "";
    byId("read-foot").hidden = !page?.read;
    find(this.view, ".read-saving").hidden = byId("read-edit").hidden = byId("read-copy").hidden = regions.length === 0;
    byId("read-back").hidden = !page?.earlier;
    this.questions.show();
    if (!page?.read) return;
    this.#showFigures();
    this.#showFormats();
    byId("read-ending").textContent = page.state === "stopped" ? "You stopped it here." : page.model ? `By ${page.model}.` : "";
  }

  /** @param {Arriving} arriving */
  #showArriving(arriving) {
    this.picture.draw(arriving.found);
    this.text.show(arriving.values.regions, false);
    byId("read-nothing").hidden = arriving.values.regions.length > 0;
  }

  #showFigures() {
    if (!this.page) return;
    const { words, lines, tables, confidence } = this.page.figures();
    byId("read-words").textContent = words.toLocaleString("en");
    byId("read-lines").textContent = lines.toLocaleString("en");
    byId("read-tables").textContent = tables.toLocaleString("en");
    byId("read-confidence").textContent = confidence === null ? "–" : `${Math.round(confidence * 100)} %`;
    byId("read-undo").hidden = this.page.edits.length === 0;
  }

  #showFormats() {
    const several = this.pages.filter((page) => page.read).length > 1;
    find(this.view, ".read-scope").hidden = !several;
    if (!several) byId("read-scope").value = "page";
    const tables = this.#scope().some((page) => page.figures().tables > 0);
    const csv = find(byId("read-formats"), "[data-format=csv]");
    csv.toggleAttribute("disabled", !tables);
    csv.title = tables ? "The tables, CSV" : "No table was found";
  }

  #label() {
    const waiting = this.pages.filter(({ state }) => state === "waiting").length;
    this.button.setLabel(waiting ? (waiting < this.pages.length ? "Read on" : "Read") : "Read again");
  }

  /** Turns the shown picture by a quarter, and reads it again. */
  async turn() {
    const { page } = this;
    if (!page || page.state === "reading") return;
    page.turns = (page.turns + 1) % 4;
    page.forget();
    await this.show(page);
    this.announcer.say("The picture is turned.");
    if (!this.button.running) await this.read();
  }

  /** Marks a line or a cell in the text and in the picture. @param {string} key @param {"picture" | "text"} from */
  mark(key, from) {
    this.picture.mark(key, from === "text");
    this.text.mark(key, from === "picture");
  }

  /** @param {boolean} editing */
  edit(editing) {
    if (this.editing === editing) return;
    this.editing = editing;
    const button = byId("read-edit");
    button.setAttribute("aria-pressed", String(editing));
    button.textContent = editing ? "Done editing" : "Edit text";
    this.#showPage();
    if (editing) /** @type {HTMLElement | null} */ (byId("read-text").querySelector("textarea"))?.focus();
    else this.keep();
  }

  /** @param {import("./page.js").Edit} edit */
  edited(edit) {
    if (!this.page?.edit(edit)) return;
    this.#showFigures();
    clearTimeout(this.later);
    this.later = setTimeout(() => this.keep(), KEEP_AFTER);
  }

  undo() {
    const edit = this.page?.undo();
    if (!edit) return;
    this.#showPage();
    this.text.mark(`${edit.region}/${edit.cell === undefined ? "line" : "cell"}/${edit.cell ?? edit.line}`, true);
    this.announcer.say("The edit is undone.");
    this.keep();
  }

  /** Shows the text again that a hand had changed before the page was read again. */
  async goBack() {
    const { page } = this;
    page?.goBack();
    const kept = this.keep();
    await this.show(page); // the picture may have been turned
    this.announcer.say("The edited text is back.");
    await kept;
  }

  // -- saving

  /** The pages that are saved. */
  #scope() {
    return byId("read-scope").value === "all" ? this.pages.filter((page) => page.read) : this.page ? [this.page] : [];
  }

  /** @param {string} format @param {Page[]} pages @returns {Promise<string>} the content of a file */
  async written(format, pages) {
    const { text } = await this.engine.call("read.export", { format, pages: pages.map(({ values }) => values), names: pages.map(({ name }) => name) });
    return text;
  }

  /** @param {{format: string, suffix: string, type: string}} kind */
  async save(kind) {
    const pages = this.#scope();
    const text = await this.written(kind.format, pages);
    const name = (pages.length > 1 ? this.entry.title : pages[0].name).replace(/\.(png|jpe?g|gif|webp|avif|bmp|pdf)$/i, "");
    saveFile(`${name}.${kind.suffix}`, new Blob([text], { type: `${kind.type};charset=utf-8` }));
  }

  // -- the history

  /** Stores the pages that were read. */
  async keep() {
    clearTimeout(this.later);
    this.later = undefined;
    if (!this.pages.some((page) => page.read)) return;
    const { entry, pages } = this;
    const files = filesOf(pages);
    const changed = files.length !== this.kept?.length || files.some((file, i) => file !== this.kept?.[i]);
    if (entry.revision === 0) entry.title = titleOf(pages);
    entry.about = aboutOf(pages);
    this.kept = files;
    try {
      await this.store.put(entry, contentOf(pages, this.questions.asked), { [changed ? "files" : "allFiles"]: keptFiles(files) });
      if (entry === this.entry) tabMemory.set("reading", entry.id);
      await this.card.refresh(this.entry.id);
    } catch (error) {
      this.kept = undefined;
      showError(this.slot, error, this.actions);
    }
  }

  /** An empty queue. */
  async begin() {
    await this.#change(this.store.begin("Pictures"), []);
    tabMemory.set("reading", null);
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async open(item) {
    const pages = pagesOf(item);
    await this.#change(item.entry, pages, askedOf(item.content, pages));
    this.kept = filesOf(pages);
    tabMemory.set("reading", item.entry.id);
    this.announcer.say(`${item.entry.title}: ${item.entry.about}.`);
  }

  /** @param {import("../../history/history-store.js").HistoryEntry} entry @param {Page[]} pages @param {import("./session.js").Asked[]} [asked] */
  async #change(entry, pages, asked = []) {
    this.session.abort();
    this.session = new AbortController();
    this.showing.abort();
    await Promise.all([this.button.interrupt(), this.questions.button.interrupt()]);
    await this.keep();
    clearError(this.slot);
    closePdf();
    this.kept = undefined;
    this.entry = entry;
    this.pages = pages;
    this.questions.set(asked);
    this.removed = [];
    this.#offerUndo();
    await this.show(pages[0] ?? null);
    this.#label();
    await this.card.refresh(entry.id);
  }

  /** What this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get("reading");
    try {
      const item = id && (await this.store.read(id));
      if (item && !this.pages.length) await this.open(item);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** The files of an entry, for a ZIP of all. @param {import("../../history/history-store.js").HistoryItem} item */
  async #exported(item) {
    const pages = pagesOf(item).filter((page) => page.read);
    const texts = await Promise.all(FORMATS.filter(({ format }) => ["text", "json", "hocr"].includes(format)).map(async ({ format, suffix, type }) =>
      ({ name: `${item.entry.title.replaceAll("/", "_")}.${suffix}`, blob: new Blob([await this.written(format, pages)], { type }) })));
    return [...texts, ...item.files.map(({ name, blob }) => ({ name: name.replace(/^\d+\//, ""), blob }))];
  }
}

/** The error of several files that could not be opened. @param {{name: string, error: any}[]} failed */
const notOpened = (failed) => new UserError(`${failed.length} files could not be opened.`, {
  where: failed.map(({ name }) => name).join(", "),
  hint: [...new Set(failed.map(({ error }) => error.what ?? error.message))].slice(0, 3).join(" "),
});

/** Whether an error is about one page: the next ones are read. @param {any} error */
const isOfPage = (error) => error?.name === "UserError" && !error.fatal && !["models", "restart", "retry"].includes(error.action);

/** @param {Record<string, any>} event an item of the task "read" */
function valuesOf({ text, layout, regions, width, height, angle }) {
  return { text, layout, regions, width, height, angle };
}

/** @param {Page} page @param {HTMLCanvasElement | null} canvas */
function factsOf(page, canvas) {
  if (!canvas) return "";
  const angle = Math.abs(page.values?.angle ?? 0);
  const straight = angle >= 0.2 ? `, ${angle >= 45 ? "turned" : "straightened"} by ${angle.toFixed(1)}°` : "";
  return `${canvas.width.toLocaleString("en")} × ${canvas.height.toLocaleString("en")} pixels${page.smaller ? ", a smaller copy" : ""}${straight}`;
}
