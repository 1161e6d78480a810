/**
 * What the history keeps of pages that were read together: their texts, and the files that they come from.
 *
 * @typedef {{file: number, number: number, count: number, turns: number, state: import("./page.js").State, values: import("./page.js").Values | null, error?: Page["error"], model: string | null, smaller: boolean, edited: boolean, earlier: Page["earlier"]}} KeptPage `file` is its place among the files
 * @typedef {{answer: string, score: number, turns: number, corners: number[][][], page: Page}} Answer `turns`: those of the page, whose `corners` they are
 * @typedef {{question: string, model: string, answers: Answer[]}} Asked the best answer first
 * @typedef {{question: string, model: string, answers: (Omit<Answer, "page"> & {page: number})[]}} KeptAsked `page` is its place among the pages
 */
import { UserError } from "../../shared/protocol.js";
import { beginningOf, counted } from "../../shared/words.js";
import { Page } from "./page.js";

/** @param {Page[]} pages @returns {File[]} each once */
export const filesOf = (pages) => [...new Set(pages.map(({ file }) => file))];

/** The names of stored files: those of one name must not replace each other. @param {File[]} files */
export const keptFiles = (files) => files.map((file, i) => ({ name: `${i}/${file.name}`, blob: /** @type {Blob} */ (file) }));

/** @param {Page[]} pages @param {Asked[]} asked @returns {{pages: KeptPage[], asked: KeptAsked[]}} */
export function contentOf(pages, asked) {
  const files = filesOf(pages);
  return {
    asked: asked.map((one) => ({ ...one, answers: one.answers.map((answer) => ({ ...answer, page: pages.indexOf(answer.page) })).filter(({ page }) => page >= 0) })),
    pages: pages.map(({ file, number, count, turns, state, values, error, model, smaller, edited, earlier }) => ({
      file: files.indexOf(file), number, count, turns, model, smaller, edited, earlier,
      values: state === "reading" ? null : values, state: state === "reading" ? "waiting" : state,
      error: state === "failed" ? error : null,
    })),
  };
}

/** @param {import("../../history/history-store.js").HistoryItem} item @returns {Page[]} */
export function pagesOf({ entry, content, files }) {
  const named = files.map(({ name, blob }) => ({ place: Number(name.split("/")[0]), file: new File([blob], name.slice(name.indexOf("/") + 1), { type: blob.type }) }));
  return content.pages.map((/** @type {KeptPage} */ kept) => {
    const found = named.find(({ place }) => place === kept.file);
    if (!found) throw new UserError("A picture of this entry is missing.", { where: entry.title, hint: "Add the picture again." });
    const { file: _, number, count, ...more } = kept;
    return Object.assign(new Page(found.file, number, count), more);
  });
}

/** The questions of an entry. @param {{asked?: KeptAsked[]}} content @param {Page[]} pages @returns {Asked[]} */
export const askedOf = ({ asked = [] }, pages) => asked.map((one) => ({ ...one, answers: one.answers.flatMap((answer) => (pages[answer.page] ? [{ ...answer, page: pages[answer.page] }] : [])) }));

/** @param {Page[]} pages */
export function titleOf(pages) {
  const files = filesOf(pages);
  const more = files.length > 1 ? ` and ${files.length - 1} more` : "";
  return `${files[0] ? beginningOf(files[0].name, 60) : "Pictures"}${more}`;
}

/** @param {Page[]} pages */
export function aboutOf(pages) {
  const words = pages.reduce((sum, page) => sum + page.figures().words, 0);
  return `${counted(pages.length, "page")}, ${counted(words, "word")}`;
}
