/**
 * The list of models: those in the site, and those on the hub that pyapp/registry.json names.
 *
 * @typedef {"detect" | "segment" | "cut-out" | "depth" | "classify-image" | "match-image" | "image-to-text"} LookTask what models do with pictures
 * @typedef {"generate" | "transcribe" | "chat" | "embed" | "translate" | "read" | "answer" | "speak" | "forecast" | "label-sound" | LookTask} Task `precision` is the type of the weights in the file,
 *   `network` an ONNX network beside speech models
 * @typedef {{role: string, path: string, size: number | null, sha256: string | null, repo?: string, revision?: string}} WantedFile
 * @typedef {{id: string, title: string, description: string, kind: "embedded" | "hub" | "file" | "kept",
 *   task?: Task, network?: boolean, precision?: string, prompts?: Record<string, string>, repo?: string, revision?: string, files: WantedFile[]}} Model
 */
import { fetchWhole } from "./sent.js";

export const DEFAULT_HUB = "https://huggingface.co/";

/** `networks`: repositories by what they are for. @returns {Promise<{models: Model[], networks: Record<string, string>}>} */
export function readRegistry() {
  return fetchWhole("registry.json", (response) => response.json(), { what: "The list of models", next: "reload the page", action: "reload" });
}
