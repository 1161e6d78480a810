/**
 * The view of pictures: one picture, in which models find objects, areas, depth, labels or words, or cut out what clicks show. Loaded
 * when it is first shown.
 *
 * @typedef {import("./looks.js").Look} Look
 * @typedef {import("./looks.js").LookTask} LookTask
 * @typedef {import("./looks.js").Result} Result
 * @typedef {import("./looks.js").Point} Point
 * @typedef {{file: File, canvas: HTMLCanvasElement, pixels: ImageData, smaller: boolean, turns: number, name: string}} Shown `name` identifies
 *   the pixels for models that remember what they have seen
 */
import { byId, copyText, find, h, tabMemory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { ModelCard } from "../../page/model-card.js";
import { hubRow } from "../../page/offer-row.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { sampleButton } from "../../page/sample.js";
import { saveFile } from "../../page/save-file.js";
import { isShown } from "../../page/shell.js";
import { HistoryStore } from "../../history/history-store.js";
import { decodedPicture, onCanvas, pixelsOf } from "../../pictures/decoded-picture.js";
import { PictureView } from "../../pictures/picture-view.js";
import { UserError } from "../../shared/protocol.js";
import { DEPTH_GRADIENT, boxColour, colourOf, cutOut, depthFile, drawAreas, drawDepth, drawMask, pngOf, withBoxes } from "./drawing.js";
import { EXAMPLES, exampleFile } from "./examples.js";
import { LOOKS, lookOf, percent, summaryOf, textOf } from "./looks.js";
import { PictureStage, placeOf } from "./picture-stage.js";
import { buildPictures } from "./pictures-parts.js";
import { aboutOf, jsonOf, keptOf } from "./session.js";
import { beginningOf } from "../../shared/words.js";

/** Models see less; what is larger is looked at in a smaller copy. */
const LOOK_PIXELS = 1 << 22;
const MODEL_FILES = /\.(safetensors|pt)$|^(config|tokenizer|preprocessor_config)\.json$/i;
/** Objects that are less probable than the field's least are not even sent. */
const LEAST = 0.05;
const MOST_LABELS = 10;
const MOST_WORDS = 200;
const INITIAL = { threshold: "0.5", opacity: "0.6" };

export default class PicturesView extends PictureView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildPictures(view);
    super(app, models, view, "look", "Looking");
    this.stage = new PictureStage();
    this.store = new HistoryStore("picture");
    this.entry = this.store.begin("Picture");
    /** @type {Shown | null} */
    this.picture = null;
    /** How many pictures were shown, for their names. */
    this.count = 0;
    /** How often another picture was asked for: the last one counts. */
    this.asked = 0;
    /** What was found in the picture. @type {Map<LookTask, Result>} */
    this.results = new Map();
    /** What is being done. @type {LookTask | null} */
    this.working = null;
    /** What to cut out. @type {Point[]} */
    this.points = [];
    /** The object or area that is marked: its place in the list. */
    this.marked = "";
    /** Changes with each drawing, some of which take a while. */
    this.drawn = 0;
    /** The model that is loaded, by id and task. @type {string | null} */
    this.loaded = null;
    this.settings = new RememberedFields("pictures-settings", { threshold: byId("look-threshold"), opacity: byId("look-opacity") }, INITIAL);
    this.look = lookOf(this.settings.values.task);
    this.card = this.historyCard(this.store, {
      name: "pictures",
      open: (item) => this.open(item),
      renamed: (id, title) => id === this.entry.id && (this.entry.title = title),
      removed: (id) => id === this.entry.id && this.begin(),
      flush: () => this.keep(),
      begin: { label: "New picture", run: () => this.begin() },
      filesOf: (item) => this.#exported(item),
    });
    for (const look of LOOKS) this.#setUp(look);
    this.loadWhenShown();
    this.#listen();
    this.choose(this.look.task);
    this.ready = this.#restore();
  }

  /** The models for what is chosen. */
  get choice() {
    return this.app.choices[this.look.task];
  }

  get shown() {
    return this.picture;
  }

  /** The minimum probability of objects. */
  get threshold() {
    return Number(byId("look-threshold").value);
  }

  get opacity() {
    return Number(byId("look-opacity").value);
  }

  /** The result that is shown. */
  get result() {
    return this.results.get(this.look.task);
  }

  /** The model card of one way to look. @param {Look} look */
  #setUp({ task, offers }) {
    const choice = this.app.choices[task];
    const card = byId(`look-model-${task}`);
    new ModelCard(card, choice, this.models, this.announcer);
    find(card, ".offer-list").append(...offers.map((model) => hubRow(model, choice, this.models)));
    const told = () => (find(card, ".offer").hidden = choice.model !== null);
    let known = choice.model?.id;
    choice.addEventListener("models", told);
    choice.addEventListener("model", () => {
      told();
      const { model } = choice;
      if (model?.kind === "file" && model.id !== known && this.look.task !== task && isShown(this.view)) this.choose(task); // its files were dropped
      known = model?.id;
      if (this.look.task === task) this.load();
    });
    choice.dispatchEvent(new CustomEvent("model")); // the card was not there when it was chosen
  }

  #listen() {
    byId("look-examples").append(...EXAMPLES.map((example) => sampleButton(example, () => this.add([exampleFile(example)]))));
    this.camera.addEventListener("taken", ({ detail }) => {
      this.camera.close();
      this.add([detail]);
    });
    byId("look-choices").addEventListener("change", ({ target }) => this.choose(/** @type {HTMLInputElement} */ (target).value));
    byId("look-turn").addEventListener("click", () => this.turn());
    byId("look-threshold").addEventListener("input", () => this.#showResult());
    byId("look-threshold").addEventListener("change", () => this.announcer.say(this.result ? `${summaryOf(this.result, this.threshold)}.` : ""));
    byId("look-opacity").addEventListener("input", () => this.#showOpacity());
    byId("look-minus").addEventListener("click", () => this.leaveOut(this.stage.label === 1));
    byId("look-unpoint").addEventListener("click", () => this.setPoints(this.points.slice(0, -1)));
    byId("look-unpoint-all").addEventListener("click", () => this.setPoints([]));
    this.stage.addEventListener("point", ({ detail }) => this.setPoints([...this.points, detail]));
    this.stage.addEventListener("unpoint", () => this.points.length && this.setPoints(this.points.slice(0, -1)));
    this.stage.addEventListener("place", ({ detail }) => this.announcer.say(detail));
    byId("look-copy").addEventListener("click", () => this.attempt(async () => this.result && copyText(byId("look-copy"), textOf(this.result).trimEnd(), byId("look-found"))));
    addEventListener("beforeunload", (event) => {
      if (this.store.loses(this.results.size ? this.entry : null)) event.preventDefault(); // it is being stored, or cannot be
    });
  }

  // -- what to do

  /** Chooses what to do with pictures. @param {string} task */
  choose(task) {
    if (this.look.task !== task) clearError(this.slot);
    this.look = lookOf(task);
    this.settings.values.task = this.look.task;
    this.settings.store();
    this.marked = "";
    /** @type {HTMLInputElement} */ (find(this.view, `input[name="look"][value="${this.look.task}"]`)).checked = true;
    for (const look of LOOKS) byId(`look-model-${look.task}`).hidden = look !== this.look;
    byId("look-about").textContent = this.look.hint;
    byId("look-words-field").hidden = this.look.task !== "match-image";
    byId("look-formats").replaceChildren(...this.look.formats.map(({ format, label, title }) =>
      h("button", { type: "button", title, "data-format": format, onclick: () => this.attempt(() => this.save(format)) }, label)));
    this.stage.allowPoints(this.look.task === "cut-out");
    this.#label();
    this.#show();
    this.load();
  }

  /** The words that are to be compared. */
  get words() {
    return byId("look-words").value.split("\n").map((word) => word.trim()).filter(Boolean);
  }

  /** Whether all is there that the chosen work needs, beside a model. */
  get able() {
    if (!this.picture) return false;
    if (this.look.task === "cut-out") return this.points.length > 0;
    return this.look.task !== "match-image" || this.words.length > 0;
  }

  #label() {
    this.button.setLabel(this.look.button);
  }

  /** Loads the chosen model before it is needed. */
  load() {
    const { model } = this.choice;
    const { task } = this.look;
    const wanted = model && `${task} ${model.id}`;
    if (!model || !isShown(this.view) || this.loaded === wanted || this.button.running || !this.engine.about) return;
    this.loaded = wanted;
    this.engine.call("look.load", { model: model.id, task }).catch((error) => {
      if (this.loaded === wanted) this.loaded = null;
      if (this.look.task === task && this.choice.uses(model)) showError(this.slot, error, this.actions);
    });
  }

  // -- the picture

  /** What was dropped on the page: pictures, or the files of a model. @param {File[]} files @param {string} [folder] */
  drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.add(files);
  }

  /** Shows a picture, the first of these, and looks at it. @param {File[]} files */
  async add(files) {
    const [file] = files;
    await this.attempt(async () => {
      const picture = await this.#decoded(file, 0);
      if (!picture) return;
      await this.#change(this.store.begin(beginningOf(file.name, 60)), picture);
      if (files.length > 1) showError(this.slot, new UserError(`One picture at a time: this is the first of ${files.length}.`, { where: files.slice(1).map(({ name }) => name).join(", "), hint: "Drop the others after it, one by one." }));
      else if (byId("look-sheet").getBoundingClientRect().top > innerHeight / 2) byId("look-sheet").scrollIntoView(); // on a phone it is below the fold
      if (this.choice.model && this.able) await this.run();
    });
  }

  /** @param {File} file @param {number} turns quarters to the right @returns {Promise<Shown | null>} null: another one is wanted meanwhile */
  async #decoded(file, turns) {
    const asked = (this.asked += 1);
    if (!this.button.running) this.progress.show(`Opening ${file.name}…`);
    try {
      const { canvas, smaller } = onCanvas(await decodedPicture(file, LOOK_PIXELS), LOOK_PIXELS, file.name, turns);
      if (asked !== this.asked) return null;
      const pixels = pixelsOf(canvas, file.name);
      this.count += 1;
      return { file, canvas, pixels, smaller, turns, name: `picture ${this.count}` };
    } finally {
      if (!this.button.running) this.progress.hide();
    }
  }

  /** Another picture, of an entry of the history. @param {import("../../history/history-store.js").HistoryEntry} entry @param {Shown | null} picture */
  async #change(entry, picture) {
    await this.button.interrupt();
    clearError(this.slot);
    this.entry = entry;
    this.#put(picture);
    await this.card.refresh(entry.id);
  }

  /** @param {Shown | null} picture */
  #put(picture) {
    this.picture = picture;
    this.results.clear();
    this.points = [];
    this.marked = "";
    this.leaveOut(false);
    this.stage.show(picture?.canvas ?? null, picture?.file.name);
    this.#show();
  }

  /** Turns the picture by a quarter: what was found in it is not true any more. */
  async turn() {
    await this.attempt(async () => {
      const { picture } = this;
      if (!picture) return;
      const turned = await this.#decoded(picture.file, (picture.turns + 1) % 4);
      if (!turned || this.picture !== picture) return;
      const file = new File([await pngOf(turned.canvas)], picture.file.name.replace(/(\.\w+)?$/, ".png"), { type: "image/png" });
      await this.#change(this.store.begin(this.entry.title === "Picture" ? file.name : this.entry.title), { ...turned, file, turns: 0 });
      this.announcer.say("The picture is turned.");
    });
  }

  // -- points

  /** Whether the points that follow leave parts out. @param {boolean} out */
  leaveOut(out) {
    this.stage.label = out ? 0 : 1;
    byId("look-minus").setAttribute("aria-pressed", String(out));
  }

  /** @param {Point[]} points */
  async setPoints(points) {
    if (!this.picture) return;
    const added = points.length > this.points.length ? points.at(-1) : null;
    this.points = points;
    this.stage.showPoints(points);
    this.#showTools();
    if (added) this.announcer.say(`Point ${points.length}${added.label ? "" : ", which leaves out"}: ${placeOf({ x: added.x / this.picture.canvas.width, y: added.y / this.picture.canvas.height })}.`);
    if (points.length) {
      if (!this.button.running) await this.run(); // else the running work takes them
      return;
    }
    if (this.working === "cut-out") await this.button.interrupt();
    this.results.delete("cut-out");
    this.#showResult();
    this.announcer.say("No points.");
  }

  // -- the work

  /** The main button: Stop, or what it says. */
  pressed() {
    if (this.button.running) return this.button.stop();
    clearError(this.slot);
    return this.run();
  }

  /** Does what is chosen with the picture. */
  async run() {
    if (this.button.running || !this.picture) return;
    const { look } = this;
    if (!this.able) {
      showError(this.slot, new UserError(look.waits ?? ""), this.actions);
      if (look.task === "match-image") byId("look-words").focus();
      else this.stage.box.focus();
      return;
    }
    const { points } = this;
    const told = [...this.slot.children]; // of files that are left out
    let failed = false;
    /** @type {AbortSignal | undefined} */
    let stopped;
    this.working = look.task;
    const running = this.button.run(async (signal) => {
      this.slot.append(...told);
      await this.app.listed(signal);
      stopped = signal;
      const { picture } = this;
      const { id, title } = this.app.choices[look.task].present;
      if (picture) await this.#lookAt(picture, look, id, title, signal);
    }, { fail: () => (failed = true), retry: () => this.run() });
    this.#showTools();
    await running;
    this.working = null;
    this.progress.hide();
    this.#show();
    // What was clicked meanwhile.
    if (this.look.task === "cut-out" && this.points.length && this.points !== points && !failed && !stopped?.aborted) await this.run();
  }

  /** @param {Look} look */
  #optionsOf({ task }) {
    if (task === "detect") return { threshold: LEAST };
    if (task === "classify-image") return { top: MOST_LABELS };
    if (task === "match-image") return { labels: this.words.slice(0, MOST_WORDS) };
    if (task !== "cut-out") return {};
    return { picture: this.picture?.name, points: this.points.map(({ x, y }) => [x, y]), labels: this.points.map(({ label }) => label) };
  }

  /** @param {Shown} picture @param {Look} look @param {string} model @param {string} title @param {AbortSignal} signal */
  async #lookAt(picture, look, model, title, signal) {
    const began = performance.now();
    const { task } = look;
    const { points } = this;
    this.progress.show(`${look.working}…`);
    /** @type {import("./looks.js").Values | null} */
    let values = null;
    const onEvent = (/** @type {import("../../shared/protocol.js").TaskEvent} */ event) => {
      if (event.type === "item") {
        const { type: _, index: __, ...found } = event;
        values = found;
      } else if (event.type === "progress" && event.what === "seeing") this.progress.show(`Looking at the picture: layer ${event.done} of ${event.total}`, event.done, event.total);
    };
    const { data, width, height } = picture.pixels;
    const params = { task, model, pixels: data, width, height, name: picture.file.name, options: this.#optionsOf(look) };
    const { reason } = await this.engine.call("look", params, { signal, onEvent });
    this.loaded = `${task} ${model}`;
    if (reason === "cancelled" || !values || this.picture !== picture) return;
    /** @type {Result} */
    const result = { task, values, model: title, seconds: (performance.now() - began) / 1000, ...(task === "cut-out" ? { points } : {}) };
    this.results.set(task, result);
    this.marked = "";
    this.#show();
    const summary = summaryOf(result, this.threshold);
    this.announcer.say(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
    await this.keep();
  }

  // -- what is shown

  #show() {
    const { picture } = this;
    byId("look-sheet").dataset.state = picture ? (this.result ? "done" : "waiting") : "empty";
    byId("look-empty").hidden = picture !== null;
    for (const id of ["look-head", "look-sides"]) byId(id).hidden = picture === null;
    byId("look-name").textContent = picture?.file.name ?? "";
    byId("look-facts").textContent = picture ? `${picture.canvas.width.toLocaleString("en")} × ${picture.canvas.height.toLocaleString("en")} pixels${picture.smaller ? ", a smaller copy" : ""}` : "";
    this.stage.showPoints(this.look.task === "cut-out" ? this.points : []);
    this.#showTools();
    this.#showResult();
    this.#drawMap();
  }

  #showTools() {
    const { look, result } = this;
    byId("look-cutting").hidden = look.task !== "cut-out";
    byId("look-threshold-field").hidden = look.task !== "detect" || !result;
    byId("look-opacity-field").hidden = !["segment", "depth"].includes(look.task) || !result;
    for (const id of ["look-unpoint", "look-unpoint-all"]) byId(id).toggleAttribute("disabled", this.points.length === 0);
    byId("look-nothing").textContent = result || !this.picture || this.button.running ? "" : look.waits && !this.able ? look.waits : `Press “${look.button}”.`;
  }

  /** The objects that are shown, of all that were found. */
  get objects() {
    return (this.result?.values.objects ?? []).filter(({ score }) => score >= this.threshold);
  }

  #showOpacity() {
    byId("look-opacity-value").textContent = percent(this.opacity);
    this.stage.map.style.opacity = this.look.task === "cut-out" ? "1" : String(this.opacity);
  }

  /** The list, the boxes, and the foot. */
  #showResult() {
    const { result, look } = this;
    byId("look-threshold-value").textContent = percent(this.threshold);
    this.#showOpacity();
    byId("look-foot").hidden = !result;
    byId("look-copy").hidden = !look.formats.some(({ format }) => format === "txt");
    byId("look-ending").textContent = result ? `By ${result.model}${result.seconds ? `, in ${result.seconds.toFixed(result.seconds < 10 ? 1 : 0)} s` : ""}.` : "";
    this.stage.showBoxes(result && look.task === "detect" ? this.objects : [], this.marked);
    if (!result && look.task === "cut-out") this.stage.showMap(null);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.place;
    byId("look-found").replaceChildren(...(result ? this.#found(result) : []));
    if (focused !== undefined) /** @type {HTMLElement | null} */ (byId("look-found").querySelector(`[data-place="${focused}"]`))?.focus();
  }

  /** @param {Result} result @returns {Node[]} */
  #found({ task, values }) {
    if (task === "image-to-text") return [h("p", { class: "look-caption" }, values.text || "The model wrote nothing.")];
    if (task === "depth") return this.#depthLegend(values);
    if (task === "cut-out") {
      const [segment] = values.segments ?? [];
      return segment?.share ? [h("p", {}, `${percent(segment.share)} of the picture is cut out.`)] : [h("p", {}, "Nothing is cut out. Add a point on the thing, or take one away.")];
    }
    if (task === "detect") {
      const { objects } = this;
      const more = (values.objects ?? []).length - objects.length;
      const rows = objects.map(({ label, score }, i) => this.#row(String(i), label, score, boxColour(label)));
      const note = objects.length ? "" : more ? "Nothing is as probable as that. A lower minimum shows more." : "No object was found.";
      return [rows.length ? h("ul", { class: "look-list" }, ...rows) : "", h("p", { class: "read-hint" }, note || (more ? `${more} less probable.` : ""))].filter((one) => typeof one !== "string");
    }
    if (task === "segment") {
      return [h("ul", { class: "look-list" }, ...(values.segments ?? []).map(({ label, share, number }) => this.#row(String(number), label, share, `rgb(${colourOf(number).join(" ")})`)))];
    }
    return [h("ul", { class: "look-list" }, ...(values.labels ?? []).map(({ label, score }) => {
      const bar = h("span", { class: "look-bar", "aria-hidden": "true" }, h("span"));
      /** @type {HTMLElement} */ (bar.firstChild).style.inlineSize = `${Math.min(1, score) * 100}%`;
      return h("li", { class: "look-label" }, h("span", { class: "look-name", dir: "auto" }, label), h("span", { class: "look-share" }, percent(score)), bar);
    }))];
  }

  /** A row that can be marked. @param {string} place @param {string} label @param {number} share @param {string} colour */
  #row(place, label, share, colour) {
    const swatch = h("span", { class: "look-swatch", "aria-hidden": "true" });
    swatch.style.background = colour;
    return h("li", {}, h("button", {
      type: "button", class: "look-row", "aria-pressed": String(this.marked === place), "data-place": place, onclick: () => this.mark(place),
    }, swatch, h("span", { class: "look-name", dir: "auto" }, label), h("span", { class: "look-share" }, percent(share))));
  }

  /** @param {import("./looks.js").Values} values */
  #depthLegend({ least = 0, most = 0, metric }) {
    const bar = h("span", { class: "look-gradient", "aria-hidden": "true" });
    bar.style.background = DEPTH_GRADIENT;
    const words = metric ? [`far: ${most.toFixed(1)} m`, `near: ${least.toFixed(1)} m`] : ["far", "near"];
    return [h("div", { class: "look-legend", dir: "ltr" }, h("span", {}, words[0]), bar, h("span", {}, words[1])), h("p", { class: "read-hint" }, metric ? "The model estimates metres." : "The model tells what is nearer, but not how far it is.")];
  }

  /** Marks an object or an area, or none any more. @param {string} place */
  mark(place) {
    this.marked = this.marked === place ? "" : place;
    this.#showResult();
    if (this.look.task === "segment") this.#drawMap();
  }

  /** The map over the picture. */
  async #drawMap() {
    const drawn = (this.drawn += 1);
    const { result } = this;
    await this.#draw(result, drawn).catch((error) => showError(this.slot, error, this.actions));
  }

  /** @param {Result | undefined} result @param {number} drawn */
  async #draw(result, drawn) {
    const { task, values } = result ?? {};
    if (!values || !task) return this.stage.showMap(null);
    if (task === "cut-out") this.stage.showMap(drawMask(values));
    else if (task === "segment") this.stage.showMap(drawAreas(values, this.marked === "" ? null : Number(this.marked)), this.opacity);
    else if (task === "depth") {
      const map = await drawDepth(values);
      if (drawn === this.drawn) this.stage.showMap(map, this.opacity);
    } else this.stage.showMap(null);
  }

  // -- saving

  /** @param {string} format */
  async save(format) {
    const { picture, result, look } = this;
    if (!picture || !result) return;
    const name = nameOf(picture.file);
    const added = /** @type {Record<string, string>} */ ({ "cut-out": "cut out", segment: "areas", depth: "depth", detect: "objects" })[look.task];
    if (format === "json") saveFile(`${name}.json`, new Blob([jsonOf(picture.file.name, [result])], { type: "application/json" }));
    else if (format === "txt") saveFile(`${name}.txt`, new Blob([textOf(result)], { type: "text/plain;charset=utf-8" }));
    else saveFile(`${name} ${format === "map" ? "depth in colours" : added}.png`, await this.#png(result, picture.canvas, format === "map"));
  }

  /** @param {Result} result @param {HTMLCanvasElement} canvas the picture @param {boolean} colours whether a map of depth gets its colours */
  async #png({ task, values }, canvas, colours = false) {
    if (task === "depth") return colours ? pngOf(await drawDepth(values)) : depthFile(values);
    if (task === "segment") return pngOf(drawAreas(values));
    if (task === "detect") return pngOf(withBoxes(canvas, (values.objects ?? []).filter(({ score }) => score >= this.threshold)));
    const cut = cutOut(canvas, values);
    if (!cut) throw new UserError("Nothing is cut out.", { hint: "Click a thing in the picture first." });
    return pngOf(cut);
  }

  // -- the history

  /** Stores the picture and what was found in it. */
  async keep() {
    const { entry, picture, results, points } = this;
    if (!picture || !results.size) return;
    entry.about = aboutOf(results.values(), this.threshold);
    const files = [{ name: picture.file.name, blob: /** @type {Blob} */ (picture.file) }];
    const content = { task: this.look.task, results: [...results.values()], points, words: byId("look-words").value };
    try {
      await this.store.put(entry, content, { [entry.revision ? "allFiles" : "files"]: files });
      if (entry === this.entry) tabMemory.set("picture", entry.id);
      await this.card.refresh(this.entry.id);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** No picture. */
  async begin() {
    this.asked += 1;
    await this.#change(this.store.begin("Picture"), null);
    tabMemory.set("picture", null);
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async open(item) {
    const { file, task, results, points, words } = keptOf(item);
    const picture = await this.#decoded(file, 0);
    if (!picture) return;
    await this.#change(item.entry, picture);
    this.results = new Map(results.map((result) => [result.task, result]));
    this.points = points;
    if (words) byId("look-words").value = words;
    this.choose(task);
    tabMemory.set("picture", item.entry.id);
    this.announcer.say(`${item.entry.title}: ${item.entry.about}.`);
  }

  /** What this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get("picture");
    try {
      const item = id && (await this.store.read(id));
      if (item && !this.picture) await this.open(item);
    } catch (error) {
      showError(this.slot, error, this.actions);
    }
  }

  /** The files of an entry, for a ZIP of all. @param {import("../../history/history-store.js").HistoryItem} item */
  async #exported(item) {
    const { file, results } = keptOf(item);
    const name = nameOf(file);
    const found = [{ name: file.name, blob: /** @type {Blob} */ (file) }, { name: `${name}.json`, blob: new Blob([jsonOf(file.name, results)], { type: "application/json" }) }];
    const depth = results.find(({ task }) => task === "depth");
    return depth ? [...found, { name: `${name} depth.png`, blob: depthFile(depth.values) }] : found;
  }
}

/** Without the ending. @param {File} file */
const nameOf = ({ name }) => name.replace(/\.\w{1,5}$/, "").replaceAll("/", "_") || "picture";
