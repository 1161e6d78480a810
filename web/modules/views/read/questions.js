/**
 * Questions about the pages that were read: a model finds the words that answer, which the picture shows.
 *
 * @typedef {import("./page.js").Page} Page
 * @typedef {import("./session.js").Asked} Asked
 * @typedef {import("./session.js").Answer} Answer
 */
import { throwIfCancelled } from "../../shared/protocol.js";
import { byId, find, h } from "../../page/dom.js";
import { ModelCard } from "../../page/model-card.js";
import { hubRow } from "../../page/offer-row.js";
import { RunButton } from "../../page/run-button.js";
import { pixelsOf } from "../../pictures/decoded-picture.js";

const MOST = 3; // answers to a question
const LEAST = 0.05; // the score of a further answer
/** Models of the hub; their sizes are those of 127,792,898 and 81,529,346 parameters in float32. */
const OFFERS = [
  { name: "impira/layoutlm-document-qa", size: "511 MB", about: "sees where words stand" },
  { name: "deepset/tinyroberta-squad2", size: "326 MB", about: "reads the text alone" },
];

export class Questions {
  /** @param {import("./read-view.js").default} view */
  constructor(view) {
    this.view = view;
    this.choice = view.app.choices.answer;
    /** @type {Asked[]} the last one first */
    this.asked = [];
    this.field = byId("read-question");
    this.list = byId("read-asked");
    this.actions = { ...view.actions, models: () => view.models.open(this.choice) };
    this.button = new RunButton(view.app, byId("read-ask"), view.slot, "Answering", this.actions);
    this.card = byId("answer-model");
    new ModelCard(this.card, this.choice, view.models, view.announcer);
    find(this.card, ".offer-list").append(...OFFERS.map((model) => hubRow(model, this.choice, view.models)));
    const offer = () => (find(this.card, ".offer").hidden = this.choice.model !== null);
    this.choice.addEventListener("models", offer);
    this.choice.addEventListener("model", offer);
    this.choice.dispatchEvent(new CustomEvent("model"));
    const form = byId("read-question-form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.pressed();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.stopPropagation(); // which reads pages elsewhere in the view
      event.preventDefault();
      if (!event.repeat && !this.button.running) this.pressed();
    });
  }

  /** The pages that can be asked about. */
  get pages() {
    return this.view.pages.filter(({ read }) => read);
  }

  /** Shows the field where there is a page to ask about, and the answers to what was asked. */
  show() {
    const { pages } = this;
    byId("read-questions").hidden = this.card.hidden = pages.length === 0;
    byId("read-question-label").textContent = pages.length > 1 ? `Ask about these ${pages.length} pages` : "Ask about this page";
    this.list.hidden = this.asked.length === 0;
    this.list.replaceChildren(...this.asked.map((one) => this.#row(one)));
  }

  /** @param {Asked[]} asked */
  set(asked) {
    this.asked = asked;
    this.field.value = "";
    this.show();
  }

  /** @param {Asked} asked */
  #row({ question, model, answers }) {
    const shown = answers.filter(({ page }) => this.view.pages.includes(page));
    return h("li", {},
      h("p", { class: "read-asked-question", dir: "auto", title: `By ${model}` }, question),
      ...(shown.length ? shown.map((answer) => this.#answer(answer)) : [h("p", { class: "read-hint" }, "There is no answer.")]));
  }

  /** @param {Answer} answer */
  #answer(answer) {
    const place = this.view.pages.length > 1 ? ` · ${answer.page.name}` : "";
    return h("button", { type: "button", class: "read-answer", title: "Show it in the picture", onclick: () => this.point(answer).then(() => this.view.picture.box.scrollIntoView({ block: "nearest" })) },
      h("span", { class: "read-answer-text", dir: "auto" }, answer.answer), h("span", { class: "read-answer-sure" }, `${Math.round(answer.score * 100)} %${place}`));
  }

  /** Shows where an answer stands. @param {Answer} answer */
  async point({ page, turns, corners }) {
    if (this.view.page !== page) await this.view.choose(page);
    if (this.view.page === page && page.turns === turns) this.view.picture.markWords(corners);
  }

  pressed() {
    if (this.button.running) return this.button.stop();
    const question = this.field.value.trim();
    if (!question) return this.field.focus();
    return this.ask(question);
  }

  /** @param {string} question */
  async ask(question) {
    const { view } = this;
    await view.button.interrupt(); // the models take turns
    await this.button.run(async (signal) => {
      view.announcer.say("Looking for an answer.");
      const { session } = view;
      const asked = await this.#answers(question, signal);
      if (view.session !== session) return; // other pages are shown
      this.asked.unshift(asked);
      this.field.value = "";
      this.show();
      const [best] = asked.answers;
      if (best) await this.point(best);
      view.announcer.say(best ? `${best.answer}, ${Math.round(best.score * 100)} percent sure.` : "There is no answer.");
    }, { fail: () => {}, retry: () => this.ask(question) });
    view.progress.hide();
    await view.keep();
  }

  /** @param {string} question @param {AbortSignal} signal @returns {Promise<Asked>} */
  async #answers(question, signal) {
    const { engine, progress, app } = this.view;
    await app.listed(signal);
    const { id: model, title } = this.choice.present;
    const onProgress = (/** @type {any} */ event) => event.type === "progress" && progress.show(event.what, event.done, event.total);
    progress.show("Loading the model…");
    const { sees } = await engine.call("answer.load", { model }, { signal, onEvent: onProgress });
    throwIfCancelled(signal);
    /** @type {Answer[]} */
    const answers = [];
    const { pages } = this;
    for (const [i, page] of pages.entries()) {
      progress.show(pages.length > 1 ? `Page ${i + 1} of ${pages.length}: looking for an answer` : "Looking for an answer…", i, pages.length > 1 ? pages.length : null);
      const picture = sees ? await this.#picture(page, signal) : {};
      const { turns } = page;
      const onEvent = (/** @type {any} */ event) => {
        for (const { answer, score, corners } of event.answers ?? []) answers.push({ answer, score, corners, turns, page });
      };
      await engine.call("answer", { model, question, page: page.values, options: { top: MOST }, ...picture }, { signal, onEvent });
      throwIfCancelled(signal);
    }
    answers.sort((a, b) => b.score - a.score);
    return { question, model: title, answers: answers.filter(({ score }, i) => i === 0 || (i < MOST && score >= LEAST)) };
  }

  /** The pixels of a page. @param {Page} page @param {AbortSignal} signal */
  async #picture(page, signal) {
    const canvas = this.view.page === page && this.view.canvas ? this.view.canvas : await this.view.draw(page, signal);
    return { pixels: pixelsOf(canvas, page.file.name).data, height: canvas.height, width: canvas.width };
  }
}
