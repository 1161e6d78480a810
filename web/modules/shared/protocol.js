/**
 * The messages between page and worker.
 *
 * page → worker: `{id, method, params}`. Every request has a unique id; `{method: "cancel", params: {id}}` stops a request.
 * While "listen" runs, `{method: "push", params: {id, samples}}` sends it sound and `{method: "finish", params: {id}}` ends the sound.
 * worker → page: `{id, events: [event, …]}`. Events are those of pyapp/tasks. A message has several if they come faster than
 * the screen is drawn. The last event of a request is always `done` or `error`.
 * worker → page without id: `{notice: "ready" | "stage" | "bytes", …}`: progress of the start; "bytes" only at a first visit.
 *
 * @typedef {{id: number, method: string, params: object}} Request
 * @typedef {{type: "progress", what: string, done: number, total: number | null, unit: string}} ProgressEvent
 * @typedef {{type: "token", text: string, id: number, index: number}} TokenEvent
 * @typedef {{type: "thought", text: string}} ThoughtEvent
 * @typedef {{type: "draft", text: string}} DraftEvent the text behind the last token, of which "▒" are not known yet
 * @typedef {{type: "segment", text: string, start: number, end: number, id: number, speaker?: string,
 *   words?: {word: string, start: number, end: number, probability: number, speaker?: string}[]}} SegmentEvent
 * @typedef {{type: "partial", text: string, start: number}} PartialEvent
 * @typedef {{type: "language", code: string, probability?: number}} LanguageEvent
 * @typedef {{type: "notice", what: string, where?: string, hint?: string}} NoticeEvent
 * @typedef {{type: "doubt", what: string, hint?: string, share: number}} DoubtEvent this share of a transcript may be a guess
 * @typedef {{type: "item", index: number, [value: string]: any}} ItemEvent the result of one of several texts
 * @typedef {{type: "sound", text: string, start: number, end: number, rate: number, pcm: string}} SoundEvent a sentence that was spoken: 16-bit samples in base64
 * @typedef {{type: "region", region: number, kind: "text" | "table", lines: number, box: number[], corners: number[][], rows?: number, columns?: number, cells?: any[]}} RegionEvent of a picture
 * @typedef {{type: "line", region: number, line: number, text: string, confidence: number, box: number[], corners: number[][], words: object[], cell?: number}} LineEvent of a region
 * @typedef {{type: "behind"}} BehindEvent more sound was pushed than processed: no more is accepted
 * @typedef {{type: "metric", name: string, value: number, unit: string}} MetricEvent
 * @typedef {{type: "done", reason?: string, [result: string]: any}} DoneEvent with the results of the request
 * @typedef {{type: "error", what: string, where?: string | null, hint?: string | null, fatal?: boolean,
 *   action?: string}} ErrorEvent `action`: see LABELS in page/errors.js
 * @typedef {ProgressEvent | TokenEvent | ThoughtEvent | DraftEvent | SegmentEvent | PartialEvent | LanguageEvent | NoticeEvent | DoubtEvent | ItemEvent | SoundEvent | RegionEvent | LineEvent | BehindEvent | MetricEvent | DoneEvent | ErrorEvent} TaskEvent
 */

/** An error for the user: what happened, where, and what to do. */
export class UserError extends Error {
  /**
   * @param {string} what
   * @param {{where?: string | null, hint?: string | null, fatal?: boolean, action?: string}} [details]
   */
  constructor(what, { where = null, hint = null, fatal = false, action = undefined } = {}) {
    super(what);
    this.name = "UserError";
    this.what = what;
    this.where = where;
    this.hint = hint;
    this.fatal = fatal;
    this.action = action;
  }
}

/** The name of an error, which tells its kind: browsers' errors have no classes of their own. @param {unknown} error */
export const nameOf = (error) => (error instanceof Error ? error.name : "");

/** The user stopped it: no error to show. */
export class Cancelled extends Error {
  constructor() {
    super("cancelled");
    this.name = "Cancelled";
  }
}

/** Throws Cancelled when the signal says so. @param {AbortSignal | undefined} signal */
export function throwIfCancelled(signal) {
  if (signal?.aborted) throw new Cancelled();
}

/**
 * The last event of a request that threw.
 * @param {any} error
 * @returns {DoneEvent | ErrorEvent}
 */
export function eventFromError(error) {
  // By their names: each bundle of the page has its own copy of these classes.
  if (["Cancelled", "AbortError"].includes(error?.name)) return { type: "done", reason: "cancelled" };
  if (error?.name === "UserError") {
    const { what, where, hint, fatal, action } = error;
    return { type: "error", what, where, hint, fatal, action };
  }
  if (error?.name === "QuotaExceededError") return eventFromError(storageFull());
  if (UNREADABLE.includes(error?.name)) return eventFromError(unreadable(error));
  return {
    type: "error",
    what: `An error occurred in the page: ${error?.message ?? error}`,
    hint: "Try again; if it happens again, restart the engine.",
    action: "restart",
  };
}

/** The browser's names of errors of files that are not there any more, or not as they were. */
export const UNREADABLE = ["NotReadableError", "NotFoundError"];

/** A file of the user that cannot be read. @param {any} error the browser's @param {string} [name] of the file */
export function unreadable(error, name = undefined) {
  return new UserError("A file could not be read.", {
    where: name ?? error?.message,
    hint: "It may have been changed, moved or deleted since it was chosen. Choose it again.",
  });
}

/** @param {{needed?: number, free?: number, kept?: number}} [sizes] in bytes. `kept`: of the file that are stored */
export function storageFull({ needed, free, kept } = {}) {
  const figures = needed ? ` It needs ${megabytes(needed)} and ${megabytes(free ?? 0)} are left.` : "";
  return new UserError(`The browser's storage for this page is full.${figures}`, {
    hint: `Delete models under Storage, or free some disk space.${kept ? " The part that was downloaded is stored." : ""}`,
    action: "storage",
  });
}

/** @param {number} bytes */
export function megabytes(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}
