/**
 * The chat view: a conversation with a language model, its turns, the kept conversations, model and settings. Loaded when
 * it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {import("./conversation.js").Turn} Turn
 * @typedef {{signal: AbortSignal, onEvent: (event: TaskEvent) => void, files: Map<string, Blob>}} Asking `files`: the pictures of the conversation
 */
import { ENCODINGS } from "../../shared/decoded.js";
import { UserError, throwIfCancelled } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";
import { byId, find, memory, showRows, tabMemory } from "../../page/dom.js";
import { kindOf } from "../../page/file-kinds.js";
import { assumedEncoding, readText } from "../../page/encoding-note.js";
import { clearError, showError } from "../../page/errors.js";
import { insertText } from "../../page/insert-text.js";
import { listenButton } from "../../page/listen-button.js";
import { modelRow } from "../../page/offer-row.js";
import { ServerCard } from "../../page/server-card.js";
import { SettingsFields } from "../../page/settings-fields.js";
import { isShown } from "../../page/shell.js";
import { limitText } from "../../page/text-limit.js";
import { WorkingView } from "../../page/working-view.js";
import { HistoryStore } from "../../history/history-store.js";
import { AnswerWriter } from "./answer-writer.js";
import { Attachments } from "./attachments.js";
import { NOWHERE, buildChat } from "./chat-parts.js";
import { Conversation, aboutOf, exported, imported, itemOf, textOf } from "./conversation.js";
import { drafts } from "./drafts.js";
import { PictureDraft } from "./picture-draft.js";
import { nameAlone, urlPart, withParts } from "./pictures.js";
import { TurnItem } from "./turn-item.js";

const FIELDS = [
  { name: "max_new_tokens", label: "Length", min: 8, max: 4096, step: 8, initial: 1024, help: "Maximum number of tokens of an answer (a word is one or a few tokens)." },
  { name: "context", label: "Context", min: 128, max: 32768, step: 128, initial: 4096, help: "Tokens of the conversation that the model sees; more need more memory." },
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, initial: 0.7, help: "0 always takes the likeliest word; higher is more surprising." },
  { name: "top_p", label: "Top-p", min: 0.05, max: 1, step: 0.05, initial: 0.9, help: "Chooses among the likeliest words whose probabilities add up to this." },
];
const SAVE_INTERVAL = 1000; // ms between two saves of an answer that is being written
const DRAFT = "draft"; // of the field at the bottom; that of a turn is under its id
const SYSTEM = "system"; // the system prompt of a conversation that has no turns yet
const SHOWN = "chat-shown"; // the conversation that a reload of this tab shows again
const ROLLING = "chat-rolling"; // whether the oldest text is left out when the context is full
/** What the engine does before it writes, by the name of its progress. @type {Record<string, string>} */
const STAGES = { prompt: "Reading the conversation", seeing: "Looking at the pictures" };
const SLOW = 100; // ms that it takes to show an answer, as one with a long list: other work then gets REST times as much
const REST = 3;
const NEAR = 80; // pixels from the end of the conversation within which the page follows an answer
const AT_ONCE = 12; // turns that are shown at once: a window full. Those before them follow in slices

export default class ChatView extends WorkingView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildChat(view);
    super(app, models, view, "chat", "send", "Answering");
    this.settings = new SettingsFields(byId("chat-settings-fields"), { remembered: "chat-settings", prefix: "chat-", main: FIELDS });
    this.main = find(view, ".workspace-main");
    this.rolling = byId("chat-rolling");
    this.rolling.checked = memory.get(ROLLING, false);
    this.field = byId("chat-field");
    this.attachments = new Attachments(byId("chat-attachments"), this.field, {
      slot: this.slot, actions: this.actions, say: (text) => this.announcer.say(text), changed: () => this.#showSeeing(), keep: () => this.keepPictures(),
      following: (change) => this.#following(change),
    });
    this.pictureDraft = new PictureDraft();
    /** Whether a model sees pictures, by its id; null until one is loaded. @type {{model: string, pictures: boolean} | null} */
    this.seeing = null;
    /** @type {ListedModel | null} */
    this.loading = null;
    /** Whether a message waits for the model. */
    this.sending = false;
    /** Of the last load. @type {HTMLElement | null} */
    this.loadError = null;
    this.store = new HistoryStore("conversation", { database: "pyapp-conversations", table: "conversations", itemOf, textOf });
    /** The shown one. @type {Conversation} */
    this.conversation = this.#fresh();
    /** @type {Map<string, TurnItem>} the shown turns */
    this.items = new Map();
    /** The frame that shows what has been added to the answer. */
    this.frame = 0;
    /** When the answer may be shown again. */
    this.rested = 0;
    /** Until the turns before the shown ones are shown. @type {number | undefined} */
    this.rest = undefined;
    /** @type {number | undefined} until the conversation is stored */
    this.saving = undefined;
    this.card = this.historyCard(this.store, {
      name: "conversations",
      open: (item) => this.open(item),
      renamed: (id, title) => id === this.conversation.id && (this.conversation.entry.title = title),
      removed: (id) => this.#removed(id),
      flush: () => this.save(),
      begin: { label: "New conversation", run: () => this.begin() },
      oneFile: {
        to: exported,
        from: async (file) => imported(await file.text(), file.name).map(itemOf),
        textOf,
      },
    }, "Conversations");
    this.server = new ServerCard(byId("chat-model"), "chat", this.announcer);
    this.server.addEventListener("change", () => this.#showPlace());
    byId("chat-talker").addEventListener("click", () => models.open(this.choice));
    this.showModel();
    this.#listen();
    this.ready = this.#restore();
  }

  get choice() {
    return this.app.choices.chat;
  }

  /** As WorkingView. @param {CustomEvent} event */
  chosen(event) {
    super.chosen(event);
    this.#showSeeing();
  }

  /** Adds pictures to the message, or puts a short text into it, which the field can undo. @param {File[]} files pictures, or one text */
  async drop(files) {
    const [file] = files;
    if (kindOf(file) === "picture") {
      clearError(this.slot);
      await this.ready;
      await this.attachments.add(files);
      return this.field.focus();
    }
    const { text, assumed } = await readText(file, { empty: "Drop a text for your message." });
    await this.ready; // what was typed at the last visit is in the field
    this.field.focus();
    insertText(this.field, text);
    if (assumed) this.#tell(`${file.name} is not in UTF-8. It was read as ${ENCODINGS[assumedEncoding()]}.`);
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
    for (const field of [this.field, byId("chat-system")]) limitText(field, (message) => this.#tell(message));
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
    for (const field of [byId("chat-pictures"), byId("chat-camera")]) {
      field.addEventListener("change", () => {
        const files = [...(field.files ?? [])];
        field.value = "";
        clearError(this.slot);
        this.attachments.add(files);
      });
    }
    this.rolling.addEventListener("change", () => memory.set(ROLLING, this.rolling.checked));
    // What is scrolled into view must stop above the composer, which covers the window's lower end.
    const composer = byId("chat-form");
    new ResizeObserver(() => this.main.style.setProperty("--composer", `${composer.offsetHeight}px`)).observe(composer);
    // The page may be closed: what is written so far is stored now.
    addEventListener("pagehide", () => this.save());
    addEventListener("beforeunload", (event) => {
      const { conversation } = this;
      const lost = !conversation.empty && (conversation.newFiles || this.store.loses(conversation.entry));
      if (lost || (this.attachments.all.length && this.pictureDraft.loses)) event.preventDefault(); // the browser asks whether to leave
    });
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && this.save());
  }

  /** The last conversation of the last visit, and what was being typed. */
  async #restore() {
    this.field.value = drafts.get(DRAFT);
    this.#fit();
    const pictures = this.attachments.restore(this.pictureDraft.read());
    for (const part of await Promise.allSettled([this.store.moved, this.#showLast(), pictures])) {
      if (part.status === "rejected") showError(this.slot, part.reason, this.actions);
    }
    if (!this.store.keeps) this.#tell("This browser keeps nothing for this page (a private window, perhaps): conversations are gone when it is closed. Export them to keep them.");
  }

  /** What this tab showed before it was reloaded, also a conversation that had not begun; in a new tab the last one. */
  async #showLast() {
    const shown = tabMemory.get(SHOWN) ?? (await this.store.list())[0]?.id;
    const item = shown && (await this.store.read(shown));
    this.#show(item ? Conversation.of(item) : this.#fresh());
    await this.card.refresh(this.conversation.id);
  }

  #keepDraft() {
    if (!drafts.set(DRAFT, this.field.value) && this.field.value) this.#tell("This browser's storage is full or closed: what you type is gone when the page is closed.");
  }

  /** Keeps the pictures of the message until it is sent. */
  async keepPictures() {
    try {
      await this.pictureDraft.write(this.attachments.all);
    } catch (error) {
      console.debug(error);
      this.#tell("There is no room in this browser's storage for these pictures: they are gone when the page is closed.");
    }
  }

  /** @param {string} text */
  #tell(text) {
    byId("chat-note").textContent = text;
    byId("chat-note").hidden = false;
  }

  /** Whether pictures reach the model. A server may take them: it says so when it does not. */
  get sees() {
    return this.server?.used ? true : this.#isKnown && this.seeing?.pictures === true;
  }

  get #isKnown() {
    return this.seeing?.model === this.choice.model?.id;
  }

  /** The buttons for pictures are there where the model sees them; where there are pictures already, the view says that it does not. */
  #showSeeing() {
    this.choice.sees = this.sees;
    byId("chat-attach").hidden = !this.sees;
    byId("chat-unseen").hidden = this.attachments.all.length === 0 || this.sees || !this.#isKnown;
  }

  /** While the model that comes with the page is in use, others are offered: it cannot talk. */
  offer() {
    const { model } = this.choice;
    byId("chat-storyteller").hidden = model?.kind !== "embedded" || this.server.used !== null;
    byId("chat-offer").hidden = model?.kind !== "embedded";
    const talkers = this.choice.models.filter(({ kind, task, precision = "" }) => kind === "hub" && task === "chat" && !precision.startsWith("float"));
    showRows(byId("chat-offer-list"), talkers.map((talker) => modelRow(talker, this.choice, this.models)));
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
    this.#showSeeing();
    this.offer();
    byId("chat-empty").textContent = used ? `Ask something. What you write is sent to ${used.engine.address}; conversations are kept in this browser only.` : NOWHERE;
    this.load();
  }

  /** Loads the chosen model before it is needed; says so if it has no chat template. */
  load() {
    const { model } = this.choice;
    if (!model || this.server.used || this.loading?.id === model.id || this.button.running || !isShown(this.view)) return;
    this.loading = model;
    this.prepared = this.#load(model); // resolved when it is loaded, or has failed
  }

  /** @param {ListedModel} model */
  async #load(model) {
    this.loadError?.remove(); // not another request's: that stays when the engine has restarted
    byId("chat-template").hidden = true;
    try {
      const { context, pictures } = await this.engine.call("chat.load", { model: model.id }, { onEvent: (event) => this.#loadEvent(event) });
      this.seeing = { model: model.id, pictures };
      this.#showSeeing();
      if (this.choice.uses(model)) this.settings.inputs.get("context")?.limit(context);
    } catch (error) {
      if (this.choice.uses(model)) this.loadError = showError(this.slot, error, this.actions);
    } finally {
      if (this.loading?.id === model.id) this.loading = null;
      if (!this.button.running) this.progress.hide();
    }
  }

  /** @param {TaskEvent} event */
  #loadEvent(event) {
    if (event.type === "progress") this.progress.show(`${STAGES[event.what] ?? event.what}…`, event.done, event.total);
    if (event.type === "notice" && this.choice.model?.kind !== "embedded") {
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
    tabMemory.set(SHOWN, conversation.id);
    /** How many pictures there was no room for. @type {number | null} */
    this.refused = null;
    byId("chat-system").value = conversation.system;
    this.render();
    if (conversation.empty && isShown(this.view)) scrollTo(0, 0);
    else this.#toEnd();
  }

  /**
   * Shows the turns. Those that are shown stay where they are: one may be edited, or a part of it selected. Of a long conversation the end comes
   * first, and what is before it in slices. @param {number} [most] how many new turns are shown now
   */
  render(most = AT_ONCE) {
    const { conversation } = this;
    const { path } = conversation;
    const shown = [];
    for (const turn of [...path].reverse()) {
      most -= this.items.get(turn.id)?.turn === turn ? 0 : 1;
      if (most < 0) break;
      shown.push(turn);
    }
    const items = new Map(shown.reverse().map((turn) => [turn.id, this.#item(turn, turn === path.at(-1))]));
    for (const [id, item] of this.items) if (items.get(id) !== item) item.element.remove();
    this.items = items;
    const list = byId("chat-turns");
    for (const [i, { element }] of [...items.values()].entries()) if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    clearTimeout(this.rest);
    if (shown.length < path.length) this.rest = setTimeout(() => this.#following(() => this.render()), 0);
    byId("chat-empty").hidden = path.length > 0;
    const unanswered = path.at(-1)?.role === "user" && !this.button.running;
    byId("chat-answer").hidden = !unanswered;
  }

  /** @param {Turn} turn @param {boolean} last */
  #item(turn, last) {
    const versions = this.conversation.versions(turn);
    const context = {
      versions, last, place: turn.id, files: this.conversation.files,
      listen: (/** @type {() => string} */ text) => listenButton(this.app, this.models, this.slot, text, "Listen to this answer"),
      edit: (/** @type {string} */ text) => this.#say(text, turn.parent, turn.id, turn.pictures),
      regenerate: () => this.answer(turn.parent),
      goOn: () => this.answer(turn.parent, turn),
      show: async (/** @type {number} */ step) => {
        await this.button.interrupt();
        const other = versions[versions.indexOf(turn) + step];
        this.conversation.show(other);
        this.render();
        this.items.get(other.id)?.focusVersions(step); // the button that was pressed is gone
        await this.save();
      },
    };
    const shown = this.items.get(turn.id);
    return shown?.turn === turn ? shown.update(context) : new TurnItem(turn, context);
  }

  /** Sends what is in the field, and the pictures beside it. */
  async send() {
    if (this.sending) return; // pressed twice, while it waits
    this.sending = true;
    try {
      await this.ready;
      await this.attachments.settled;
      if (this.attachments.all.length && !(await this.#known())) return; // the error says why the model could not be loaded
    } finally {
      this.sending = false;
    }
    const text = this.field.value;
    const { all } = this.attachments;
    if (!text.trim() && !all.length) return this.field.focus();
    if (all.length && !this.sees) return this.#refusePictures();
    const pictures = this.attachments.take();
    for (const { picture, blob } of pictures) this.conversation.addFile(picture.file, blob);
    const sent = this.#say(text, this.conversation.leaf, null, pictures.map(({ picture }) => picture));
    this.field.value = "";
    this.#fit();
    return sent;
  }

  /** Waits until the model is loaded, or has failed to. @returns {Promise<boolean>} whether it is known if it sees pictures */
  async #known() {
    await this.server.ready;
    if (this.server.used || this.#isKnown) return true;
    this.progress.show("Loading the model…");
    await this.app.listed(new AbortController().signal);
    this.load();
    await this.prepared;
    this.progress.hide();
    return this.#isKnown;
  }

  #refusePictures() {
    showError(this.slot, new UserError("This model sees no pictures.", {
      where: this.choice.model?.title, hint: "Take the pictures away, or choose a model that sees them, such as HuggingFaceTB/SmolVLM-256M-Instruct of the hub.", action: "models",
    }), this.actions);
  }

  /**
   * The user's turn, after the turn `parent`, in place of the turn `edited`; stored before its draft is forgotten.
   * @param {string} text @param {string | null} parent @param {string | null} edited @param {import("./pictures.js").Picture[]} [pictures]
   */
  #say(text, parent, edited, pictures = undefined) {
    this.over = this.#sayAndAnswer(text, parent, edited, pictures);
    return this.over;
  }

  /** @param {string} text @param {string | null} parent @param {string | null} edited @param {import("./pictures.js").Picture[]} [pictures] */
  async #sayAndAnswer(text, parent, edited, pictures) {
    await this.button.interrupt();
    const turn = this.conversation.add("user", text, parent, pictures);
    this.render();
    this.#toEnd();
    await this.save();
    if (!this.failedToSave) {
      drafts.set(DRAFT, this.field.value);
      drafts.set(SYSTEM, "");
      if (edited) drafts.set(edited, "");
      if (pictures?.length && !this.conversation.newFiles) await this.keepPictures(); // the conversation keeps those that are sent
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
      cancelAnimationFrame(this.frame);
      this.frame = this.rested = 0; // the next answer asks for its own
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
      const asking = { signal, onEvent, files: conversation.files };
      const done = await (this.server.used ? this.#askServer(this.server.used, messages, asking) : this.#askTab(messages, asking));
      this.last = done; // what a test compares
      writer.end(done);
      if (writer.empty && done.reason !== "cancelled") this.#tell("The model ended its turn without a word.");
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
    if (this.refused !== null && conversation.newFiles && !this.slot.hasChildNodes()) this.#tellNoRoom(); // what said so went when the answer began
    await this.card.refresh(this.conversation.id);
  }

  /** An answer has grown: shows it with the next picture of the page. @param {AnswerWriter} writer @param {string} text without thoughts */
  #grown(writer, text) {
    this.progress.hide();
    if (text) this.announcer.add(text);
    this.#saveSoon();
    if (performance.now() < this.rested) return; // what comes later, or the end, shows it
    this.frame ||= requestAnimationFrame(() => {
      const start = performance.now();
      this.frame = 0;
      this.#following(() => this.items.get(writer.turn?.id ?? "")?.refresh(this.button.running, writer.drafted));
      const end = performance.now();
      if (end - start > SLOW) this.rested = end + REST * (end - start);
    });
  }

  /** @param {object[]} messages @param {Asking} asking */
  async #askTab(messages, { signal, onEvent, files }) {
    await this.app.listed(signal);
    await Promise.race([this.prepared, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    throwIfCancelled(signal);
    const options = { ...this.settings.options(), rolling: this.rolling.checked }; // the model may have limited them
    /** @type {{name: string, blob: Blob}[]} */
    const seen = [];
    const asked = withParts(messages, (picture) => {
      const blob = this.sees && files.get(picture.file);
      if (!blob) return nameAlone(picture);
      seen.push({ name: picture.name, blob });
      return { type: "image", image: seen.length - 1 };
    });
    this.#tellUnseen(messages, seen.length);
    if (seen.length) this.progress.show(`${STAGES.seeing}…`);
    const pictures = await Promise.all(seen.map(async ({ name, blob }) => ({ name, bytes: await blob.arrayBuffer() })));
    throwIfCancelled(signal);
    return this.engine.call("chat", { model: this.choice.present.id, messages: asked, pictures, options }, { signal, onEvent });
  }

  /** @param {import("../../page/server-card.js").Used} used @param {object[]} messages @param {Asking} asking */
  async #askServer({ engine, model }, messages, { signal, onEvent, files }) {
    throwIfCancelled(signal);
    this.progress.show("The server reads the conversation…");
    /** @type {Map<string, object>} */
    const parts = new Map();
    withParts(messages, ({ file }) => parts.set(file, {})); // the pictures that it names
    for (const file of parts.keys()) {
      const blob = files.get(file);
      if (blob) parts.set(file, await urlPart(blob));
      else parts.delete(file);
    }
    this.#tellUnseen(messages, parts.size);
    const asked = withParts(messages, (picture) => parts.get(picture.file) ?? nameAlone(picture));
    return engine.call("chat", { model: model.id, messages: asked, options: this.settings.options() }, { signal, onEvent });
  }

  /** Says that the model does not get all pictures of a conversation. @param {object[]} messages @param {number} seen how many it gets */
  #tellUnseen(messages, seen) {
    let all = 0;
    withParts(messages, (picture) => ((all += 1), nameAlone(picture)));
    if (all > seen) this.#tell(this.sees ? `${counted(all - seen, "picture")} of this conversation ${all - seen === 1 ? "is" : "are"} no longer kept: the model gets only the ${all - seen === 1 ? "name" : "names"}.` : "This model sees no pictures: it gets only their names.");
  }

  #saveSoon() {
    this.saving ??= setTimeout(() => this.save(), SAVE_INTERVAL);
  }

  /** Stores the shown conversation, if there is something in it. */
  async save() {
    clearTimeout(this.saving);
    this.saving = undefined;
    const { conversation } = this;
    const { content, entry, keptFiles } = conversation;
    const text = textOf(content);
    if (conversation.empty || text === conversation.stored) return;
    entry.about = aboutOf(conversation.path.length);
    const { updated } = conversation;
    const files = conversation.newFiles && this.refused !== keptFiles.length ? keptFiles : undefined;
    try {
      try {
        await this.store.put(entry, content, { files, allFiles: keptFiles, updated });
        if (files) conversation.newFiles = conversation.files.size !== files.length;
      } catch (error) {
        if (!files) throw error;
        await this.store.put(entry, content, { updated }); // the text alone: there may be room for that
        this.refused = files.length; // tried again with the next picture, not each second
        this.#tellNoRoom();
      }
      conversation.stored = text;
      if (conversation === this.conversation) tabMemory.set(SHOWN, conversation.id); // another one, if another tab changed it too
      this.failedToSave = false;
    } catch (error) {
      this.failedToSave = true;
      showError(this.slot, error, this.actions);
    }
  }

  #tellNoRoom() {
    showError(this.slot, new UserError("There is no room for the pictures of this conversation.", {
      hint: "Its text is kept. The pictures are gone when the page is closed: export the conversation, or delete others, or models under Storage.", action: "storage",
    }), this.actions);
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
