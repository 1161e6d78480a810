/**
 * The settings of a transcription: language, task, timestamps, speakers. They are stored for later visits.
 */
import { h, memory } from "../../page/dom.js";

const TASKS = [["transcribe", "Transcribe"], ["translate", "Into English"]];
const TIMES = [["segments", "Segments"], ["words", "Words"]];
const SEARCHES = [
  ["auto", "As fits the model"], ["1", "Fast: the likeliest word each time"], ["5", "Thorough: a search with 5 hypotheses, slower"],
];
const SPEAKERS = [["", "Do not tell apart"], ["auto", "As many as are heard"], ...["2", "3", "4", "5", "6", "8", "10"].map((count) => [count, count])];
/** Size of a model, in bytes, for which a beam of five takes a fifth longer than one hypothesis. */
const SMALL = 8 << 20;

export class SpeechSettings {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.values = { language: "", task: "transcribe", times: "words", search: "auto", prompt: "", silence: true, silero: false, speakers: "", network: "", ...memory.get("speech-settings", {}) };
    this.language = this.#select("language", [], "language");
    this.tasks = this.#choice("task", "Task", TASKS, "task");
    this.silence = this.#check("silence", "Leave out silence", "skip_silence");
    this.prompt = h("input", { type: "text", id: "speech-prompt", dir: "auto", "data-setting": "initial_prompt", maxlength: 400, "aria-describedby": "speech-prompt-help" });
    this.prompt.value = this.values.prompt;
    this.prompt.addEventListener("change", () => this.#set("prompt", this.prompt.value));
    this.silero = this.#check("silero", "Find speech with Silero's network (2 MB, downloaded once)", "vad");
    this.speakers = this.#select("speakers", SPEAKERS, "speakers");
    this.network = this.#network();
    host.append(
      field("Language", this.language),
      this.tasks.element,
      this.#choice("times", "Times", TIMES, "word_timestamps").element,
      h("details", { class: "more" }, h("summary", {}, "More"), h("div", { class: "more-fields" },
        field("Search", this.#select("search", SEARCHES, "beam_size")),
        field("Words to expect", this.prompt, "Names and terms in the recording, or the text before it."),
        this.silence,
        this.silero,
        field("Speakers", this.speakers),
        this.network)),
    );
    this.showLanguages([], true);
  }

  /**
   * The options for TranscribeOptions.from_dict.
   * @param {import("../../page/model-choice.js").ListedModel | null} model
   * @param {{live?: boolean}} how live sound is decoded again and again, so each time with one hypothesis only
   */
  options(model, { live = false } = {}) {
    const { task, times, search, prompt, silence, speakers } = this.values;
    const small = !live && model !== null && model.bytes > 0 && model.bytes <= SMALL;
    const ways = search === "auto" ? (small ? 5 : 1) : Number(search);
    return {
      task: this.translates ? task : "transcribe",
      language: this.language.value || null,
      word_timestamps: times === "words",
      beam_size: ways > 1 ? ways : null,
      initial_prompt: prompt.trim() || null,
      skip_silence: silence,
      speakers: live || !speakers ? null : speakers,
    };
  }

  /** The networks beside the model, for a whole recording: names, files of the user, or null. */
  get networks() {
    const { silero, speakers, network } = this.values;
    return { vad: silero ? "silero" : null, speaker_model: speakers ? this.file ?? (network.trim() || "speakers") : null };
  }

  /** The field for the network for speakers: a name on the hub, or a file of the user for this visit. */
  #network() {
    /** @type {File | null} */
    this.file = null;
    const name = h("input", { type: "text", id: "speech-network", "data-setting": "speaker_model", maxlength: 300, placeholder: "WeSpeaker ResNet34 (26 MB, downloaded once)", autocapitalize: "off", spellcheck: "false", "aria-describedby": "speech-network-help" });
    const picker = h("input", { type: "file", id: "pick-network", class: "visually-hidden", tabindex: "-1", accept: ".onnx", "aria-label": "File of a network for speakers" });
    const pick = h("button", { type: "button", class: "secondary", onclick: () => picker.click() }, "Choose a file");
    name.value = this.values.network;
    name.addEventListener("input", () => {
      this.file = null;
      this.#set("network", name.value);
    });
    picker.addEventListener("change", () => {
      const [file] = picker.files ?? [];
      picker.value = "";
      if (!file) return;
      [this.file, name.value] = [file, file.name];
    });
    const element = field("Network for speakers", name, "Another ONNX network: owner/name of the hub, or a file.");
    element.append(h("div", {}, pick, picker));
    element.hidden = !this.values.speakers;
    this.speakers.addEventListener("change", () => (element.hidden = !this.speakers.value));
    return element;
  }

  /**
   * Sets the abilities of the current model.
   * @param {string[]} codes of its languages; empty while they are unknown
   * @param {boolean} translates
   */
  showLanguages(codes, translates) {
    const names = new Intl.DisplayNames(undefined, { type: "language" });
    const options = codes.map((code) => [code, nameOf(names, code)]).sort((a, b) => a[1].localeCompare(b[1]));
    if (codes.length !== 1) options.unshift(["", "Detect from the recording"]);
    this.language.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    this.language.disabled = codes.length === 1;
    this.language.value = codes.includes(this.values.language) ? this.values.language : options[0][0];
    this.translates = translates;
    this.tasks.setDisabled(!translates);
  }

  /** @param {string} name @param {unknown} value */
  #set(name, value) {
    this.values[name] = value;
    memory.set("speech-settings", this.values);
  }

  /**
   * @param {string} name in the stored values @param {string[][]} options their values and texts
   * @param {string} setting the engine's name for it, by which errors find the field
   */
  #select(name, options, setting) {
    const select = h("select", { id: `speech-${name}`, "data-setting": setting }, ...options.map(([value, text]) => h("option", { value }, text)));
    select.value = this.values[name];
    select.addEventListener("change", () => this.#set(name, select.value));
    return select;
  }

  /** Two fields in one row. @param {string} name @param {string} label @param {string[][]} options @param {string} setting */
  #choice(name, label, options, setting) {
    const inputs = options.map(([value]) => {
      const input = h("input", { type: "radio", name: `speech-${name}`, value, checked: this.values[name] === value });
      input.addEventListener("change", () => this.#set(name, value));
      return input;
    });
    const labels = options.map(([, text], i) => h("label", {}, inputs[i], h("span", {}, text)));
    const element = h("fieldset", { class: "choice", "data-setting": setting }, h("legend", { class: "field-label" }, label), h("div", { class: "choice-row" }, ...labels));
    const setDisabled = (/** @type {boolean} */ disabled) => {
      element.disabled = disabled;
      inputs[0].checked = disabled || this.values[name] === options[0][0];
      inputs[1].checked = !inputs[0].checked;
    };
    return { element, setDisabled };
  }

  /** @param {string} name @param {string} label @param {string} setting */
  #check(name, label, setting) {
    const input = h("input", { type: "checkbox", id: `speech-${name}`, "data-setting": setting, checked: this.values[name] });
    input.addEventListener("change", () => this.#set(name, input.checked));
    return h("label", { class: "check" }, input, label);
  }
}

/** @param {string} label @param {HTMLElement} control @param {string} [help] */
function field(label, control, help) {
  const parts = [h("label", { class: "field-label", for: control.id }, label), control];
  if (help) parts.push(h("p", { class: "help", id: `${control.id}-help` }, help));
  return h("div", { class: "field" }, ...parts);
}

/**
 * The name of a language in the user's language. Browsers do not have names for a few of Whisper's codes.
 * @param {Intl.DisplayNames} names @param {string} code
 */
function nameOf(names, code) {
  try {
    return names.of(code) ?? code;
  } catch {
    return code;
  }
}
