/**
 * The sheet of the story view: the text, which is updated once per frame, its figures, and how it ended.
 */
import { Announcer } from "../../page/announcer.js";
import { byId } from "../../page/dom.js";
import { ProgressLine } from "../../page/progress-line.js";

const ENDINGS = {
  stop: "The story is finished.",
  length: "Stopped at the length that you set.",
  context: "Stopped at the model's maximum length.",
  stop_string: "Stopped at a stop text.",
  cancelled: "You stopped it here.",
};
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

export class StoryOutput {
  constructor() {
    this.sheet = byId("sheet");
    this.announcer = new Announcer(byId("announcer"));
    /** @type {number[]} the token ids in order; tests compare them */
    this.ids = [];
    this.pending = "";
    this.frame = 0;
    this.progress = new ProgressLine(byId("story-progress"));
  }

  /** @param {string} prompt @param {number} seed */
  begin(prompt, seed) {
    this.started = performance.now();
    this.firstToken = null;
    this.ids = [];
    this.pending = "";
    this.sheet.dataset.state = "waiting";
    byId("story-prompt").textContent = prompt;
    byId("story-output").textContent = "";
    byId("sheet-empty").hidden = true;
    byId("story-text").hidden = false;
    byId("sheet-foot").hidden = true;
    byId("ending").textContent = "";
    byId("metric-seed").textContent = String(seed);
    for (const name of ["speed", "first"]) byId(`metric-${name}`).textContent = "–";
    this.announcer.say("Writing the story.");
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

  #draw() {
    this.frame = 0;
    const output = byId("story-output");
    if (this.pending) {
      output.append(this.pending);
      this.announcer.add(this.pending);
      this.pending = "";
    }
    byId("metric-tokens").textContent = whole.format(this.ids.length);
    const seconds = (performance.now() - this.firstToken) / 1000;
    if (seconds > 0.2 && !this.measured) this.#speed((this.ids.length - 1) / seconds);
  }

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

  /** @param {string} reason @param {number} [tokens] */
  end(reason, tokens = this.ids.length) {
    cancelAnimationFrame(this.frame);
    if (this.firstToken !== null) this.#draw();
    this.measured = false;
    this.progress.hide();
    this.sheet.dataset.state = this.firstToken === null && reason !== "stop" ? "empty" : "done";
    byId("sheet-foot").hidden = this.firstToken === null;
    byId("metric-tokens").textContent = whole.format(tokens);
    byId("ending").textContent = ENDINGS[reason] ?? "";
    const words = byId("story-output").textContent.split(/\s+/).filter(Boolean).length;
    this.announcer.say(`${ENDINGS[reason] ?? "The end."} ${words} words.`);
  }

  /** Shows that the generation failed. */
  fail() {
    cancelAnimationFrame(this.frame);
    if (this.firstToken !== null) this.#draw();
    this.progress.hide();
    this.announcer.stop();
    this.sheet.dataset.state = this.firstToken === null ? "empty" : "done";
    if (this.firstToken !== null) return;
    byId("story-text").hidden = true;
    byId("sheet-empty").hidden = false;
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
