/**
 * The samples: files of the site that the views offer to a visitor who has none at hand.
 */
import { fetchWhole } from "../shared/sent.js";
import { h } from "./dom.js";

/** A button that tries a sample; a double click tries it once. @param {{title: string}} sample @param {() => unknown} run */
export const sampleButton = ({ title }, run) =>
  h("button", { type: "button", class: "chip", onclick: (/** @type {MouseEvent} */ { detail }) => detail < 2 && run() }, title);

/** @param {string} path relative to index.html @param {string} type @returns {Promise<File>} */
export async function fetchSample(path, type) {
  const blob = await fetchWhole(path, (response) => response.blob(), { what: "The sample", action: "retry" });
  return new File([blob], path.slice(path.lastIndexOf("/") + 1), { type });
}
