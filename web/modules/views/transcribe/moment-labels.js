/**
 * Labels of a recording's moments: a model marks when each of its labels holds, such as who speaks. Its card stands below the transcript.
 *
 * @typedef {{label: string, start: number, end: number, score: number}} Moment in seconds; `score`: the mean probability
 * @typedef {{model: string, threshold: number, labels: Moment[]}} LabelledMoments what is kept with a transcript
 */
import { Announcer } from "../../page/announcer.js";
import { byId, find, h } from "../../page/dom.js";
import { ModelCard } from "../../page/model-card.js";
import { hubRow } from "../../page/offer-row.js";
import { ProgressLine } from "../../page/progress-line.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { RunButton } from "../../page/run-button.js";
import { saveFile } from "../../page/save-file.js";
import { announcerLine, labelled, modelCard, offerList } from "../../page/view-elements.js";
import { throwIfCancelled } from "../../shared/protocol.js";
import { csvCell } from "../../shared/tables.js";
import { counted } from "../../shared/words.js";
import { clock, spoken } from "./times.js";
import { stem } from "./transcript-keeper.js";

/** Of the hub; the size is that of its 94,373,263 parameters in float32. */
const OFFERS = [{ name: "anton-l/wav2vec2-base-superb-sd", size: "378 MB", about: "which of two speakers speaks" }];

export class MomentLabels {
  /** @param {import("./transcribe-view.js").default} view */
  constructor(view) {
    this.view = view;
    this.choice = view.app.choices["label-sound"];
    this.card = build();
    view.sheet.sheet.after(this.card);
    this.slot = byId("moments-error");
    this.list = byId("moments-list");
    this.announcer = new Announcer(byId("moments-announcer"));
    this.progress = new ProgressLine(byId("moments-progress"));
    this.button = new RunButton(view.app, byId("moments-run"), this.slot, "Labelling", { ...view.app.actions, models: () => view.models.open(this.choice) });
    const model = byId("label-sound-model");
    new ModelCard(model, this.choice, view.models, this.announcer);
    find(model, ".offer-list").append(...OFFERS.map((one) => hubRow(one, this.choice, view.models)));
    const offer = () => (find(model, ".offer").hidden = this.choice.model !== null);
    for (const event of ["models", "model"]) this.choice.addEventListener(event, offer);
    this.settings = new RememberedFields("moments-settings", { threshold: byId("moments-threshold") }, { threshold: 0.5 });
    byId("moments-run").addEventListener("click", () => (this.button.running ? this.button.stop() : this.run()));
    byId("moments-save").addEventListener("click", () => this.kept && saveFile(`${stem(view.sheet.recording?.name ?? "")}.labels.csv`, csvOf(this.kept)));
    this.show();
  }

  /** What was found in the shown recording. @returns {LabelledMoments | null} */
  get kept() {
    return this.view.keeper.content?.moments ?? null;
  }

  /** Shows the card where there is a recording, and what was found in it. */
  show() {
    const { kept } = this;
    this.card.hidden = !this.view.sheet.recording;
    const labels = kept?.labels ?? [];
    byId("moments-found").hidden = !kept;
    byId("moments-made").textContent = kept ? `${labels.length ? counted(labels.length, "part") : "No label holds at any moment"}, by ${kept.model}, threshold ${kept.threshold}.` : "";
    byId("moments-save").hidden = labels.length === 0;
    this.list.replaceChildren(...labels.map((moment) => this.#row(moment)));
  }

  /** @param {Moment} moment */
  #row({ label, start, end, score }) {
    const play = () => this.view.sheet.player.playFrom(start);
    return h("li", {},
      h("button", { type: "button", class: "time", title: `Play from ${spoken(start)}`, onclick: play }, `${tenths(start)}–${tenths(end)}`),
      h("span", { class: "moment-label", dir: "auto" }, label), h("span", { class: "moment-score" }, `${Math.round(score * 100)} %`));
  }

  /** Labels the shown recording. */
  async run() {
    const { view } = this;
    await view.settle(); // the models take turns
    await this.button.run((signal) => this.#label(signal), { fail: () => this.announcer.stop(), retry: () => this.run() });
    this.progress.hide();
  }

  /** @param {AbortSignal} signal */
  async #label(signal) {
    const { view, choice } = this;
    const { keeper, engine } = view;
    const { content } = keeper;
    const { recording } = view.sheet;
    if (!recording || !content) return;
    await view.app.listed(signal);
    const { id: model, title } = choice.present;
    const { threshold } = this.settings.values;
    this.announcer.say("Labelling the recording.");
    this.progress.show("Loading the model…");
    await engine.call("label-sound.load", { model }, { signal, onEvent: (event) => event.type === "progress" && this.progress.show(`${event.what}…`, event.done, event.total) });
    throwIfCancelled(signal);
    const audio = await view.soundOf(recording, signal);
    this.progress.show("Labelling the recording…");
    /** @type {Moment[]} */
    let labels = [];
    const onEvent = (/** @type {any} */ event) => event.type === "item" && ({ labels } = event);
    await engine.call("label-sound", { model, audio, name: recording.name, options: { threshold } }, { signal, onEvent });
    throwIfCancelled(signal);
    content.moments = { model: title, threshold, labels };
    if (keeper.content !== content) return; // another recording is shown
    this.show();
    this.announcer.say(`${counted(labels.length, "part")} found.`);
    keeper.saveSoon(true);
  }
}

/** 0:07.3: moments are shorter than seconds. @param {number} seconds */
const tenths = (seconds) => `${clock(seconds)}.${Math.floor(seconds * 10) % 10}`;

/** A table of what was found. @param {LabelledMoments} moments */
export function csvOf({ labels }) {
  const rows = labels.map(({ label, start, end, score }) => [start.toFixed(2), end.toFixed(2), csvCell(label), score.toFixed(3)].join(","));
  return new Blob([["start,end,label,score", ...rows, ""].join("\n")], { type: "text/csv" });
}

function build() {
  return h("details", { class: "card settings moments", id: "moments", hidden: true },
    h("summary", { class: "card-title" }, h("h2", {}, "Labels of moments")),
    h("div", { class: "settings-fields" },
      h("p", { class: "offer-text" }, "A model says when each of its labels holds in the recording, such as who speaks. It hears up to five minutes."),
      modelCard("label-sound-model", "Model for labels", offerList("From the hub, such as this one:"), { heading: "h3", class: "model-card" }),
      labelled("Threshold", h("input", { type: "number", id: "moments-threshold", min: 0.01, max: 0.99, step: "any", inputmode: "decimal", required: true }), "The minimum probability of a label at a moment, between 0 and 1."),
      h("div", {}, h("button", { class: "primary", id: "moments-run", type: "button" }, "Find labels")),
      h("div", { class: "error-slot", id: "moments-error" }),
      h("div", { class: "progress-line", id: "moments-progress", hidden: true }),
      h("div", { id: "moments-found", hidden: true },
        h("p", { class: "offer-text", id: "moments-made" }),
        h("ol", { class: "moments-list", id: "moments-list", "aria-label": "Labels of moments" }),
        h("button", { class: "quiet", id: "moments-save", type: "button" }, "Save as CSV")),
      announcerLine("moments-announcer")));
}
