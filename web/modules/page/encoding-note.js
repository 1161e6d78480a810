/**
 * Texts of the user whose encoding the bytes do not tell: what is assumed, in a sentence with a list of others. The choice
 * is remembered: files of one person are often alike.
 */
import { ENCODINGS } from "../shared/decoded.js";
import { h, memory } from "./dom.js";

const REMEMBERED = "encoding";
const [USUAL] = Object.keys(ENCODINGS);

/** The encoding in which such texts are read. */
export function assumedEncoding() {
  const name = memory.get(REMEMBERED, USUAL);
  return Object.hasOwn(ENCODINGS, name) ? name : USUAL;
}

/**
 * The sentence and the list. @param {string[]} names of the files @param {() => unknown} change reads them again
 * @returns {HTMLElement}
 */
export function encodingNote(names, change) {
  const list = h("select", { "aria-label": "Encoding", onchange: () => {
    memory.set(REMEMBERED, list.value);
    change();
  } }, ...Object.entries(ENCODINGS).map(([name, title]) => h("option", { value: name }, title)));
  list.value = assumedEncoding();
  const which = names.length > 1 ? `${names.length.toLocaleString("en")} files are` : `${names[0]} is`;
  return h("label", { class: "encoding-note" }, `${which} not in UTF-8. ${names.length > 1 ? "They were" : "It was"} read as `, list, " If letters are wrong, choose another encoding.");
}
