/**
 * A conversation: a tree of turns, in which a new version of a turn stands beside the old one, so that nothing is lost
 * when a turn is edited or an answer is written again.
 *
 * @typedef {{id: string, parent: string | null, role: "user" | "assistant", text: string, created: number,
 *   pictures?: import("./pictures.js").Picture[],
 *   thoughts?: string, model?: string, reason?: string, figures?: {tokens?: number, speed?: number, context?: number, used?: number}}} Turn
 *   `pictures` come before the text of a message. `reason` is that of the event `done`; an answer without one was cut off.
 * @typedef {{system: string, leaf: string | null, turns: Turn[]}} ConversationContent what is stored beside the entry of the history
 * @typedef {ConversationContent & {id: string, title: string, created: number, updated: number, revision: number,
 *   files?: import("../../history/history-store.js").KeptFile[]}} ConversationRecord
 *   plain values, as they are exported; in the exported file, a picture has `name` and `data`, a data: address
 * @typedef {import("../../history/history-store.js").HistoryEntry} HistoryEntry
 */
import { addressOf } from "../../pictures/svg-picture.js";
import { UserError } from "../../shared/protocol.js";
import { randomId } from "../../shared/random-id.js";
import { counted, shortened } from "../../shared/words.js";

export const FORMAT = "pyapp.conversations";
const VERSION = 2; // since there are pictures; a file without them is of version 1
const TITLE_LENGTH = 60;
const TURNS_LIMIT = 100000;
const PICTURES_LIMIT = 64; // of one turn
const SIDE_LIMIT = 1 << 16; // pixels
const PICTURE_DATA = /^data:(image\/(?:png|jpeg|webp));base64,/;
const ROLES = ["user", "assistant"];
const HINT = "Choose a file that this page exported.";

export class Conversation {
  /** @param {HistoryEntry} entry @param {Partial<ConversationContent>} [content] @param {import("../../history/history-store.js").KeptFile[]} [files] */
  constructor(entry, { system = "", turns = [], leaf = null } = {}, files = []) {
    this.entry = entry;
    /** The pictures of its turns, by their `file`. @type {Map<string, Blob>} */
    this.files = new Map(files.map(({ name, blob }) => [name, blob]));
    /** Whether there are pictures that are not stored, as far as this tab knows. */
    this.newFiles = false;
    this.system = system;
    this.leaf = leaf; // the last shown turn
    /** @type {Map<string, Turn>} in the order in which they were made */
    this.turns = new Map(turns.map((turn) => [turn.id, { ...turn }]));
    /** What is stored of it, as far as this tab knows. @type {string | null} */
    this.stored = null;
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item that is stored */
  static of({ entry, content, files }) {
    const conversation = new Conversation(entry, content, files);
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

  /** The pictures, as they are stored. @returns {import("../../history/history-store.js").KeptFile[]} */
  get keptFiles() {
    return [...this.files].map(([name, blob]) => ({ name, blob }));
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
   * @param {Turn["role"]} role @param {string} text @param {string | null} [parent] @param {import("./pictures.js").Picture[]} [pictures] @returns {Turn}
   */
  add(role, text, parent = this.leaf, pictures = []) {
    const turn = { id: randomId(), parent, role, text, created: Date.now(), ...(pictures.length && { pictures }) };
    this.turns.set(turn.id, turn);
    this.leaf = turn.id;
    if (role === "user") this.entry.title ||= titleOf(text || pictures.map(({ name }) => name).join(", "));
    return turn;
  }

  /** Keeps a picture for the turns that name it. @param {string} file @param {Blob} blob */
  addFile(file, blob) {
    this.files.set(file, blob);
    this.newFiles = true;
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
   * models want the sides to take turns. A content with pictures is a list of parts: the `image` of a part is the picture.
   * @param {Turn | null} last null: none @returns {object[]}
   */
  messages(last) {
    const path = this.path;
    /** @type {{role: string, content: any, reasoning_content?: string}[]} */
    const shown = [];
    for (const { role, text, thoughts, pictures = [] } of last ? path.slice(0, path.indexOf(last) + 1) : []) {
      const content = pictures.length ? [...pictures.map((image) => ({ type: "image", image })), ...(text ? [{ type: "text", text }] : [])] : text;
      const before = shown.at(-1);
      if (before?.role === role) before.content = joined(before.content, content);
      else shown.push({ role, content, ...(thoughts && { reasoning_content: thoughts }) });
    }
    return this.system.trim() ? [{ role: "system", content: this.system }, ...shown] : shown;
  }

  /** Plain values, as they are exported. */
  toRecord() {
    return recordOf({ entry: this.entry, content: this.content, files: [] });
  }
}

/** The contents of two messages as one. @param {any} first @param {any} second texts, or lists of parts */
function joined(first, second) {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  const parts = (/** @type {any} */ content) => (typeof content === "string" ? [{ type: "text", text: content }] : content);
  const [before, after] = [parts(first), parts(second)];
  const ends = before.at(-1).type === "text" && after[0].type === "text"; // many templates put nothing between two texts
  return ends ? [...before, { type: "text", text: `\n\n${after[0].text}` }, ...after.slice(1)] : [...before, ...after];
}

/** What a user would miss. @param {ConversationContent} content */
export const textOf = ({ system, leaf, turns }) => JSON.stringify([system, leaf,
  ...turns.map(({ id, parent, role, text, thoughts, model, reason, pictures }) => [id, parent, role, text, thoughts, model, reason, pictures?.map(({ file }) => file)])]);

/** @param {number} turns */
export const aboutOf = (turns) => counted(turns, "turn");

/** @param {import("../../history/history-store.js").HistoryItem} item @returns {ConversationRecord} */
export const recordOf = ({ entry: { id, title, created, updated, revision = 0 }, content: { system, leaf, turns } }) => ({ id, title, system, created, updated, revision, leaf, turns });

/** @param {ConversationRecord} record of a file, or of an earlier version of the page @returns {import("../../history/history-store.js").HistoryItem} */
export function itemOf({ id, title, system, created, updated, leaf, turns, files = [] }) {
  const entry = { id, kind: "conversation", title, about: aboutOf(turns.length), created, updated, bytes: 0, revision: 0 };
  return { entry, content: { system, leaf, turns }, files };
}

/** @param {string} text the first line, cut at a word */
const titleOf = (text) => shortened(text.trim().split("\n")[0].trim(), TITLE_LENGTH);

/** The file of conversations, with their pictures. @param {import("../../history/history-store.js").HistoryItem[]} items @returns {Promise<Blob>} */
export async function exported(items) {
  const records = [];
  for (const item of items) {
    const used = new Set(item.content.turns.flatMap((/** @type {Turn} */ { pictures = [] }) => pictures.map(({ file }) => file)));
    const files = item.files.filter(({ name }) => used.has(name));
    const data = await Promise.all(files.map(async ({ name, blob }) => ({ name, data: await addressOf(blob) })));
    records.push(JSON.stringify({ ...recordOf(item), ...(data.length && { files: data }) }, null, 1)); // a text for each: one for all may be too long
  }
  const version = items.some(({ files }) => files.length) ? VERSION : 1;
  return new Blob([`{\n "format": "${FORMAT}",\n "version": ${version},\n "conversations": [\n`, ...records.flatMap((record, index) => (index ? [",\n", record] : [record])), "\n]}\n"], { type: "application/json" });
}

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
  if (!Number.isInteger(value.version) || value.version < 1 || value.version > VERSION) {
    throw new UserError(`The conversations are of version ${JSON.stringify(value.version ?? null).slice(0, 20)}, this page reads versions up to ${VERSION}.`, { where, hint: "Reload the page for its newest version." });
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
    const { parent, role: own, thoughts, model, reason, pictures } = turn;
    need(pictures === undefined || (own === "user" && Array.isArray(pictures) && pictures.length <= PICTURES_LIMIT && pictures.every(isPicture)), `Turn ${index + 1} has pictures without a name or a size.`);
    known.set(turn.id, {
      id: turn.id, parent, role: own, text: turn.text, created: turn.created,
      ...(pictures?.length && { pictures: pictures.map((/** @type {any} */ { file, name, width, height }) => ({ file, name, width, height })) }),
      ...(text(thoughts) && { thoughts }), ...(text(model) && { model }), ...(text(reason) && { reason }), ...(turn.figures && { figures: numbers(turn.figures) }),
    });
  }
  need(known.size === 0 ? leaf === null : known.has(leaf), "It does not say which turn is shown.");
  const names = new Set([...known.values()].flatMap(({ pictures = [] }) => pictures.map((/** @type {any} */ { file }) => file)));
  const files = (Array.isArray(record.files) ? record.files : []).filter((/** @type {any} */ file) => names.has(file?.name)).map((/** @type {any} */ { name, data }) => ({ name, blob: pictureIn(data, where) }));
  return { id, title, system, created, updated, revision: 0, leaf, turns: [...known.values()], files };
}

/** @param {any} value */
function isPicture(value) {
  const side = (/** @type {unknown} */ pixels) => Number.isInteger(pixels) && Number(pixels) > 0 && Number(pixels) <= SIDE_LIMIT;
  return typeof value?.file === "string" && value.file !== "" && typeof value.name === "string" && side(value.width) && side(value.height);
}

/** @param {unknown} data a data: address @param {string} where @returns {Blob} */
function pictureIn(data, where) {
  const [head, type] = (typeof data === "string" && PICTURE_DATA.exec(data)) || ["", ""];
  try {
    if (!head) throw new TypeError("not a picture");
    return new Blob([Uint8Array.from(atob(String(data).slice(head.length)), (letter) => letter.charCodeAt(0))], { type });
  } catch {
    throw new UserError("A picture in it is damaged.", { where, hint: HINT });
  }
}

/** @param {any} figures */
const numbers = (figures) => Object.fromEntries(["tokens", "speed", "context", "used"].filter((name) => Number.isFinite(figures?.[name])).map((name) => [name, figures[name]]));
