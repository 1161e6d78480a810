/**
 * A conversation: a tree of turns, in which a new version of a turn stands beside the old one, so that nothing is lost
 * when a turn is edited or an answer is written again.
 *
 * @typedef {{id: string, parent: string | null, role: "user" | "assistant", text: string, created: number,
 *   thoughts?: string, model?: string, reason?: string, figures?: {tokens?: number, speed?: number, context?: number, used?: number}}} Turn
 *   `reason` is that of the event `done`; an answer without one was cut off.
 * @typedef {{system: string, leaf: string | null, turns: Turn[]}} ConversationContent what is stored beside the entry of the history
 * @typedef {ConversationContent & {id: string, title: string, created: number, updated: number, revision: number}} ConversationRecord
 *   plain values, as they are exported
 * @typedef {import("../../history/history-store.js").HistoryEntry} HistoryEntry
 */
import { UserError } from "../../shared/protocol.js";
import { counted } from "../../shared/words.js";

export const FORMAT = "pyapp.conversations";
const VERSION = 1;
const TITLE_LENGTH = 60;
const TURNS_LIMIT = 100000;
const ROLES = ["user", "assistant"];
const HINT = "Choose a file that this page exported.";

export class Conversation {
  /** @param {HistoryEntry} entry @param {Partial<ConversationContent>} [content] */
  constructor(entry, { system = "", turns = [], leaf = null } = {}) {
    this.entry = entry;
    this.system = system;
    this.leaf = leaf; // the last shown turn
    /** @type {Map<string, Turn>} in the order in which they were made */
    this.turns = new Map(turns.map((turn) => [turn.id, { ...turn }]));
    /** What is stored of it, as far as this tab knows. @type {string | null} */
    this.stored = null;
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item that is stored */
  static of({ entry, content }) {
    const conversation = new Conversation(entry, content);
    conversation.stored = textOf(content);
    return conversation;
  }

  get id() {
    return this.entry.id;
  }

  /** What is stored beside the entry. @returns {ConversationContent} */
  get content() {
    return { system: this.system, leaf: this.leaf, turns: [...this.turns.values()] };
  }

  /** When its last turn was begun, in ms since 1970. */
  get updated() {
    return Math.max(...[...this.turns.values()].map(({ created }) => created));
  }

  get empty() {
    return this.turns.size === 0;
  }

  /** The turn of an id. @param {string | null} id @returns {Turn | null} */
  turn(id) {
    return id === null ? null : this.turns.get(id) ?? null;
  }

  /** The shown turns, the first one first. @returns {Turn[]} */
  get path() {
    const path = [];
    for (let turn = this.turn(this.leaf); turn; turn = this.turn(turn.parent)) path.push(turn);
    return path.reverse();
  }

  /** The versions of a turn, itself among them. @param {Turn} turn @returns {Turn[]} */
  versions({ parent, role }) {
    return [...this.turns.values()].filter((other) => other.parent === parent && other.role === role);
  }

  /**
   * Adds a turn after the turn `parent`, and shows it.
   * @param {Turn["role"]} role @param {string} text @param {string | null} [parent] @returns {Turn}
   */
  add(role, text, parent = this.leaf) {
    const turn = { id: crypto.randomUUID(), parent, role, text, created: Date.now() };
    this.turns.set(turn.id, turn);
    this.leaf = turn.id;
    if (role === "user") this.entry.title ||= titleOf(text);
    return turn;
  }

  /** Removes an answer in which nothing was written. @param {Turn} turn */
  remove(turn) {
    this.turns.delete(turn.id);
    if (this.leaf === turn.id) this.leaf = turn.parent;
  }

  /** Shows another version of a turn, and what followed it last. @param {Turn} turn */
  show(turn) {
    let last = turn;
    for (;;) {
      const next = [...this.turns.values()].filter(({ parent }) => parent === last.id).at(-1);
      if (!next) break;
      last = next;
    }
    this.leaf = last.id;
  }

  /**
   * The messages up to a turn, for the model. One that was not answered and the next are one message: the templates of many
   * models want the sides to take turns.
   * @param {Turn | null} last null: none
   */
  messages(last) {
    const path = this.path;
    /** @type {{role: string, content: string, reasoning_content?: string}[]} */
    const shown = [];
    for (const { role, text, thoughts } of last ? path.slice(0, path.indexOf(last) + 1) : []) {
      const before = shown.at(-1);
      if (before?.role === role) before.content += `\n\n${text}`;
      else shown.push({ role, content: text, ...(thoughts && { reasoning_content: thoughts }) });
    }
    return this.system.trim() ? [{ role: "system", content: this.system }, ...shown] : shown;
  }

  /** Plain values, as they are exported. */
  toRecord() {
    return recordOf({ entry: this.entry, content: this.content, files: [] });
  }
}

/** What a user would miss. @param {ConversationContent} content */
export const textOf = ({ system, leaf, turns }) => JSON.stringify([system, leaf,
  ...turns.map(({ id, parent, role, text, thoughts, model, reason }) => [id, parent, role, text, thoughts, model, reason])]);

/** @param {number} turns */
export const aboutOf = (turns) => counted(turns, "turn");

/** @param {import("../../history/history-store.js").HistoryItem} item @returns {ConversationRecord} */
export const recordOf = ({ entry: { id, title, created, updated, revision = 0 }, content: { system, leaf, turns } }) => ({ id, title, system, created, updated, revision, leaf, turns });

/** @param {ConversationRecord} record of a file, or of an earlier version of the page @returns {import("../../history/history-store.js").HistoryItem} */
export function itemOf({ id, title, system, created, updated, leaf, turns }) {
  const entry = { id, kind: "conversation", title, about: aboutOf(turns.length), created, updated, bytes: 0, revision: 0 };
  return { entry, content: { system, leaf, turns }, files: [] };
}

/** @param {string} text the first line, cut at a word */
function titleOf(text) {
  const line = text.trim().split("\n")[0].trim();
  if (line.length <= TITLE_LENGTH) return line;
  return `${line.slice(0, TITLE_LENGTH).replace(/\s+\S*$/, "")}…`;
}

/** @param {ConversationRecord[]} records @returns {string} the text of a file */
export const exported = (records) => `${JSON.stringify({ format: FORMAT, version: VERSION, conversations: records }, null, 1)}\n`;

/**
 * The conversations of an exported file, checked field by field.
 * @param {string} text @param {string} where the name of the file @returns {ConversationRecord[]}
 */
export function imported(text, where) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new UserError("This is not JSON.", { where, hint: HINT });
  }
  if (value?.format !== FORMAT || !Array.isArray(value.conversations)) {
    throw new UserError("This file has no conversations.", { where, hint: HINT });
  }
  if (value.version !== VERSION) {
    throw new UserError(`The conversations are of version ${value.version}, this page reads version ${VERSION}.`, { where, hint: "Reload the page for its newest version." });
  }
  return value.conversations.map((/** @type {unknown} */ record, /** @type {number} */ index) => checked(record, `${where}, conversation ${index + 1}`));
}

/** Only the known fields, of the right types; the turns form a tree in which the parents come first. @param {any} record @param {string} where */
function checked(record, where) {
  const wrong = (/** @type {string} */ what) => new UserError(what, { where, hint: HINT });
  const need = (/** @type {boolean} */ sound, /** @type {string} */ what) => {
    if (!sound) throw wrong(what);
  };
  const text = (/** @type {unknown} */ value) => typeof value === "string";
  const time = (/** @type {unknown} */ value) => Number.isFinite(value);
  need(record !== null && typeof record === "object" && Array.isArray(record.turns), "It has no list of turns.");
  const { id, title, system, created, updated, leaf } = record;
  need([id, title, system].every(text) && id !== "" && time(created) && time(updated), "Its id, title, system prompt or times are missing.");
  need(record.turns.length <= TURNS_LIMIT, `It has more than ${TURNS_LIMIT} turns.`);
  const known = new Map();
  for (const [index, turn] of record.turns.entries()) {
    need(turn !== null && typeof turn === "object" && text(turn.id) && text(turn.text) && ROLES.includes(turn.role) && time(turn.created), `Turn ${index + 1} has no id, text, role or time.`);
    need(!known.has(turn.id), `Turn ${index + 1} is there twice.`);
    const role = turn.parent === null ? null : known.get(turn.parent)?.role;
    // A message follows an answer, or one that was not answered; an answer follows a message.
    need(role === null ? turn.role === "user" : role !== undefined && (turn.role === "user" || role === "user"), `Turn ${index + 1} does not follow a turn of the other side.`);
    const { parent, role: own, thoughts, model, reason } = turn;
    known.set(turn.id, {
      id: turn.id, parent, role: own, text: turn.text, created: turn.created,
      ...(text(thoughts) && { thoughts }), ...(text(model) && { model }), ...(text(reason) && { reason }), ...(turn.figures && { figures: numbers(turn.figures) }),
    });
  }
  need(known.size === 0 ? leaf === null : known.has(leaf), "It does not say which turn is shown.");
  return { id, title, system, created, updated, revision: 0, leaf, turns: [...known.values()] };
}

/** @param {any} figures */
const numbers = (figures) => Object.fromEntries(["tokens", "speed", "context", "used"].filter((name) => Number.isFinite(figures?.[name])).map((name) => [name, figures[name]]));
