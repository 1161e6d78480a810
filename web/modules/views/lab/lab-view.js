/**
 * The Lab: cells of Python beside their outputs. The notebook is stored in this browser while it is edited.
 */
import { HistoryCard } from "../../history/history-card.js";
import { HistoryStore } from "../../history/history-store.js";
import { Announcer } from "../../page/announcer.js";
import { byId, find, focusAgain, h, memory, single, tabMemory } from "../../page/dom.js";
import { clearRestartError, clearError, showError } from "../../page/errors.js";
import { nextFrame } from "../../page/next-frame.js";
import { saveFile } from "../../page/save-file.js";
import { hostsIn } from "../../shared/lab-hosts.js";
import { UserError, megabytes } from "../../shared/protocol.js";
import { fetchWhole } from "../../shared/sent.js";
import { siteUrl } from "../../shared/site.js";
import { Slices } from "../../shared/slices.js";
import { counted } from "../../shared/words.js";
import { CellItem } from "./cell-item.js";
import { buildLab } from "./lab-parts.js";
import { LabPython } from "./lab-python.js";
import { NotebookFileList, lastPart } from "./notebook-file-list.js";
import { fromScript, readNotebook, toJupyter, toScript } from "./notebook-files.js";
import { carries, fromLink, linkOf } from "./notebook-link.js";

const SAVE_DELAY = 800; // ms after the last change
const SAVE_LATEST = 3000; // ms after the first one: a training that draws without a pause is stored too
const STOP_PATIENCE = 3000; // ms until the page offers to restart Python
const LARGEST_FILE = 1e9; // bytes
const CELLS_A_FRAME = 8; // more, and the browser takes longer than a frame to lay them out
const SHOWN = "notebook-shown"; // the notebook that a reload of this tab shows again
const COMES_FROM_LINK = "This notebook came with a link, and nothing in it was run. Read it first: its code can use what this page stores, and the network.";

/** @typedef {{file: string, title: string, about: string, files: string[]}} Lesson `files`: those beside the notebook */

export default class LabView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} _models @param {HTMLElement} view an empty section */
  constructor(app, _models, view) {
    this.app = app;
    this.view = view;
    buildLab(view);
    this.slot = byId("lab-error");
    this.announcer = new Announcer(byId("lab-announcer"));
    this.python = new LabPython(memory.get("lab-hosts", ""));
    /** @type {CellItem[]} */
    this.cells = [];
    /** Cells that wait for their turn. @type {CellItem[]} */
    this.queue = [];
    /** Cells and files that were deleted from this notebook, the last one at the end. @type {{what: string, back: () => unknown}[]} */
    this.deleted = [];
    /** @type {CellItem | null} */
    this.runningCell = null;
    this.runs = 0;
    /** Resolves when nothing runs. @type {Promise<void>} */
    this.over = Promise.resolve();
    /** The last opening of a notebook: one comes after the other. @type {Promise<unknown>} */
    this.opening = Promise.resolve();
    this.files = new NotebookFileList(byId("lab-files"), { remove: (name) => this.#removeFile(name) });
    /** When the first change came that is not stored yet. */
    this.unsavedSince = 0;
    /** Files that Python does not have yet. */
    this.filesToPut = false;
    /** What had the focus before the note came. @type {HTMLElement | null} */
    this.beforeNote = null;
    this.store = new HistoryStore("notebook");
    /** @type {import("../../history/history-store.js").HistoryEntry | null} null: not stored yet */
    this.entry = null;
    this.card = new HistoryCard(find(view, ".workspace-side"), this.store, {
      name: "notebooks",
      open: (item) => this.#openStored(item),
      filesOf: async ({ entry, content, files }) => [{ name: `${(entry.title || "notebook").replaceAll("/", "_")}.ipynb`, blob: new Blob([toJupyter({ title: entry.title, cells: content.cells })]) }, ...files],
      renamed: (id, title) => this.entry?.id === id && this.#setTitle((this.entry.title = title)),
      removed: (id) => this.#removed(id),
      flush: () => this.#save(),
    }, app.actions);
    this.#listen();
    this.ready = this.#begin();
  }

  #listen() {
    byId("lab-run").addEventListener("click", () => this.runAll());
    byId("lab-stop").addEventListener("click", () => this.stop());
    byId("lab-restart").addEventListener("click", single(() => this.#restart()));
    byId("lab-note").addEventListener("keydown", ({ key }) => void (key === "Escape" && this.#note(null)));
    byId("lab-new").addEventListener("click", () => this.open({ title: "Untitled", cells: [{ kind: "code", source: "" }] }));
    byId("lab-open").addEventListener("change", ({ target }) => this.#take(/** @type {HTMLInputElement} */ (target), (files) => this.#openFile(files[0])));
    byId("lab-add-files").addEventListener("change", ({ target }) => this.#take(/** @type {HTMLInputElement} */ (target), (files) => this.addFiles(files)));
    byId("lab-save-ipynb").addEventListener("click", () => saveFile(`${this.data().title}.ipynb`, new Blob([toJupyter(this.data())], { type: "application/x-ipynb+json" })));
    byId("lab-save-py").addEventListener("click", () => saveFile(`${this.data().title}.py`, new Blob([toScript(this.data())], { type: "text/x-python" })));
    byId("lab-link").addEventListener("click", () => this.#do(() => this.#copyLink()));
    byId("lab-add-code").addEventListener("click", single(() => this.#insert(this.cells.length, "code")));
    byId("lab-add-text").addEventListener("click", single(() => this.#insert(this.cells.length, "text")));
    byId("lab-hosts").value = memory.get("lab-hosts", "");
    byId("lab-hosts").addEventListener("change", () => this.#allow(hostsIn(byId("lab-hosts").value)));
    byId("lab-name").addEventListener("change", () => this.changed());
    this.python.addEventListener("state", ({ detail }) => this.#showState(detail));
    this.python.addEventListener("file", ({ detail: { name, bytes } }) => {
      this.files.set(name, bytes && new Blob([bytes]));
      this.filesChanged = true;
      this.changed();
    });
    this.python.addEventListener("restarted", () => {
      this.runs = 0;
      this.filesToPut = true;
      for (const cell of this.cells) {
        cell.count = null;
        cell.show();
      }
    });
    this.view.addEventListener("shown", () => this.#takeLink());
    addEventListener("hashchange", () => this.#takeLink());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.#save());
    addEventListener("beforeunload", (event) => {
      if (this.runningCell || this.unsaved || this.store.loses(this.entry)) event.preventDefault(); // its variables would be lost
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && event.target === document.body && !this.view.hidden) this.stop();
    });
  }

  /** The notebook of this tab, else that of a link, else the first lesson. */
  async #begin() {
    this.python.start();
    const lessons = this.#listLessons();
    /** @type {unknown[]} */
    const errors = [];
    if (carries(location.hash)) {
      try {
        return await this.#openLink();
      } catch (error) {
        errors.push(error);
      }
    }
    const id = tabMemory.get(SHOWN);
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (item) await this.#openStored(item);
    else {
      const [first] = await lessons;
      try {
        if (first) await this.openLesson(first);
      } catch (error) {
        errors.push(error);
      }
      if (!this.cells.length) await this.open({ title: "Untitled", cells: [{ kind: "code", source: "" }] });
    }
    if (errors.length) showError(this.slot, errors[0], this.app.actions); // not before: opening a notebook removes what is said of another
  }

  /** @returns {Promise<Lesson[]>} */
  async #listLessons() {
    try {
      const response = await fetch(siteUrl("lessons/lessons.json"));
      /** @type {Lesson[]} */
      const lessons = response.ok ? await response.json() : [];
      byId("lab-lessons").replaceChildren(...lessons.map((lesson) => h("li", {},
        h("button", { type: "button", class: "lab-lesson", onclick: () => this.#do(() => this.openLesson(lesson)) }, h("span", { class: "lab-lesson-title" }, lesson.title), h("span", { class: "lab-lesson-about" }, lesson.about)))));
      return lessons;
    } catch {
      return []; // offline at the first visit: the Lab works without
    }
  }

  /** @param {Lesson} lesson */
  async openLesson({ file, title, files }) {
    const script = await fetchWhole(`lessons/${file}`, (response) => response.text(), { what: "This lesson" });
    const notebook = fromScript(script, title);
    const wanted = await Promise.all(files.map(async (name) => {
      const blob = await fetchWhole(`lessons/${name}`, (response) => response.blob(), { what: "A file of this lesson" });
      return { name: lastPart(name), blob };
    }));
    await this.open(notebook, null, wanted);
    this.filesChanged = wanted.length > 0;
  }

  /**
   * Shows a notebook in place of this one, which is stored.
   * @param {import("./notebook-files.js").NotebookData} notebook @param {import("../../history/history-store.js").HistoryEntry | null} [entry]
   * @param {import("../../history/history-store.js").KeptFile[]} [files] @returns {Promise<void>}
   */
  open(notebook, entry = null, files = []) {
    const opened = this.opening.then(() => this.#open(notebook, entry, files));
    this.opening = opened.catch(() => {}); // who asked for it is told
    return opened;
  }

  /** @param {import("./notebook-files.js").NotebookData} notebook @param {import("../../history/history-store.js").HistoryEntry | null} entry @param {import("../../history/history-store.js").KeptFile[]} files */
  async #open({ title, cells }, entry, files) {
    const items = await this.#items(cells); // if that fails, this notebook stays
    await this.#leave();
    this.entry = entry;
    this.#setTitle(title);
    this.deleted = [];
    this.cells = items;
    await this.#showCells();
    if (this.runs || this.files.files.size) await this.python.reset(); // it begins without the variables and files of this one
    this.runs = 0;
    this.files.replace(files);
    this.filesToPut = files.length > 0;
    this.unsaved = this.filesChanged = false;
    tabMemory.set(SHOWN, entry?.id ?? null);
    await this.card.refresh(entry?.id ?? null);
  }

  /** Cells at their places, made in slices. @param {import("./notebook-files.js").CellData[]} cells */
  async #items(cells) {
    const slices = new Slices({});
    /** @type {CellItem[]} */
    const items = [];
    try {
      for (const cell of cells) {
        items.push(this.#item({ ...cell, count: null }));
        items[items.length - 1].place(items.length);
        const pause = slices.look(items.length, cells.length);
        if (pause) await pause;
      }
    } catch (error) {
      for (const item of items) item.destroy();
      throw error;
    }
    return items;
  }

  /** Shows the cells of this notebook, some in each frame: the browser lays no hidden ones out. */
  async #showCells() {
    const elements = this.cells.map(({ element }) => element);
    const later = elements.slice(CELLS_A_FRAME);
    for (const element of later) element.hidden = true;
    byId("lab-cells").replaceChildren(...elements);
    while (later.length) {
      await nextFrame();
      for (const element of later.splice(0, CELLS_A_FRAME)) element.hidden = false;
    }
  }

  /** Ends what runs, and stores the notebook. */
  async #leave() {
    clearError(this.slot);
    this.#note(null);
    if (this.runningCell) {
      this.python.restart("Another notebook was opened.");
      await this.over;
    }
    await this.#save();
    for (const cell of this.cells) cell.destroy();
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async #openStored({ entry, content, files }) {
    await this.open({ title: entry.title, cells: content.cells }, entry, files);
    if (content.running) this.#note(`The page was closed while cell ${content.running} ran. What it had shown and the files that it had written are here; run it again to go on from them.`);
  }

  /** @param {string} id of a notebook that was deleted */
  async #removed(id) {
    if (this.entry?.id !== id) return;
    this.entry = null;
    this.unsaved = false;
    await this.open({ title: "Untitled", cells: [{ kind: "code", source: "" }] });
  }

  async #takeLink() {
    if (carries(location.hash)) await this.#do(() => this.#openLink());
  }

  /** Opens the notebook of the address, which is the Lab's from then on. */
  async #openLink() {
    const { hash } = location;
    history.replaceState(null, "", "#lab");
    await this.open(await fromLink(hash));
    this.#note(COMES_FROM_LINK);
  }

  /** Files that were dropped on the page. @param {File[]} files */
  async drop(files) {
    await this.ready;
    const kinds = files.length === 1 ? /\.(ipynb|py)$/i : /\.ipynb$/i; // beside other files, a script is a module
    const notebooks = files.filter(({ name }) => kinds.test(name));
    await this.#do(async () => {
      for (const file of notebooks) await this.#openFile(file);
      if (notebooks.length > 1) this.#note(`${notebooks.length} notebooks are stored. This is the last of them; the others are under “Earlier”.`);
      const beside = files.filter((file) => !notebooks.includes(file));
      if (beside.length) await this.addFiles(beside);
    });
  }

  /** @param {File} file */
  async #openFile(file) {
    const notebook = await readNotebook(file);
    await this.open(notebook);
    if (notebook.assumed) this.#note(`${file.name} is not in UTF-8: it was read as Windows-1252. If letters are wrong, save it in UTF-8 and open it again.`);
    this.changed();
  }

  /** Puts files beside the notebook. @param {File[]} files */
  async addFiles(files) {
    const large = files.find(({ size }) => size > LARGEST_FILE);
    if (large) throw new UserError(`This file is too large for cells: ${megabytes(large.size)}.`, { where: large.name, hint: `At most ${megabytes(LARGEST_FILE)} can be beside a notebook, because Python has it in memory. Take a part of it.` });
    const listed = await Promise.all(files.map(async (file) => ({ name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) })));
    await this.python.putFiles(listed);
    for (const file of files) this.files.set(file.name, file);
    this.filesChanged = true;
    this.changed();
    this.announcer.say(`${files.map(({ name }) => name).join(", ")} added.`);
  }

  /** @param {string} name */
  async #removeFile(name) {
    await this.#do(async () => {
      const blob = this.files.files.get(name);
      await this.python.removeFile(name);
      this.files.set(name, null);
      this.filesChanged = true;
      this.changed();
      if (blob) this.#deleted(name, () => this.addFiles([new File([blob], name)]));
    });
  }

  /** @param {HTMLInputElement} field @param {(files: File[]) => Promise<void>} work */
  async #take(field, work) {
    const files = [...(field.files ?? [])];
    field.value = "";
    if (files.length) await this.#do(() => work(files));
  }

  // -- cells

  /** @param {import("./notebook-files.js").CellData} data */
  #item(data) {
    return new CellItem(data, {
      run: (cell) => this.run([cell]),
      runAndGoOn: (cell) => {
        if (cell.kind === "code") this.run([cell]);
        const next = this.cells[this.cells.indexOf(cell) + 1] ?? this.#insert(this.cells.length, "code");
        if (next.kind === "code") next.edit();
        else next.element.focus();
      },
      changed: () => this.changed(),
      move: (cell, by) => this.#move(cell, by),
      remove: (cell) => this.#remove(cell),
      addBelow: (cell, kind) => this.#insert(this.cells.indexOf(cell) + 1, kind),
      go: (cell, by) => this.cells[this.cells.indexOf(cell) + by]?.element.focus(),
      drawn: (field, pixels, answers, cell) => this.#drawn(field, pixels, answers, cell),
      open: (output) => this.#do(() => this.#openFiles(output)),
      complete: (text) => this.python.ask("complete", { text }),
      signature: async (text) => (await this.python.ask("signature", { text }))?.signature ?? null,
    });
  }

  /** @param {number} at @param {"code" | "text"} kind @returns {CellItem} */
  #insert(at, kind, data = { kind, source: "" }) {
    const cell = this.#item(data);
    this.cells.splice(at, 0, cell);
    const list = byId("lab-cells");
    list.insertBefore(cell.element, list.children[at] ?? null);
    this.#place();
    this.changed();
    if (!data.source) cell.edit();
    return cell;
  }

  /** @param {CellItem} cell @param {number} by */
  #move(cell, by) {
    const from = this.cells.indexOf(cell);
    const to = from + by;
    if (to < 0 || to >= this.cells.length) return;
    this.cells.splice(to, 0, ...this.cells.splice(from, 1));
    const list = byId("lab-cells");
    list.insertBefore(cell.element, list.children[by > 0 ? to + 1 : to] ?? null);
    cell.element.focus();
    this.#place();
    this.changed();
  }

  /** @param {CellItem} cell */
  #remove(cell) {
    if (cell === this.runningCell) return this.#note("This cell runs. Stop it first, then delete it.");
    const at = this.cells.indexOf(cell);
    const data = cell.data();
    this.queue = this.queue.filter((other) => other !== cell);
    this.cells.splice(at, 1);
    cell.element.remove();
    cell.destroy();
    if (!this.cells.length) this.#insert(0, "code");
    this.#place();
    this.changed();
    (this.cells[at] ?? this.cells[at - 1]).element.focus();
    if (!data.source.trim()) return;
    this.#deleted("A cell", () => this.#insert(Math.min(at, this.cells.length), data.kind, data).element.focus());
  }

  /** Offers to bring back what is deleted, and then what was before it. @param {string} what @param {() => unknown} back */
  #deleted(what, back) {
    this.deleted.push({ what, back });
    this.#offerUndo();
  }

  #offerUndo() {
    const last = this.deleted.at(-1);
    if (!last) return;
    this.#note(`${last.what} is deleted${this.deleted.length > 1 ? `, and before it ${this.deleted.length - 1} more` : ""}.`, async () => {
      this.deleted.pop();
      await last.back();
      this.#offerUndo();
    });
  }

  #place() {
    this.cells.forEach((cell, i) => cell.place(i + 1));
  }

  // -- running

  runAll() {
    return this.run(this.cells.filter(({ kind, source }) => kind === "code" && source.trim()));
  }

  /** Runs cells one after the other; after an error or Stop the others do not run. @param {CellItem[]} cells */
  run(cells) {
    for (const cell of cells) {
      if (cell.kind !== "code" || this.queue.includes(cell) || cell === this.runningCell) continue;
      this.queue.push(cell);
      cell.show("waiting");
    }
    if (!this.runningCell && this.queue.length) this.over = this.#work();
    return this.over;
  }

  async #work() {
    clearError(this.slot);
    byId("lab-stop").disabled = false;
    const end = this.app.begin("Running a cell");
    try {
      for (let cell = this.queue.shift(); cell; cell = this.queue.shift()) {
        if (!(await this.#runOne(cell))) break;
      }
    } finally {
      end();
      for (const cell of this.queue) cell.show("");
      this.queue = [];
      this.runningCell = null;
      byId("lab-stop").disabled = true;
      clearTimeout(this.stopTimer);
      this.changed();
    }
  }

  /** @param {CellItem} cell @returns {Promise<boolean>} whether the next one may run */
  async #runOne(cell) {
    this.runningCell = cell;
    cell.outputs.clear();
    cell.markLine(null);
    cell.show("running", "");
    this.changed();
    const began = performance.now();
    let reason = "failed";
    try {
      if (this.filesToPut) await this.#putFiles();
      cell.count = this.runs += 1;
      reason = await this.python.run(cell.source, String(cell.count), (output) => this.#output(cell, output), () => this.#ask(cell.outputs));
    } catch (error) {
      reason = "stopped";
      const what = error instanceof UserError ? error.what : String(error);
      if (!/was stopped|was restarted|was opened/.test(what)) showError(this.slot, error, this.app.actions);
      cell.outputs.add({ kind: "note", text: what });
    }
    cell.outputs.endAsking();
    const seconds = (performance.now() - began) / 1000;
    const time = seconds < 0.1 ? "" : seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
    if (reason === "stopped" && this.python.ready) cell.outputs.add({ kind: "note", text: "Stopped." });
    cell.show(reason === "complete" ? "done" : reason === "failed" ? "failed" : "stopped", time);
    this.announcer.say(`Cell ${cell.position} ${{ complete: "is done", failed: "ended with an error" }[reason] ?? "was stopped"}.`);
    return reason === "complete";
  }

  /** @param {CellItem} cell @param {import("./notebook-files.js").Output} output */
  #output(cell, output) {
    cell.outputs.add(output);
    if (output.kind === "error" && output.cell) {
      const where = this.cells.find(({ count }) => String(count) === output.cell);
      where?.markLine(output.line ?? null);
    }
    if (["plot", "error", "table"].includes(output.kind)) this.changed();
  }

  async #putFiles() {
    const listed = await Promise.all(this.files.kept().map(async ({ name, blob }) => ({ name, bytes: new Uint8Array(await blob.arrayBuffer()) })));
    await this.python.putFiles(listed);
    this.filesToPut = false;
  }

  /** @param {string} field @param {number[]} pixels @param {import("./output-list.js").OutputList} answers @param {CellItem} cell */
  async #drawn(field, pixels, answers, cell) {
    if (cell.count === null) {
      answers.restore([{ kind: "note", text: "Run the cells first: Python was restarted since this field was drawn." }]);
      return;
    }
    /** @type {import("./notebook-files.js").Output[]} */
    const outputs = [];
    const onAsked = () => {
      answers.restore(outputs);
      this.#ask(answers);
    };
    const reason = await this.python.drawn(field, pixels, (output) => outputs.push(output), onAsked).catch(() => "gone");
    answers.restore(reason === "gone" ? [{ kind: "note", text: "Run this cell again: Python was restarted." }] : outputs);
  }

  /** Shows a field for the line that Python waits for. @param {import("./output-list.js").OutputList} outputs */
  #ask(outputs) {
    outputs.ask((line) => this.python.answer(line), () => this.python.stop());
    this.announcer.say("The cell waits for a line.");
  }

  /** Gives files of the notebook to another view. @param {import("./notebook-files.js").Output} output of lab.open_in */
  async #openFiles({ view, files: names, folder }) {
    const files = names.map((/** @type {string} */ name) => {
      const blob = this.files.files.get(name);
      if (!blob) throw new UserError("This file is not stored with the notebook.", { where: name, hint: "Run the cell again. Files of more than 64 MB are not stored." });
      return new File([blob], folder ? name.slice(folder.length + 1) : lastPart(name));
    });
    this.app.dispatchEvent(new CustomEvent("files", { detail: { files, folder: folder ?? undefined, view } }));
  }

  /** @param {string} hosts that cells may reach: the worker's policy is fixed when Python starts */
  #allow(hosts) {
    byId("lab-hosts").value = hosts;
    memory.set("lab-hosts", hosts);
    this.python.allow(hosts);
    if (!this.runs) this.python.restart("The hosts were changed.");
    else this.#note("Cells may reach these hosts after Python is restarted.", () => this.python.restart(), "Restart Python");
  }

  /** Stops the running cell; a cell in a long computation of the library can only be ended with Python. */
  stop() {
    if (!this.runningCell) return;
    for (const cell of this.queue) cell.show("");
    this.queue = [];
    this.python.stop();
    clearTimeout(this.stopTimer);
    this.stopTimer = setTimeout(() => {
      if (this.runningCell) this.#note("The cell has not stopped yet: it is in one long computation.", () => this.python.restart("The cell was stopped."), "Restart Python");
    }, STOP_PATIENCE);
  }

  /** Restarts Python; asks first where that forgets something, which nothing brings back. */
  #restart() {
    if (!this.runs || !this.python.ready) return this.python.restart();
    this.#note("A restart ends what runs, and Python forgets all variables. Code, outputs and files stay.", () => this.python.restart(), "Restart now");
    find(byId("lab-note"), "button").focus();
  }

  /** @param {{state: string, text: string, event?: any}} state */
  #showState({ state, text, event }) {
    byId("lab-status").dataset.state = state;
    byId("lab-status-text").textContent = text;
    if (state === "ready") clearRestartError(this.slot);
    if (event) showError(this.slot, event, { ...this.app.actions, restart: () => this.python.restart() });
  }

  // -- the notebook as a whole

  /** @returns {import("./notebook-files.js").NotebookData} */
  data() {
    return { title: byId("lab-name").value.trim() || "Untitled", cells: this.cells.map((cell) => cell.data()) };
  }

  /** @param {string} title */
  #setTitle(title) {
    byId("lab-name").value = title;
  }

  /** Stores the notebook soon. */
  changed() {
    if (!this.unsaved) this.unsavedSince = performance.now();
    this.unsaved = true;
    clearTimeout(this.saveTimer);
    const left = this.unsavedSince + SAVE_LATEST - performance.now();
    this.saveTimer = setTimeout(() => this.#save(), Math.min(SAVE_DELAY, left));
  }

  async #save() {
    clearTimeout(this.saveTimer);
    if (!this.unsaved) return;
    this.unsaved = false;
    const { title, cells } = this.data();
    const entry = (this.entry ??= this.store.begin(title));
    entry.title = title;
    entry.about = counted(cells.length, "cell");
    const files = this.filesChanged ? this.files.kept() : undefined;
    this.filesChanged = false;
    try {
      await this.store.put(entry, { cells, running: this.runningCell?.position ?? null }, { files });
      if (this.entry === entry) tabMemory.set(SHOWN, entry.id); // another one, if another tab had changed this notebook
      await this.card.refresh(this.entry?.id ?? null); // another notebook may be open meanwhile
    } catch (error) {
      if (this.entry === entry) {
        this.unsaved = true; // the next change, or leaving the tab, tries again
        this.filesChanged ||= files !== undefined;
      }
      showError(this.slot, error, this.app.actions);
    }
  }

  async #copyLink() {
    const link = await linkOf(this.data());
    try {
      await navigator.clipboard.writeText(link);
      this.#note("The link is copied. It carries the whole notebook without its outputs and files.");
    } catch {
      this.#note(`Copy this link: ${link}`);
    }
  }

  /** @param {string | null} text null: none @param {() => unknown} [undo] @param {string} [label] */
  #note(text, undo, label = "Undo") {
    const note = byId("lab-note");
    const inside = note.contains(document.activeElement);
    if (text === null) {
      if (inside) focusAgain(this.beforeNote);
      note.hidden = true;
      return note.replaceChildren();
    }
    note.hidden = false;
    if (!inside) this.beforeNote = /** @type {HTMLElement | null} */ (document.activeElement);
    const act = undo && h("button", { type: "button", class: "quiet", onclick: () => (this.#note(null), this.#do(async () => void (await undo()))) }, label);
    const close = h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => this.#note(null) }, "×");
    note.replaceChildren(h("span", {}, text), act ?? "", close);
  }

  /** @param {() => Promise<unknown>} work */
  async #do(work) {
    clearError(this.slot);
    try {
      await work();
    } catch (error) {
      showError(this.slot, error, this.app.actions);
    }
  }
}
