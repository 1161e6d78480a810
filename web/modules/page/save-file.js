/**
 * Gives files to the user.
 */
import { safeName } from "../shared/file-name.js";
import { h } from "./dom.js";

const KEPT = 60000; // ms for which the browser may read the file

/** Saves a file where the browser saves downloads. @param {string} name @param {Blob} blob */
export function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: safeName(name) }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
}
