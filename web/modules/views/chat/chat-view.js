/**
 * The chat view: a conversation with a language model, its turns, the kept conversations, model and settings. Loaded when
 * it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {import("./conversation.js").Turn} Turn
 */
import { ENCODINGS, decoded } from "../../shared/decoded.js";
import { UserError, throwIfCancelled } from "../../shared/protocol.js";
import { loadStyle } from "../../shared/site-parts.js";
import { Announcer } from "../../page/announcer.js";
import { byId, find, memory } from "../../page/dom.js";
import { assumedEncoding } from "../../page/encoding-note.js";
import { clearError, showError } from "../../page/errors.js";
import { ModelCard } from "../../page/model-card.js";
import { ProgressLine } from "../../page/progress-line.js";
import { RunButton } from "../../page/run-button.js";
import { ServerCard } from "../../page/server-card.js";
import { SettingsFields } from "../../page/settings-fields.js";
import { isShown } from "../../page/shell.js";
import { HistoryCard } from "../../history/history-card.js";
import { HistoryStore } from "../../history/history-store.js";
import { AnswerWriter } from "./answer-writer.js";
import { NOWHERE, buildChat } from "./chat-parts.js";
import { Conversation, aboutOf, exported, imported, itemOf, recordOf, textOf } from "./conversation.js";
import { drafts } from "./drafts.js";
import { TurnItem } from "./turn-item.js";

const FIELDS = [
  { name: "max_new_tokens", label: "Length", min: 8, max: 4096, step: 8, initial: 1024, help: "At most so many tokens in an answer (a word is one or a few)." },
  { name: "context", label: "Context", min: 128, max: 32768, step: 128, initial: 4096, help: "Tokens of the conversation that the model sees; more need more memory." },
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, initial: 0.7, help: "0 always takes the likeliest word; higher is more surprising." },
  { name: "top_p", label: "Top-p", min: 0.05, max: 1, step: 0.05, initial: 0.9, help: "Chooses among the likeliest words that share this probability." },
];
const SAVE_INTERVAL = 1000; // ms between two saves of an answer that is being written
const DRAFT = "draft"; // of the field at the bottom; that of a turn is under its id
const SYSTEM = "system"; // the system prompt of a conversation that has no turns yet
const ROLLING = "chat-rolling"; // whether the oldest text is left out when the context is full
const NEAR = 80; // pixels from the end of the conversation within which the page follows an answer

/**
 * @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models
 * @param {HTMLElement} view an empty section @returns {Promise<ChatView>} the view with its style
 */
export async function openChat(app, models, view) {
  await loadStyle("css/chat.css");
  return new ChatView(app, models, view);
}

class ChatView {
  /** As openChat. @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    this.app = app;
    this.view = view;
    this.engine = app.engine;
    this.choice = app.choices.chat;
    buildChat(view);
    this.announcer = new Announcer(byId("chat-announcer"));
    this.slot = byId("chat-error");
    app.errorSlots.push(this.slot);
    this.progress = new ProgressLine(byId("chat-progress"));
    this.settings = new SettingsFields(byId("chat-settings-fields"), { remembered: "chat-settings", prefix: "chat-", main: FIELDS });
    this.button = new RunButton(app, byId("chat-send"), this.slot, "Answering");
    this.main = find(view, ".workspace-main");
    this.rolling = byId("chat-rolling");
    this.rolling.checked = memory.get(ROLLING, false);
    this.field = byId("chat-field");
    /** @type {ListedModel | null} */
    this.loading = null;
    this.store = new HistoryStore("conversation", { database: "pyapp-conversations", table: "conversations", itemOf, textOf });
    /** The shown one. @type {Conversation} */
    this.conversation = this.#fresh();
    /** @type {Map<string, TurnItem>} the shown turns */
    this.items = new Map();
    /** @type {number | undefined} until the conversation is stored */
    this.saving = undefined;
    this.card = new HistoryCard(find(view, ".workspace-side"), this.store, {
      name: "conversations",
      open: (item) => this.open(item),
      renamed: (id, title) => id === this.conversation.id && (this.conversation.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.save(),
      begin: { label: "New conversation", run: () => this.begin() },
      oneFile: {
        to: async (items) => new Blob([exported(items.map(recordOf))], { type: "application/json" }),
        from: async (file) => imported(await file.text(), file.name).map(itemOf),
        textOf,
      },
    }, app.actions, "Conversations");
    new ModelCard(byId("chat-model"), this.choice, models, this.announcer);
    this.server = new ServerCard(byId("chat-model"), "chat", this.announcer);
    this.server.addEventListener("change", () => this.#showPlace());
    this.choice.addEventListener("model", () => this.load());
    app.addEventListener("ready", () => this.load());
    view.addEventListener("shown", () => this.load());
    if (this.choice.model) this.choice.choose(this.choice.model); // the card was not there when it was chosen
    this.#listen();
    this.ready = this.#restore();
  }

  /** Puts a short text into the message. The field can undo it. @param {File[]} files one file */
  async drop([file]) {
    const found = decoded(await file.arrayBuffer(), assumedEncoding());
    if (!found?.text.trim()) throw new UserError("There is no text in this file.", { where: file.name, hint: "Drop a text for your message." });
    await this.ready; // what was typed at the last visit is in the field
    this.field.focus();
    document.execCommand("insertText", false, found.text.trim());
    if (found.assumed) this.#tell(`${file.name} is not in UTF-8. It was read as ${ENCODINGS[assumedEncoding()]}.`);
  }

  /** Adds what an exported file has. @param {File} file */
  async importFile(file) {
    await this.ready;
    await this.card.importFile(file);
  }

  #listen() {
    byId("chat-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.button.running) this.button.stop();
      else this.send();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.button.running) this.send();
    });
    this.field.addEventListener("input", () => {
      this.#fit();
      this.#keepDraft();
    });
    byId("chat-system").addEventListener("input", () => {
      this.conversation.system = byId("chat-system").value;
      if (this.conversation.empty) drafts.set(SYSTEM, this.conversation.system);
      else this.#saveSoon();
    });
    byId("chat-answer").addEventListener("click", () => {
      const { leaf } = this.conversation;
      if (leaf !== null) this.answer(leaf);
    });
    this.rolling.addEventListener("change", () => memory.set(ROLLING, this.rolling.checked));
    // What is scrolled into view must stop above the composer, which covers the window's lower end.
    const composer = byId("chat-form");
    new ResizeObserver(() => this.main.style.setProperty("--composer", `${composer.offsetHeight}px`)).observe(composer);
    // The page may be closed: what is written so far is stored now.
    addEventListener("pagehide", () => this.save());
    addEventListener("beforeunload", (event) => {
      if (!this.conversation.empty && this.store.loses(this.conversation.entry)) event.preventDefault(); // the browser asks whether to leave
    });
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.save());
  }

  /** The last conversation of the last visit, and what was being typed. */
  async #restore() {
    this.field.value = drafts.get(DRAFT);
    this.#fit();
    try {
      await this.store.moved;
    } catch (error) {
      showError(this.slot, error, this.app.actions);
    }
    try {
      const [last] = await this.store.list();
      const item = last && (await this.store.read(last.id));
      this.#show(item ? Conversation.of(item) : this.#fresh());
      await this.card.refresh(this.conversation.id);
    } catch (error) {
      showError(this.slot, error, this.app.actions);
    }
    if (!this.store.keeps) this.#tell("This browser keeps nothing for this page (a private window, perhaps): conversations are gone when it is closed. Export them to keep them.");
  }

  #keepDraft() {
    if (!drafts.set(DRAFT, this.field.value) && this.field.value) this.#tell("This browser's storage is full or closed: what you type is gone when the page is closed.");
  }

  /** @param {string} text */
  #tell(text) {
    byId("chat-note").textContent = text;
    byId("chat-note").hidden = false;
  }

  /** The field grows with its text, up to what the style allows. */
  #fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }

  /** Says where answers are computed. */
  #showPlace() {
    const { used } = this.server;
    find(byId("chat-title"), "em").textContent = used ? "on a server." : "in this tab.";
    byId("chat-empty").textContent = used ? `Ask something. What you write is sent to ${used.engine.address}; conversations are kept in this browser only.` : NOWHERE;
    this.load();
  }

  /** Loads the chosen model before it is needed; says so if it has no chat template. */
  load() {
    const { model } = this.choice;
    if (!model || this.server.used || this.loading === model || this.button.running || !isShown(this.view)) return;
    this.loading = model;
    this.prepared = this.#load(model); // resolved when it is loaded, or has failed
  }

  /** @param {ListedModel} model */
  async #load(model) {
    clearError(this.slot);
    byId("chat-template").hidden = true;
    try {
      const { context } = await this.engine.call("chat.load", { model: model.id }, { onEvent: (event) => this.#loadEvent(event) });
      if (this.choice.model === model) this.settings.inputs.get("context")?.limit(context);
    } catch (error) {
      if (this.choice.model === model) showError(this.slot, error, this.app.actions);
    } finally {
      if (this.loading === model) this.loading = null;
      if (!this.button.running) this.progress.hide();
    }
  }

  /** @param {TaskEvent} event */
  #loadEvent(event) {
    if (event.type === "progress") this.progress.show(`${event.what === "prompt" ? "Reading the conversation" : event.what}…`, event.done, event.total);
    if (event.type === "notice") {
      byId("chat-template").textContent = `${event.what}. ${event.hint}.`;
      byId("chat-template").hidden = false;
    }
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async open(item) {
    await this.button.interrupt();
    await this.save();
    clearError(this.slot);
    this.#show(Conversation.of((await this.store.read(item.entry.id)) ?? item)); // an answer may have ended meanwhile
    await this.card.refresh(this.conversation.id);
    this.announcer.say(`${this.conversation.entry.title}. ${this.conversation.path.length} turns.`);
  }

  async begin() {
    await this.button.interrupt();
    await this.save();
    clearError(this.slot);
    this.#show(this.#fresh());
    await this.card.refresh(this.conversation.id);
    this.field.focus();
  }

  /** An empty conversation, with the system prompt that was written for it, or that of the shown one. @returns {Conversation} */
  #fresh() {
    return new Conversation(this.store.begin(""), { system: drafts.get(SYSTEM) || this.conversation?.system });
  }

  /** @param {string} id */
  async #removed(id) {
    if (id !== this.conversation.id) return;
    this.#show(this.#fresh()); // an answer that ends now is not stored
    this.card.current = this.conversation.id;
    await this.button.interrupt();
  }

  /** @param {Conversation} conversation */
  #show(conversation) {
    this.conversation = conversation;
    byId("chat-system").value = conversation.system;
    this.render();
    if (conversation.empty && isShown(this.view)) scrollTo(0, 0);
    else this.#toEnd();
  }

  /** Shows the turns. Those that are shown stay where they are: one may be edited, or a part of it selected. */
  render() {
    const { conversation } = this;
    const { path } = conversation;
    const items = new Map(path.map((turn) => [turn.id, this.#item(turn, turn === path.at(-1))]));
    for (const [id, item] of this.items) if (items.get(id) !== item) item.element.remove();
    this.items = items;
    const list = byId("chat-turns");
    for (const [i, { element }] of [...items.values()].entries()) if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    byId("chat-empty").hidden = path.length > 0;
    const unanswered = path.at(-1)?.role === "user" && !this.button.running;
    byId("chat-answer").hidden = !unanswered;
  }

  /** @param {Turn} turn @param {boolean} last */
  #item(turn, last) {
    const versions = this.conversation.versions(turn);
    const context = {
      versions, last, place: turn.id,
      edit: (/** @type {string} */ text) => this.#say(text, turn.parent, turn.id),
      regenerate: () => this.answer(turn.parent),
      goOn: () => this.answer(turn.parent, turn),
      show: async (/** @type {number} */ step) => {
        await this.button.interrupt();
        this.conversation.show(versions[versions.indexOf(turn) + step]);
        this.render();
        await this.save();
      },
    };
    const shown = this.items.get(turn.id);
    return shown?.turn === turn ? shown.update(context) : new TurnItem(turn, context);
  }

  /** Sends what is in the field. */
  async send() {
    const text = this.field.value;
    if (!text.trim()) return this.field.focus();
    await this.ready;
    const sent = this.#say(text, this.conversation.leaf, null);
    this.field.value = "";
    this.#fit();
    return sent;
  }

  /**
   * The user's turn, after the turn `parent`, in place of the turn `edited`; stored before its draft is forgotten.
   * @param {string} text @param {string | null} parent @param {string | null} edited
   */
  #say(text, parent, edited) {
    this.over = this.#sayAndAnswer(text, parent, edited);
    return this.over;
  }

  /** @param {string} text @param {string | null} parent @param {string | null} edited */
  async #sayAndAnswer(text, parent, edited) {
    await this.button.interrupt();
    const turn = this.conversation.add("user", text, parent);
    this.render();
    this.#toEnd();
    await this.save();
    if (!this.failedToSave) {
      drafts.set(DRAFT, this.field.value);
      drafts.set(SYSTEM, "");
      if (edited) drafts.set(edited, "");
    }
    await this.card.refresh(this.conversation.id);
    return this.#answer(turn.id);
  }

  /**
   * Lets the model answer the turn `parent`, or go on with its answer.
   * @param {string | null} parent null: an answer without a question, of an imported conversation @param {Turn} [answer] @returns {Promise<void>}
   */
  answer(parent, answer = undefined) {
    this.over = this.#answer(parent, answer); // resolved when it is written and stored
    return this.over;
  }

  /** @param {string | null} parent @param {Turn} [answer] */
  async #answer(parent, answer) {
    await this.button.interrupt();
    const { conversation } = this;
    const messages = conversation.messages(answer ?? conversation.turn(parent));
    const writer = new AnswerWriter(conversation, parent, answer, {
      model: () => this.server.used?.model.id ?? this.choice.model?.title,
      begun: () => this.#following(() => this.render()),
      grown: (text) => this.#grown(writer, text),
    });
    const settle = () => {
      if (this.frame) cancelAnimationFrame(this.frame);
      this.progress.hide();
      writer.discardEmpty();
    };
    this.announcer.say("Answering.");
    if (!this.engine.about && !this.server.used) this.progress.show("Starting the engine…");
    const onEvent = (/** @type {TaskEvent} */ event) => {
      if (!writer.take(event)) this.#loadEvent(event);
    };
    const running = this.button.run(async (signal) => {
      await this.server.ready;
      const done = await (this.server.used ? this.#askServer(this.server.used, messages, { signal, onEvent }) : this.#askTab(messages, { signal, onEvent }));
      this.last = done; // what a test compares
      if (writer.turn) writer.end(done);
      else if (done.reason !== "cancelled") this.#tell("The model ended its turn without a word.");
      settle();
      this.announcer.say(done.reason === "cancelled" ? "Stopped." : `The answer is finished. ${words(writer.turn?.text ?? "")} words.`);
    }, {
      fail: () => {
        settle();
        this.announcer.stop();
      },
      retry: () => this.answer(parent, writer.turn && conversation.turns.has(writer.turn.id) ? writer.turn : undefined),
    });
    byId("chat-answer").hidden = true;
    byId("chat-note").hidden = true;
    await running;
    const focused = document.activeElement === document.body;
    if (this.conversation === conversation) this.#following(() => this.render());
    if (focused) this.field.focus();
    await this.save();
    await this.card.refresh(this.conversation.id);
  }

  /** An answer has grown: shows it with the next picture of the page. @param {AnswerWriter} writer @param {string} text without thoughts */
  #grown(writer, text) {
    this.progress.hide();
    if (text) this.announcer.add(text);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#following(() => this.items.get(writer.turn?.id ?? "")?.refresh(this.button.running));
    });
    this.#saveSoon();
  }

  /** @param {object[]} messages @param {{signal: AbortSignal, onEvent: (event: TaskEvent) => void}} options */
  async #askTab(messages, { signal, onEvent }) {
    await this.app.listed(signal);
    await Promise.race([this.prepared, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    throwIfCancelled(signal);
    const options = { ...this.settings.options(), rolling: this.rolling.checked }; // the model may have limited them
    return this.engine.call("chat", { model: this.choice.present.id, messages, options }, { signal, onEvent });
  }

  /** @param {import("../../page/server-card.js").Used} used @param {object[]} messages @param {{signal: AbortSignal, onEvent: (event: TaskEvent) => void}} options */
  async #askServer({ engine, model }, messages, { signal, onEvent }) {
    throwIfCancelled(signal);
    this.progress.show("The server reads the conversation…");
    return engine.call("chat", { model: model.id, messages, options: this.settings.options() }, { signal, onEvent });
  }

  #saveSoon() {
    this.saving ??= setTimeout(() => this.save(), SAVE_INTERVAL);
  }

  /** Stores the shown conversation, if there is something in it. */
  async save() {
    clearTimeout(this.saving);
    this.saving = undefined;
    const { conversation } = this;
    const { content, entry } = conversation;
    const text = textOf(content);
    if (conversation.empty || text === conversation.stored) return;
    entry.about = aboutOf(conversation.path.length);
    try {
      await this.store.put(entry, content, { updated: conversation.updated });
      conversation.stored = text;
      this.failedToSave = false;
    } catch (error) {
      this.failedToSave = true;
      showError(this.slot, error, this.app.actions);
    }
  }

  /** Whether the page shows the end of the conversation: the composer. On a phone the settings come below it. */
  #atEnd() {
    const below = this.main.getBoundingClientRect().bottom - innerHeight;
    return below < NEAR && (below > -NEAR || scrollY === 0);
  }

  /** Changes the conversation; a page that shows its end goes on to show it. @param {() => void} change */
  #following(change) {
    const atEnd = this.#atEnd();
    change();
    if (atEnd) this.#toEnd();
  }

  #toEnd() {
    if (isShown(this.view)) this.main.scrollIntoView({ block: "end" });
  }
}

/** @param {string} text */
const words = (text) => text.split(/\s+/).filter(Boolean).length;
