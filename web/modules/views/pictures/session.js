/**
 * What the history keeps of a picture: its file, and what was found in it.
 *
 * @typedef {import("./looks.js").LookTask} LookTask
 * @typedef {import("./looks.js").Result} Result
 * @typedef {import("./looks.js").Point} Point
 * @typedef {{task: LookTask, results: Result[], points: Point[], words: string}} Kept `task`: what was shown
 */
import { UserError } from "../../shared/protocol.js";
import { LOOKS, lookOf, summaryOf } from "./looks.js";

/** @param {import("../../history/history-store.js").HistoryItem} item @returns {Kept & {file: File}} */
export function keptOf({ entry, content, files }) {
  const [picture] = files;
  if (!picture) throw new UserError("The picture of this entry is missing.", { where: entry.title, hint: "Add the picture again." });
  const results = (content.results ?? []).filter((/** @type {Result} */ { task }) => LOOKS.some((look) => look.task === task));
  const file = new File([picture.blob], picture.name, { type: picture.blob.type });
  return { file, task: lookOf(content.task).task, results, points: content.points ?? [], words: String(content.words ?? "") };
}

/** A line on what was found. @param {Iterable<Result>} results @param {number} threshold */
export const aboutOf = (results, threshold) => [...results].map((result) => summaryOf(result, threshold)).join(" · ").slice(0, 120);

/** Results as a JSON file. @param {string} name of the picture @param {Result[]} results */
export function jsonOf(name, results) {
  const found = results.map(({ task, model, points, values }) => ({ task, model, ...(points ? { points: points.map(({ x, y }) => [x, y]), point_labels: points.map(({ label }) => label) } : {}), ...values }));
  return `${JSON.stringify({ format: "pyapp.picture", picture: name, results: found }, null, 1)}\n`;
}
