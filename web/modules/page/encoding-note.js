/**
 * Text files of the user. Where the bytes do not tell the encoding: what is assumed, in a sentence with a list of others. The
 * choice is remembered: files of one person are often alike.
 */
import { ENCODINGS, decoded } from "../shared/decoded.js";
import { UserError } from "../shared/protocol.js";
import { h, memory } from "./dom.js";

const REMEMBERED = "encoding";
const [USUAL] = Object.keys(ENCODINGS);

/** The encoding in which such texts are read. */
export function assumedEncoding() {
  const name = memory.get(REMEMBERED, USUAL);
  return Object.hasOwn(ENCODINGS, name) ? name : USUAL;
}

/**
 * What is in a text file, without spaces around it.
 * @param {File} file @param {{other?: string, empty: string}} hints what to do with a file of another kind, and with one without a text
 * @returns {Promise<import("../shared/decoded.js").Decoded>}
 */
export async function readText(file, { other = "Save it as plain text, then drop it again.", empty }) {
  const found = decoded(await file.arrayBuffer(), assumedEncoding());
  if (found === null) throw new UserError("This file is not a text file.", { where: file.name, hint: other });
  const text = found.text.trim();
  if (!text) throw new UserError("There is no text in this file.", { where: file.name, hint: empty });
  return { text, assumed: found.assumed };
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
