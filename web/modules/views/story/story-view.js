/**
 * The story view: a prompt, the settings, Generate and Stop, and the sheet.
 */
import { HistoryCard } from "../../history/history-card.js";
import { HistoryStore } from "../../history/history-store.js";
import { byId, copyText, find, h, memory, tabMemory } from "../../page/dom.js";
import { clearError, showError } from "../../page/errors.js";
import { listenButton } from "../../page/listen-button.js";
import { insertText } from "../../page/insert-text.js";
import { ModelCard } from "../../page/model-card.js";
import { RunButton } from "../../page/run-button.js";
import { SettingsFields } from "../../page/settings-fields.js";
import { isShown } from "../../page/shell.js";
import { fitting, limitText } from "../../page/text-limit.js";
import { encodingNote, readText } from "../../page/encoding-note.js";
import { titleOf } from "../../shared/words.js";
import { StoryOutput } from "./story-output.js";

const OPENINGS = ["Once upon a time, there was a little", "Long ago, there was a young dragon", "Mia was a clever"];
const SAVE_INTERVAL = 2000; // ms between two saves of a story that is being written
const SHOWN = "story-shown"; // the story that a reload of this tab shows again
const WRITTEN = "story-prompt"; // what is in the field
const LETTERS = 2; // per token, fewer than there are: so much of a long text, times the context, is read again to go on

/**
 * What is kept of a story.
 * @typedef {{prompt: string, text: string, seed: number, reason: string, tokens: number, model: string}} Story
 */

export class StoryView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models */
  constructor(app, models) {
    this.app = app;
    this.models = models;
    this.engine = app.engine;
    this.choice = app.choices.generate;
    this.view = byId("view-story");
    this.settings = new SettingsFields(byId("settings-fields"));
    this.output = new StoryOutput();
    this.prompt = byId("prompt");
    /** About the encoding of a file whose text is in the field. */
    this.promptNote = h("div", { class: "prompt-note", role: "status" });
    this.prompt.after(this.promptNote);
    this.button = new RunButton(app, byId("generate"), byId("story-error"), "Writing");
    new ModelCard(byId("story-model"), this.choice, models, this.output.announcer);
    this.store = new HistoryStore("story");
    /** The entry of the shown story. @type {import("../../history/history-store.js").HistoryEntry | null} */
    this.entry = null;
    /** @type {import("../../page/model-choice.js").ListedModel | null} */
    this.loading = null;
    /** @type {Story | null} */
    this.story = null;
    /** When the story was last stored, and how it had ended then. */
    this.saved = 0;
    /** @type {string | null} */
    this.savedReason = null;
    this.card = new HistoryCard(find(this.view, ".workspace-side"), this.store, {
      name: "stories",
      open: (item) => this.#open(item),
      filesOf: async ({ content }) => [{ name: "story.txt", blob: new Blob([`${content.prompt}${content.text}\n`], { type: "text/plain" }) }],
      renamed: (id, title) => this.entry?.id === id && (this.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.#save(),
    }, app.actions);
    this.#listen();
    this.#fillPrompt();
    this.#restore();
    /** Of the last load. @type {HTMLElement | null} */
    this.loadError = null;
    this.choice.addEventListener("model", (/** @type {any} */ { detail }) => {
      if (!detail?.listed && !this.button.running) clearError(byId("story-error")); // the error of a start stays to be read
      this.#load();
    });
    app.addEventListener("ready", () => this.#load());
    this.view.addEventListener("shown", () => this.#load());
  }

  #listen() {
    byId("story-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.generate();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        if (!event.repeat) byId("story-form").requestSubmit();
      }
    });
    limitText(this.prompt, (message) => this.#tell(message));
    this.prompt.addEventListener("input", () => {
      this.#fit();
      this.promptNote.replaceChildren();
      tabMemory.set(WRITTEN, this.prompt.value);
    });
    byId("copy").after(listenButton(this.app, this.models, byId("story-error"), () => this.output.text, "Listen to the story"));
    byId("copy").addEventListener("click", () => copyText(byId("copy"), this.output.text, byId("story-text")));
    byId("go-on").addEventListener("click", () => this.goOn());
    byId("another").addEventListener("click", () => this.another());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.#save());
    addEventListener("beforeunload", (event) => {
      if (this.store.loses(this.entry)) event.preventDefault(); // it would be lost
    });
  }

  #fillPrompt() {
    this.prompt.value = tabMemory.get(WRITTEN) ?? memory.get("prompt", OPENINGS[0]);
    byId("openings").append(...OPENINGS.map((text) => h("button", { type: "button", class: "chip", onclick: () => this.#begins(text) }, `${text.replace(/,$/, "")}…`)));
    this.#fit();
    this.view.addEventListener("shown", () => this.#fit());
  }

  /** Puts another beginning in place of what is in the field, which can undo it. @param {string} text */
  #begins(text) {
    this.prompt.focus();
    this.prompt.select();
    insertText(this.prompt, fitting(text, (message) => this.#tell(message)));
  }

  /** Says something of what is in the field. @param {string} message */
  #tell(message) {
    this.promptNote.querySelector("p")?.remove(); // the last one
    this.promptNote.append(h("p", {}, message));
  }

  /** Makes the field as tall as its text, up to the limit of the style. */
  #fit() {
    this.prompt.style.height = "auto";
    this.prompt.style.height = `${this.prompt.scrollHeight}px`;
  }

  /** Loads the chosen model before it is needed, and shows its errors. */
  async #load() {
    const { model } = this.choice;
    if (!model || this.loading?.id === model.id || this.button.running || !isShown(this.view)) return;
    this.loading = model;
    this.loadError?.remove(); // not another request's: that stays when the engine has restarted
    const { progress } = this.output;
    const onEvent = (/** @type {import("../../shared/protocol.js").TaskEvent} */ event) => event.type === "progress" && progress.show(`${event.what}…`, event.done, event.total);
    try {
      const { config } = await this.engine.call("load", { model: model.id }, { onEvent });
      if (config?.max_seq_len && this.choice.uses(model)) {
        this.context = config.max_seq_len;
        this.settings.limitLength(config.max_seq_len);
      }
    } catch (error) {
      const slot = byId("story-error");
      if (this.choice.uses(model) && !slot.hasChildNodes()) this.loadError = showError(slot, error, this.app.actions); // a request's error stays
    } finally {
      if (this.loading?.id === model.id) this.loading = null;
      if (!this.button.running) progress.hide();
    }
  }

  generate() {
    const prompt = this.prompt.value;
    memory.set("prompt", prompt.slice(0, 10000));
    return this.#write(prompt, prompt, this.settings.options(), false);
  }

  /** Writes another story with the prompt of the shown one, and another seed. */
  another() {
    const prompt = this.story?.prompt ?? this.prompt.value;
    this.settings.rollSeed();
    return this.#write(prompt, prompt, this.settings.options(), false);
  }

  /** Continues the shown story. A model that cannot read all of it reads its end. */
  goOn() {
    if (!this.story) return undefined; // it was deleted meanwhile
    const { text } = this.output;
    const most = this.context ? this.context * LETTERS : text.length;
    return this.#write(this.story.prompt, text.length > most ? endOf(text, most) : text, this.settings.options(), true);
  }

  /**
   * @param {string} prompt of the story @param {string} read what the model continues @param {{seed: number}} options
   * @param {boolean} further whether it continues the shown story
   */
  #write(prompt, read, options, further) {
    const below = byId("sheet-foot").contains(document.activeElement); // it is hidden until the first word
    this.output.begin(prompt, options.seed, further);
    if (below) byId("story-text").focus({ preventScroll: true });
    if (!this.engine.about) this.output.progress.show("Starting the engine…");
    return this.button.run(async (signal) => {
      await this.app.listed(signal);
      const model = this.choice.present;
      if (!further) this.#begin({ prompt, text: "", seed: options.seed, reason: "cancelled", tokens: 0, model: model.title });
      try {
        const params = { model: model.id, prompt: read, options };
        const { reason = "stop" } = await this.engine.call("generate", params, { signal, onEvent: (event) => this.#event(event) });
        this.output.end(reason);
        if (this.story) this.story.reason = reason; // it may have been deleted meanwhile
      } finally {
        this.#save(); // it may take long, and what is pressed meanwhile begins another story
      }
    }, { fail: () => this.output.fail(), retry: () => this.#write(prompt, read, options, further) });
  }

  /** @param {Story} story a new one */
  #begin(story) {
    this.story = story;
    this.entry = this.store.begin("");
    this.saved = -Infinity; // its first word is stored at once: a reload then finds it
    this.savedReason = null;
  }

  /** Stores the shown story, if there is something new. */
  async #save() {
    const { story, entry, output } = this;
    const { written } = output;
    if (!story || !entry || !written || (written === story.text && story.reason === this.savedReason)) return;
    [story.text, story.tokens] = [written, output.tokens];
    this.saved = performance.now();
    this.savedReason = story.reason;
    entry.title ||= titleOf(story.prompt + story.text) || "Untitled";
    entry.about = `${(story.prompt + story.text).split(/\s+/).filter(Boolean).length.toLocaleString("en")} words`;
    try {
      await this.store.put(entry, story);
      if (this.entry === entry) tabMemory.set(SHOWN, entry.id); // a new one, if another tab changed it
      await this.card.refresh(this.entry?.id ?? null);
    } catch (error) {
      if (this.entry === entry) this.savedReason = ""; // it is tried again
      showError(byId("story-error"), error, this.app.actions);
    }
  }

  /** Shows a story of the history. @param {import("../../history/history-store.js").HistoryItem} item */
  async #open({ entry, content }) {
    await this.button.interrupt();
    [this.entry, this.story, this.savedReason] = [entry, content, content.reason];
    tabMemory.set(SHOWN, entry.id);
    clearError(byId("story-error"));
    this.output.show(content);
    await this.card.refresh(entry.id);
  }

  /** @param {string} id of an entry that was deleted */
  async #removed(id) {
    if (this.entry?.id !== id) return;
    [this.entry, this.story] = [null, null];
    tabMemory.set(SHOWN, null);
    await this.button.interrupt();
    this.output.clear();
  }

  /** Shows the story that this tab showed before it was reloaded. */
  async #restore() {
    const id = tabMemory.get(SHOWN);
    const item = id && (await this.store.read(id).catch(/** @returns {null} */ () => null));
    if (item && !this.story && !this.button.running) await this.#open(item);
  }

  /** Begins the story with a text file. The field can undo it. @param {File[]} files one file */
  async drop([file]) {
    const { text, assumed } = await readText(file, { empty: "Drop a text that begins a story." });
    this.#begins(text);
    this.promptNote.replaceChildren(...(assumed ? [encodingNote([file.name], async () => {
      await this.drop([file]);
      this.promptNote.querySelector("select")?.focus(); // where the reader was
    })] : []));
  }

  /** @param {import("../../shared/protocol.js").TaskEvent} event */
  #event(event) {
    if (event.type === "token") {
      this.output.token(event);
      if (performance.now() - this.saved > SAVE_INTERVAL) this.#save();
    } else if (event.type === "draft") this.output.draft(event);
    else if (event.type === "metric") this.output.metric(event);
    else if (event.type === "progress" && this.output.firstToken === null) {
      const what = event.what === "prompt" ? "Reading the beginning" : event.what;
      this.output.progress.show(`${what}…`, event.done, event.total);
    }
  }
}

/** The last sentences, at most so many characters. @param {string} text @param {number} most */
function endOf(text, most) {
  const end = text.slice(-most);
  const found = /[.!?]["”’]?\s+/.exec(end);
  return found ? end.slice(found.index + found[0].length) : end;
}
