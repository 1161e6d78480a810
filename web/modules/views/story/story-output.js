/**
 * The sheet of the story view: the text, which is updated once per frame, its figures, and how it ended.
 */
import { Announcer } from "../../page/announcer.js";
import { byId, h } from "../../page/dom.js";
import { ProgressLine } from "../../page/progress-line.js";

/** By the reason of the end. @type {Record<string, string>} */
const ENDINGS = {
  stop: "The story is finished.",
  length: "Stopped at the length that you set.",
  context: "Stopped at the model's maximum length.",
  stop_string: "Stopped at a stop text.",
  cancelled: "You stopped it here.",
};
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Characters that set the direction of what follows them. */
const TURNS = /[\u202a-\u202e\u2066-\u2068]/;

export class StoryOutput {
  constructor() {
    this.sheet = byId("sheet");
    this.announcer = new Announcer(byId("announcer"));
    /** @type {number[]} the token ids in order; tests compare them */
    this.ids = [];
    /** How many tokens were written at an earlier visit. */
    this.earlier = 0;
    /** How many ids there were when the shown text began. */
    this.before = 0;
    /** When the first token came. @type {number | null} */
    this.firstToken = null;
    this.pending = "";
    /** The text behind it, of a model that writes all places at once; it is not kept. */
    this.drafted = "";
    this.frame = 0;
    this.progress = new ProgressLine(byId("story-progress"));
  }

  /** @param {string} prompt @param {number} seed @param {boolean} [further] the text goes on behind what is there */
  begin(prompt, seed, further = false) {
    this.firstToken = null;
    this.pending = this.drafted = "";
    this.#drawDraft();
    this.sheet.dataset.state = "waiting";
    if (!further) {
      this.ids = [];
      this.earlier = 0;
      byId("story-prompt").textContent = prompt;
      byId("story-prompt").classList.toggle("apart", TURNS.test(prompt));
      byId("story-output").textContent = "";
    }
    this.before = this.ids.length;
    byId("sheet-empty").hidden = true;
    byId("story-text").hidden = false;
    byId("sheet-foot").hidden = true;
    byId("ending").textContent = "";
    byId("metric-seed").textContent = String(seed);
    for (const name of ["speed", "first"]) byId(`metric-${name}`).textContent = "–";
    this.announcer.say("Writing the story.");
  }

  /** Shows a story that was written before. @param {{prompt: string, text: string, seed: number, reason: string, tokens: number}} story */
  show({ prompt, text, seed, reason, tokens }) {
    this.begin(prompt, seed);
    this.announcer.say("");
    byId("story-output").textContent = text;
    this.#done();
    this.earlier = tokens;
    byId("metric-tokens").textContent = whole.format(tokens);
    this.#ending(reason);
  }

  /** Shows no story. */
  clear() {
    byId("story-prompt").textContent = byId("story-output").textContent = "";
    this.#empty();
  }

  #empty() {
    this.sheet.dataset.state = "empty";
    byId("story-text").hidden = byId("sheet-foot").hidden = true;
    byId("sheet-empty").hidden = false;
  }

  /** @param {string} reason */
  #ending(reason) {
    byId("ending").textContent = ENDINGS[reason] ?? "";
    byId("go-on").hidden = reason === "stop";
  }

  /** @param {import("../../shared/protocol.js").TokenEvent} event */
  token({ text, id }) {
    if (this.firstToken === null) {
      this.firstToken = performance.now();
      this.sheet.dataset.state = "writing";
      byId("sheet-foot").hidden = false;
      this.progress.hide();
    }
    if (id !== undefined && id !== null) this.ids.push(id);
    this.pending += text;
    this.frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** What is behind the last token for now. @param {import("../../shared/protocol.js").DraftEvent} event */
  draft({ text }) {
    this.sheet.dataset.state = "writing";
    this.progress.hide();
    this.drafted = text;
    this.frame ||= requestAnimationFrame(() => this.#draw());
  }

  #drawDraft() {
    const parts = this.drafted.split(/(\u2592+)/).filter(Boolean); // runs of places that are not known yet
    byId("story-draft").replaceChildren(...parts.map((part) => part.startsWith("\u2592") ? h("span", { class: "unknown" }, part) : part));
  }

  #draw() {
    this.frame = 0;
    this.#drawDraft();
    const output = byId("story-output");
    if (this.pending) {
      output.append(this.pending);
      this.announcer.add(this.pending);
      this.pending = "";
    }
    byId("metric-tokens").textContent = whole.format(this.tokens);
    const seconds = this.firstToken === null ? 0 : (performance.now() - this.firstToken) / 1000;
    if (seconds > 0.2 && !this.measured) this.#speed((this.ids.length - this.before - 1) / seconds);
  }

  #drawLast() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.drafted = "";
    this.#drawDraft();
    if (this.firstToken !== null) this.#draw();
  }

  /** @param {number} perSecond */
  #speed(perSecond) {
    byId("metric-speed").textContent = perSecond < 10 ? perSecond.toFixed(1) : whole.format(perSecond);
  }

  /** @param {import("../../shared/protocol.js").MetricEvent} event */
  metric({ name, value }) {
    if (name === "decode_speed") {
      this.measured = true;
      this.#speed(value);
    }
    if (name === "time_to_first_token") byId("metric-first").textContent = duration(value);
  }

  /** @param {string} reason */
  end(reason) {
    this.#drawLast();
    this.measured = false;
    this.progress.hide();
    if (this.firstToken === null && !this.written && reason === "cancelled") this.#empty();
    else this.#done();
    byId("metric-tokens").textContent = whole.format(this.tokens);
    this.#ending(reason);
    const words = byId("story-output").textContent.split(/\s+/).filter(Boolean).length;
    this.announcer.say(`${ENDINGS[reason] ?? "The end."} ${words} words.`);
  }

  /** Shows that the generation failed. */
  fail() {
    this.#drawLast();
    this.progress.hide();
    this.announcer.stop();
    if (this.firstToken === null && !this.written) this.#empty();
    else this.#done();
  }

  #done() {
    this.sheet.dataset.state = "done";
    byId("sheet-foot").hidden = false;
  }

  /** What was written, without the prompt. */
  get written() {
    return byId("story-output").textContent + this.pending;
  }

  /** How many tokens were written. */
  get tokens() {
    return this.earlier + this.ids.length;
  }

  get text() {
    return byId("story-prompt").textContent + byId("story-output").textContent;
  }
}

/** @param {number} seconds */
function duration(seconds) {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}
