/**
 * The settings of a generation: sliders with numbers, and the seed with its dice. They are stored for later visits.
 */
import { h, memory } from "./dom.js";

/**
 * @typedef {{name: string, label: string, min: number, max: number, step: number, initial: number, help: string}} Field
 * @type {Field[]}
 */
const MAIN = [
  { name: "max_new_tokens", label: "Length", min: 8, max: 1024, step: 8, initial: 288, help: "Maximum number of tokens (a word is one or a few tokens)." },
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, initial: 0.8, help: "0 always takes the likeliest word; higher is more surprising." },
  { name: "top_p", label: "Top-p", min: 0.05, max: 1, step: 0.05, initial: 0.9, help: "Chooses among the likeliest words whose probabilities add up to this." },
];
/** @type {Field[]} */
const MORE = [
  { name: "top_k", label: "Top-k", min: 0, max: 200, step: 1, initial: 0, help: "Only the k likeliest words; 0: no limit." },
  { name: "min_p", label: "Min-p", min: 0, max: 0.5, step: 0.01, initial: 0, help: "Only words at least this likely, beside the likeliest; 0: off." },
  { name: "repetition_penalty", label: "Repetition penalty", min: 1, max: 2, step: 0.05, initial: 1, help: "Above 1, words that have occurred become less likely." },
];
const LARGEST_SEED = 2 ** 32 - 1;

export class SettingsFields {
  /**
   * @param {HTMLElement} host
   * @param {{remembered?: string, prefix?: string, main?: Field[]}} [form] the name they are remembered under, what their
   *   ids begin with, the fields at the top
   */
  constructor(host, { remembered = "settings", prefix = "", main = MAIN } = {}) {
    this.remembered = remembered;
    this.prefix = prefix;
    this.values = memory.get(remembered, {});
    if (!Number.isInteger(this.values.seed) || this.values.seed < 0 || this.values.seed > LARGEST_SEED) delete this.values.seed;
    if (typeof this.values.keep_seed !== "boolean") delete this.values.keep_seed;
    /** By name. @type {Map<string, {number: HTMLInputElement, set: (value: number) => void, limit: (highest: number) => void, reset: () => void}>} */
    this.inputs = new Map();
    this.seed = h("input", { type: "number", id: `${prefix}seed`, min: 0, max: LARGEST_SEED, step: 1, inputmode: "numeric" });
    this.keep = h("input", { type: "checkbox", id: `${prefix}keep-seed` });
    const reset = h("button", { type: "button", class: "quiet reset", onclick: () => this.reset() }, "Reset settings");
    host.append(
      ...main.map((field) => this.#slider(field)),
      this.#seed(),
      h("details", { class: "more" }, h("summary", {}, "More"), h("div", { class: "more-fields" }, ...MORE.map((field) => this.#slider(field)), reset)),
    );
  }

  /** The options for SamplingOptions.from_dict. Draws a new seed first, if the user does not keep the seed. */
  options() {
    if (!this.keep.checked) this.rollSeed();
    const options = Object.fromEntries([...this.inputs].map(([name, { number }]) => [name, Number(number.value)]));
    return { ...options, seed: Number(this.seed.value) };
  }

  /** @param {number} longest the model's context, in tokens: a story cannot be longer */
  limitLength(longest) {
    this.inputs.get("max_new_tokens")?.limit(longest);
  }

  reset() {
    for (const { reset } of this.inputs.values()) reset();
  }

  rollSeed() {
    this.seed.value = String(crypto.getRandomValues(new Uint32Array(1))[0]);
    this.#remember("seed", Number(this.seed.value));
  }

  /** @param {string} name @param {unknown} value */
  #remember(name, value) {
    this.values[name] = value;
    memory.set(this.remembered, this.values);
  }

  /** @param {Field} field */
  #slider(field) {
    const { name, label, min, max, step, initial, help } = field;
    const bounds = { min, max, step };
    const id = this.prefix + name;
    const range = h("input", { type: "range", id: `${id}-range`, ...bounds, "aria-label": label, "aria-describedby": `${id}-help` });
    const number = h("input", { type: "number", id, "data-setting": name, ...bounds, inputmode: "decimal", required: true, "aria-describedby": `${id}-help` });
    const show = (/** @type {number} */ value) => {
      const highest = Number(range.max);
      const sound = Number.isFinite(value) ? Math.min(highest, Math.max(min, value)) : initial;
      range.value = number.value = String(Number(sound.toFixed(4)));
    };
    const set = (/** @type {number} */ value) => {
      show(value);
      this.#remember(name, Number(number.value));
    };
    const reset = () => {
      note.textContent = "";
      show(initial);
      this.#remember(name, initial); // whatever the model in use allows
    };
    const note = h("p", { class: "field-note", role: "status" });
    const tell = (/** @type {number} */ wanted) => {
      const highest = Number(range.max);
      note.textContent = Number.isNaN(wanted) ? `Not a number: ${initial} is used.` : wanted > highest ? `The maximum is ${highest}.` : wanted < min ? `The minimum is ${min}.` : "";
    };
    range.addEventListener("input", () => {
      note.textContent = "";
      set(Number(range.value));
    });
    number.addEventListener("change", () => {
      const wanted = number.value === "" ? NaN : Number(number.value);
      set(wanted);
      tell(wanted);
    });
    const limit = (/** @type {number} */ highest) => {
      range.max = number.max = String(highest);
      if (document.activeElement === number) return; // the user is typing: the number is checked when the field loses focus
      show(this.values[name] ?? initial); // the stored value is used again with a model that allows it
    };
    this.inputs.set(name, { number, set, limit, reset });
    show(this.values[name] ?? initial);
    return h("div", { class: "slider" }, h("label", { class: "field-label", for: id }, label), number, range, note, h("p", { class: "help", id: `${id}-help` }, help));
  }

  #seed() {
    this.seed.value = String(this.values.seed ?? 1);
    this.keep.checked = this.values.keep_seed ?? false;
    const note = h("p", { class: "field-note", role: "status" });
    this.seed.addEventListener("change", () => {
      note.textContent = "";
      if (this.seed.value.trim() === "") {
        this.rollSeed();
        note.textContent = "A new seed was drawn.";
        return;
      }
      const wanted = Math.trunc(Number(this.seed.value));
      const value = Math.min(LARGEST_SEED, Math.max(0, wanted || 0));
      if (value !== wanted) note.textContent = `Seeds are whole numbers from 0 to ${LARGEST_SEED}.`;
      this.seed.value = String(value);
      this.keep.checked = true; // a typed seed is kept
      this.#remember("seed", value);
      this.#remember("keep_seed", true);
    });
    this.keep.addEventListener("change", () => this.#remember("keep_seed", this.keep.checked));
    const dice = h("button", { type: "button", class: "icon-button", title: "Another seed", "aria-label": "Another seed", onclick: () => this.rollSeed() });
    dice.append(diceIcon());
    return h("div", { class: "seed-row" },
      h("label", { class: "field-label", for: this.seed.id }, "Seed"), this.seed, dice, note,
      h("label", { class: "check" }, this.keep, "Keep: the same seed writes the same text"));
  }
}

/** @param {string} tag @param {Record<string, string>} attributes */
function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function diceIcon() {
  const icon = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
  icon.append(
    svg("rect", { x: "4", y: "4", width: "16", height: "16", rx: "4" }),
    svg("path", { "stroke-width": "2.6", d: "M8.600 8.600h.01M15.400 8.600h.01M12 12h.01M8.600 15.400h.01M15.400 15.400h.01" }));
  return icon;
}
