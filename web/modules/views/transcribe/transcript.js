/**
 * The transcript on the page: segments with their times, words to click on, text to edit.
 *
 * The transcript is one tab stop. The arrow keys go from segment to segment and from word to word; Enter plays from there.
 * A turn begins with the name of its speaker; Enter on it renames the speaker.
 * Fires "play" (detail: seconds) and "edited".
 * @typedef {{word: string, start: number, end: number, probability: number, speaker?: string}} Word
 * @typedef {{start: number, end: number, text: string, words?: Word[] | null, id?: number, guess?: boolean, continues?: boolean, speaker?: string, stopped?: boolean}} Segment
 *   `stopped`: what was heard of a window that was not finished; with further fields of the engine
 */
import { find, h } from "../../page/dom.js";
import { present } from "../../shared/present.js";
import { clock, spoken } from "./times.js";

const PACE = 15; // characters that are spoken in a second: how long unfinished text is taken to last

export class Transcript extends EventTarget {
  /** @param {HTMLElement} list an ordered list */
  constructor(list) {
    super();
    this.list = list;
    /** @type {Segment[]} */
    this.segments = [];
    this.editing = false;
    /** The element at the player's time. @type {Element | null} */
    this.marked = null;
    /** The row of the text that may still change. @type {HTMLLIElement | null} */
    this.partialRow = null;
    this.partialStart = 0;
    /** The segment that the last edit is of, until a field gets the focus. @type {Segment | null} */
    this.edited = null;
    /** What the edits replaced, the last one at the end. @type {({index: number, text: string, words: Word[] | null | undefined} | {speakers: (string | undefined)[][]})[]} */
    this.edits = [];
    list.addEventListener("click", ({ target }) => this.#clicked(/** @type {HTMLElement} */ (target)));
    list.addEventListener("keydown", (event) => this.#pressed(event));
    list.addEventListener("input", ({ target }) => this.#typed(/** @type {HTMLTextAreaElement} */ (target)));
    list.addEventListener("focusin", () => (this.edited = null));
  }

  clear() {
    this.segments = [];
    this.edits = [];
    this.edited = null;
    this.partialRow = null;
    this.marked = null;
    this.list.replaceChildren();
  }

  /** Shows these segments. @param {Segment[]} segments they belong to the transcript from now on */
  show(segments) {
    this.clear();
    this.segments = segments;
    this.list.append(...segments.map((segment, i) => this.#row(segment, segments[i - 1])));
    const first = this.list.querySelector("button");
    if (first) first.tabIndex = 0;
  }

  /** Adds a final segment. One that continues the last one is joined to it. @param {Segment} segment */
  add(segment) {
    this.#dropPartial();
    const last = this.segments.at(-1);
    if (segment.continues && last) {
      last.text += segment.text;
      last.end = segment.end;
      last.words = last.words && segment.words ? [...last.words, ...segment.words] : null;
      return this.#replace(present(this.list.lastElementChild, "the last segment's row"), last);
    }
    const added = { ...segment, id: this.segments.length };
    this.segments.push(added);
    const row = this.#row(added, last);
    this.list.append(row);
    if (this.segments.length === 1) find(row, "button").tabIndex = 0;
  }

  /** Shows text that may still change, at the end. @param {string} text @param {number} start */
  partial(text, start) {
    if (!text.trim()) return this.#dropPartial();
    this.partialStart = start;
    if (!this.partialRow) {
      this.partialRow = h("li", { class: "segment partial", "aria-hidden": "true" }, h("span", { class: "time" }), h("p", { class: "segment-text", dir: "auto" }));
      this.list.append(this.partialRow);
    }
    const [time, shown] = this.partialRow.children;
    time.textContent = clock(start);
    shown.textContent = text.trim();
  }

  /** Replaces the text of a row. The focus stays at its place. @param {Element} row @param {Segment} segment */
  #replace(row, segment) {
    const at = [...row.querySelectorAll("button")].findIndex((button) => button === document.activeElement);
    this.#setText(row, segment);
    const target = at >= 0 ? row.querySelectorAll("button")[at] : null;
    if (target) {
      this.#makeCurrent(target);
      target.focus();
    }
  }

  /** Puts the text of a segment, or its field, behind its time. @param {Element} row @param {Segment} segment */
  #setText(row, segment) {
    present(row.lastChild, "the text of a row").replaceWith(this.editing ? this.#field(segment) : this.#text(segment));
  }

  #dropPartial() {
    this.partialRow?.remove();
    this.partialRow = null;
  }

  /**
   * Ends the transcript. Of one that was interrupted, the text that could still change stays.
   * @param {boolean} interrupted @param {number} [duration] of the recording
   */
  end(interrupted, duration = Infinity) {
    const text = interrupted && this.partialRow?.querySelector(".segment-text")?.textContent;
    this.#dropPartial();
    if (!text) return;
    const start = Math.max(this.partialStart, this.segments.at(-1)?.end ?? 0);
    const end = Math.max(start, Math.min(start + Math.max(1, text.length / PACE), duration));
    this.add({ start, end, text: ` ${text}`, words: null, stopped: true });
  }

  /** Removes what was heard of a window that was not finished: it will be heard again. */
  dropStopped() {
    if (!this.segments.at(-1)?.stopped) return;
    this.segments.pop();
    this.list.lastElementChild?.remove();
  }

  get text() {
    return this.segments.map(({ text }) => text.trim()).filter(Boolean).join("\n");
  }

  /** The text to copy: with the names of the speakers, if they are told apart. */
  get spoken() {
    const named = (/** @type {Segment} */ { speaker, text }) => (speaker && text.trim() ? `${speaker}: ${text.trim()}` : text.trim());
    return this.segments.map(named).filter(Boolean).join("\n");
  }

  /** @param {Segment} segment @param {Segment} [before] the one before it */
  #row(segment, before) {
    const time = h("button", { type: "button", class: "time", tabindex: "-1", "data-start": segment.start, "aria-label": `${clock(segment.start)}, play from ${spoken(segment.start)}` }, clock(segment.start));
    const row = h("li", { class: segment.guess ? "segment guess" : "segment", title: segment.guess ? "Perhaps a guess" : null }, time);
    if (segment.speaker && segment.speaker !== before?.speaker) row.append(this.#name(segment.speaker));
    if (segment.stopped) row.classList.add("stopped");
    row.append(this.editing ? this.#field(segment) : this.#text(segment));
    return row;
  }

  /** @param {string} speaker */
  #name(speaker) {
    return h("button", { type: "button", class: "speaker", tabindex: "-1", title: "Rename the speaker", "aria-label": `${speaker}, rename` }, speaker);
  }

  /** Shows a field for another name in place of a speaker's name. @param {HTMLElement} button */
  #rename(button) {
    const old = button.textContent ?? "";
    const field = h("input", { type: "text", class: "speaker-field", maxlength: 60, dir: "auto", "aria-label": `Name of ${old}` });
    field.value = old;
    let ended = false;
    const end = (/** @type {boolean} */ taken) => {
      if (ended) return; // a field that is removed loses the focus
      ended = true;
      const name = field.value.trim().replace(/\s+/g, " ");
      const back = this.#name(old);
      field.replaceWith(back);
      if (taken && name && name !== old) this.rename(old, name);
      this.#makeCurrent(back);
      return back;
    };
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      end(event.key === "Enter")?.focus();
    });
    field.addEventListener("blur", () => end(true));
    button.replaceWith(field);
    field.select();
    field.focus();
  }

  /** Gives a speaker another name, everywhere. @param {string} old @param {string} name */
  rename(old, name) {
    this.edits.push({ speakers: this.segments.map(({ speaker, words }) => [speaker, ...(words ?? []).map((word) => word.speaker)]) });
    for (const segment of this.segments) {
      if (segment.speaker === old) segment.speaker = name;
      for (const word of segment.words ?? []) if (word.speaker === old) word.speaker = name;
    }
    for (const button of this.list.querySelectorAll(".speaker")) {
      if (button.textContent !== old) continue;
      button.textContent = name;
      button.setAttribute("aria-label", `${name}, rename`);
    }
    this.dispatchEvent(new CustomEvent("edited"));
  }

  /** @param {Segment} segment */
  #text({ text, words, stopped }) {
    const mark = stopped ? h("span", { class: "stopped-mark" }, " … stopped here") : "";
    if (!words?.length) return h("p", { class: "segment-text", dir: "auto" }, text.trim(), mark);
    const parts = words.map(({ word, start, end, probability }, i) => {
      const unsure = probability < 0.4 ? " unsure" : "";
      const button = h("button", { type: "button", class: `word${unsure}`, tabindex: "-1", "data-start": start, "data-end": end }, word.trim());
      const space = i > 0 && /^\s/.test(word) ? " " : "";
      return [space, button];
    });
    return h("p", { class: "segment-text", dir: "auto" }, ...parts.flat());
  }

  /** @param {Segment} segment */
  #field({ text, start, end }) {
    const field = h("textarea", { class: "segment-field", rows: 1, dir: "auto", spellcheck: "true", "aria-label": `Text from ${spoken(start)} to ${spoken(end)}` });
    field.value = text.trim();
    requestAnimationFrame(() => fit(field));
    return field;
  }

  /** Switches between reading and editing. @param {boolean} editing */
  setEditing(editing) {
    this.editing = editing;
    this.marked = null;
    const rows = [...this.list.children].filter((row) => row !== this.partialRow);
    rows.forEach((row, i) => this.#setText(row, this.segments[i]));
    if (editing) this.list.querySelector("textarea")?.focus();
  }

  /** @param {HTMLTextAreaElement} field */
  #typed(field) {
    if (field.tagName !== "TEXTAREA") return; // the name of a speaker
    const index = this.#indexOf(field);
    const segment = this.segments[index];
    fit(field);
    if (this.edited !== segment) this.edits.push({ index, text: segment.text, words: segment.words }); // once for each visit of the field
    this.edited = segment;
    segment.words = retimed(segment.words, field.value);
    segment.text = ` ${field.value.trim()}`;
    delete segment.stopped; // the user's text stays
    this.dispatchEvent(new CustomEvent("edited"));
  }

  /** The number of the row that an element is in. @param {Element} element */
  #indexOf(element) {
    return [...this.list.children].findIndex((row) => row.contains(element));
  }

  /** Takes the last edit back: all that was typed into a segment since it was entered, or the name of a speaker. */
  undo() {
    const edit = this.edits.pop();
    if (!edit) return;
    if ("speakers" in edit) return this.#renameBack(edit.speakers);
    const segment = this.segments[edit.index];
    [segment.text, segment.words] = [edit.text, edit.words];
    const row = this.list.children[edit.index];
    this.#setText(row, segment);
    this.edited = null;
    row.scrollIntoView({ block: "nearest" });
    if (!this.edits.length) row.querySelector("textarea")?.focus(); // the button that was pressed goes away
    this.dispatchEvent(new CustomEvent("edited"));
  }

  /** @param {(string | undefined)[][]} speakers of each segment and of its words */
  #renameBack(speakers) {
    for (const [i, [speaker, ...ofWords]] of speakers.entries()) {
      const segment = this.segments[i];
      if (speaker) segment.speaker = speaker;
      segment.words?.forEach((word, at) => ofWords[at] && (word.speaker = ofWords[at]));
    }
    this.list.replaceChildren(...this.segments.map((segment, i) => this.#row(segment, this.segments[i - 1])), ...(this.partialRow ? [this.partialRow] : []));
    const name = this.list.querySelector(".speaker");
    if (name) this.#makeCurrent(/** @type {HTMLElement} */ (name));
    if (!this.edits.length) /** @type {HTMLElement | null} */ (name)?.focus(); // the button that was pressed goes away
    this.dispatchEvent(new CustomEvent("edited"));
  }

  /** @param {HTMLElement} target */
  #clicked(target) {
    const button = target.closest("button");
    if (!button) return;
    this.#makeCurrent(button);
    if (button.classList.contains("speaker")) return this.#rename(button);
    this.dispatchEvent(new CustomEvent("play", { detail: Number(button.dataset.start) }));
  }

  /** Sets the element that Tab focuses. @param {HTMLElement} button */
  #makeCurrent(button) {
    for (const other of this.list.querySelectorAll("button")) other.tabIndex = -1;
    button.tabIndex = 0;
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const { tagName } = /** @type {HTMLElement} */ (event.target);
    if (tagName !== "BUTTON" || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = this.#neighbour(/** @type {HTMLElement} */ (event.target), event.key);
    if (next === undefined) return;
    event.preventDefault();
    if (!next) return;
    this.#makeCurrent(next);
    next.focus();
  }

  /**
   * @param {HTMLElement} from
   * @param {string} key @returns {HTMLElement | null | undefined} the target of a key; null: there is none; undefined: the key has no meaning here
   */
  #neighbour(from, key) {
    const row = from.closest("li");
    const first = (/** @type {Element | null | undefined} */ line) => line?.querySelector("button") ?? null;
    if (key === "ArrowDown") return first(row?.nextElementSibling);
    if (key === "ArrowUp") return first(row?.previousElementSibling);
    if (key === "Home") return first(this.list.firstElementChild);
    if (key === "End") return first([...this.list.children].findLast((line) => first(line)));
    if (key !== "ArrowLeft" && key !== "ArrowRight") return undefined;
    const all = [...this.list.querySelectorAll("button")];
    return all[all.indexOf(/** @type {HTMLButtonElement} */ (from)) + (key === "ArrowRight" ? 1 : -1)] ?? null;
  }

  /** Marks the segment and word at a time. @param {number} seconds @param {boolean} scroll whether to scroll to it */
  mark(seconds, scroll) {
    const at = this.segments.findLastIndex(({ start }) => start <= seconds + 0.01);
    const row = at >= 0 && seconds <= this.segments[at].end + 0.3 ? this.list.children[at] : null;
    const words = row ? [...row.querySelectorAll("button")].filter(({ classList }) => classList.contains("word")) : [];
    const word = words.findLast(({ dataset }) => Number(dataset.start) <= seconds + 0.01);
    const marked = word ?? row;
    if (marked === this.marked) return;
    for (const old of this.list.querySelectorAll(".current")) old.classList.remove("current");
    row?.classList.add("current");
    word?.classList.add("current");
    this.marked = marked;
    if (scroll) row?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }
}

/** Makes a field as tall as its text, for browsers without field-sizing. @param {HTMLTextAreaElement} field */
function fit(field) {
  if (CSS.supports("field-sizing", "content")) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

/**
 * The words of an edited text, with their times. Null if the number of words has changed.
 * @param {Word[] | null | undefined} words @param {string} text
 */
function retimed(words, text) {
  const spelled = text.trim().split(/\s+/);
  if (!words || spelled.length !== words.length) return null;
  return words.map((word, i) => ({ ...word, word: ` ${spelled[i]}` }));
}
