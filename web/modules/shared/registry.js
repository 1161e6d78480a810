/**
 * The list of models: those in the site, and those on the hub that pyapp/registry.json names.
 */
import { UserError } from "./protocol.js";
import { siteUrl } from "./site.js";

export const DEFAULT_HUB = "https://huggingface.co/";

/** @returns {Promise<{models: import("../worker/model-files.js").Model[]}>} */
export async function readRegistry() {
  const response = await fetch(siteUrl("registry.json"));
  if (!response.ok) throw new UserError("The list of models is missing on the server.", { where: "registry.json" });
  return response.json();
}
