/**
 * Puts a text into a field, whose undo takes it back.
 */
import { beginningOf } from "../shared/words.js";

const QUICK_LINES = 40; // Chromium takes milliseconds for each line that its command inserts: minutes for 3,000

/** What was in a field before its last long text, and with it; null: undone. @type {WeakMap<HTMLTextAreaElement, {before: string, after: string} | null>} */
const undoable = new WeakMap();

/** Puts a text in place of what is selected in a field that has the focus. @param {HTMLTextAreaElement} field @param {string} text */
export function insertText(field, text) {
  if (text.split("\n", QUICK_LINES + 1).length <= QUICK_LINES) {
    document.execCommand("insertText", false, text);
    return;
  }
  const { value: before, selectionStart: start, selectionEnd: end, maxLength } = field;
  const room = maxLength < 0 ? text.length : Math.max(0, maxLength - before.length + (end - start));
  field.setRangeText(beginningOf(text, room), start, end, "end");
  if (!undoable.has(field)) field.addEventListener("keydown", undo);
  undoable.set(field, { before, after: field.value }); // browsers forget what a field undoes where a script changes it
  told(field);
}

/** @param {KeyboardEvent} event */
function undo(event) {
  const field = /** @type {HTMLTextAreaElement} */ (event.currentTarget);
  const last = undoable.get(field);
  const asked = event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
  if (!asked || !last || field.value !== last.after) return;
  event.preventDefault();
  field.value = last.before;
  undoable.set(field, null);
  told(field);
}

/** @param {HTMLTextAreaElement} field */
const told = (field) => field.dispatchEvent(new InputEvent("input", { bubbles: true }));
