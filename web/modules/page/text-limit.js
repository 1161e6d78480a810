/**
 * How much text a field takes. Browsers lay a paragraph out anew with every letter: one of 400,000 characters takes seconds each time.
 */
import { beginningOf } from "../shared/words.js";

const MOST_CHARACTERS = 100_000;

/** @param {number} given characters @param {number} room of them that were put in */
const told = (given, room) =>
  `This field takes ${MOST_CHARACTERS.toLocaleString("en")} characters. ${
    room > 0 ? `Of ${given.toLocaleString("en")}, the first ${room.toLocaleString("en")} are here; the rest can follow later.` : "It is full."
  }`;

/** Limits a field, and says what was cut. @param {HTMLTextAreaElement} field @param {(message: string) => void} tell */
export function limitText(field, tell) {
  field.maxLength = MOST_CHARACTERS; // the browser cuts what is pasted, and undoes it
  field.addEventListener("beforeinput", ({ data, dataTransfer }) => {
    const given = (data ?? dataTransfer?.getData("text/plain") ?? "").length;
    const room = MOST_CHARACTERS - field.value.length + (field.selectionEnd - field.selectionStart);
    if (given > room) setTimeout(() => tell(told(given, room))); // after the event "input", which removes what was told
  });
}

/** As much of a text as a field takes. @param {string} text @param {(message: string) => void} tell */
export function fitting(text, tell) {
  if (text.length <= MOST_CHARACTERS) return text;
  const cut = beginningOf(text, MOST_CHARACTERS);
  setTimeout(() => tell(told(text.length, cut.length)));
  return cut;
}
