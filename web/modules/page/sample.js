/**
 * The samples: files of the site that the views offer to a visitor who has none at hand.
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { h } from "./dom.js";

/** A button that tries a sample; a double click tries it once. @param {{title: string}} sample @param {() => unknown} run */
export const sampleButton = ({ title }, run) =>
  h("button", { type: "button", class: "chip", onclick: (/** @type {MouseEvent} */ { detail }) => detail < 2 && run() }, title);

/** @param {string} path relative to index.html @param {string} type @returns {Promise<File>} */
export async function fetchSample(path, type) {
  const response = await fetch(siteUrl(path)).catch(/** @returns {null} */ () => null);
  if (!response) throw new UserError("The sample could not be loaded.", { where: path, hint: "Check your connection, then try again.", action: "retry" });
  if (!response.ok) throw new UserError(`The sample is missing on the server (status ${response.status}).`, { where: path });
  return new File([await response.blob()], path.slice(path.lastIndexOf("/") + 1), { type });
}
