/**
 * The tasks that other pages run: for each the request of the worker that loads a model, the one that runs it, with what
 * becomes of its input and its options, and what becomes of its events.
 *
 * @typedef {import("../shared/protocol.js").DoneEvent} DoneEvent
 * @typedef {import("../shared/registry.js").Task} Task
 * @typedef {import("../shared/registry.js").LookTask} LookTask
 * @typedef {import("./inputs.js").Picture} Picture
 * @typedef {import("./inputs.js").Message} Message
 * @typedef {import("../views/read/page.js").Values} Page what was read in a picture
 * @typedef {import("../views/pictures/looks.js").Values} Look what was seen in a picture
 * @typedef {{text: string, segments: Omit<import("../shared/protocol.js").SegmentEvent, "type">[], language: string | null, reason: string}} Transcript
 * @typedef {{
 *   generate: {input: string, result: {text: string, texts: string[], reason: string}},
 *   chat: {input: string | Message[], result: {text: string, texts: string[], thought: string, reason: string}},
 *   transcribe: {input: Blob | Float32Array, result: Transcript},
 *   embed: {input: string | string[], result: Float32Array[]},
 *   translate: {input: string, result: {text: string, reason: string}},
 *   speak: {input: string, result: {samples: Int16Array, rate: number, reason: string}},
 *   read: {input: Picture, result: Page},
 *   answer: {input: {question: string, page: Page, picture?: Picture}, result: {answer: string, score: number, corners: number[][][]}[]},
 *   forecast: {input: number[] | Record<string, number[]>, result: {name: string, forecast: number[], quantiles: Record<string, number[]>}[]}} & Record<"label-sound", {input: Blob | Float32Array, result: {label: string, start: number, end: number, score: number}[]}>
 *   & Record<LookTask, {input: Picture, result: Look}>} Tasks by their names: what a model is given, and what it gives
 * @typedef {{load: string, run: string, params: (input: any, options: any, signal: AbortSignal) => object | Promise<object>,
 *   event?: (event: any) => any, result: (events: any[], done: DoneEvent) => any}} Kind `event`: what becomes of an event
 */
import { samplesOf } from "../audio/sound-queue.js";
import { conversationIn, pixelsIn, soundIn, textIn } from "./inputs.js";

/** The texts of the events of a type. @param {any[]} events @param {string} wanted */
const textOf = (events, wanted) => events.flatMap(({ type, text }) => (type === wanted ? [text] : [])).join("");

/** The texts of samples, by their number. @param {any[]} events @returns {string[]} */
function samplesIn(events) {
  const texts = [""];
  for (const { type, text, sample = 0 } of events) if (type === "token") texts[sample] = (texts[sample] ?? "") + text;
  return texts;
}

/** @param {any[]} events @param {DoneEvent} done */
function storyOf(events, { reason = "complete" }) {
  const texts = samplesIn(events);
  return { text: texts[0], texts, reason };
}

/** The values of items, by their index. @param {any[]} events */
function itemsOf(events) {
  /** @type {any[]} */
  const items = [];
  for (const { type, index, ...values } of events) if (type === "item") items[index] = values;
  return items;
}

/** float32 numbers in base64. @param {string} text */
const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/** @param {any[]} events @param {DoneEvent} done @returns {Transcript} */
function transcriptOf(events, { reason = "complete" }) {
  const segments = events.filter(({ type }) => type === "segment").map(({ type: _, ...segment }) => segment);
  const language = events.find(({ type }) => type === "language")?.code ?? null;
  return { text: segments.map(({ text }) => text).join("").trim(), segments, language, reason };
}

/** @param {any[]} events @param {DoneEvent} done */
function soundOf(events, { reason = "complete" }) {
  const sounds = events.filter(({ type }) => type === "sound");
  const samples = new Int16Array(sounds.reduce((sum, sound) => sum + sound.samples.length, 0));
  let filled = 0;
  for (const sound of sounds) {
    samples.set(sound.samples, filled);
    filled += sound.samples.length;
  }
  return { samples, rate: sounds[0]?.rate ?? 0, reason };
}

/** A task about one picture. @param {LookTask} task @returns {Kind} */
const look = (task) => ({
  load: "look.load",
  run: "look",
  params: async (picture, options) => ({ task, ...(await pixelsIn(picture)), options }),
  result: (events) => itemsOf(events)[0],
});

/** @type {Record<Task, Kind>} */
export const TASKS = {
  generate: {
    load: "load",
    run: "generate",
    params: (prompt, options) => ({ prompt: textIn(prompt), options }),
    result: storyOf,
  },
  chat: {
    load: "chat.load",
    run: "chat",
    params: async (input, options) => ({ ...(await conversationIn(input)), options }),
    result: (events, done) => ({ ...storyOf(events, done), thought: textOf(events, "thought") }),
  },
  transcribe: {
    load: "speech.load",
    run: "transcribe",
    params: async (sound, { vad = null, speaker_model = null, ...options }, signal) => ({ ...(await soundIn(sound, signal)), vad, speaker_model, options }),
    result: transcriptOf,
  },
  "label-sound": {
    load: "label-sound.load",
    run: "label-sound",
    params: async (sound, options, signal) => ({ ...(await soundIn(sound, signal)), options }),
    result: (events) => itemsOf(events)[0]?.labels ?? [],
  },
  embed: {
    load: "search.load",
    run: "search.embed",
    params: (texts, options) => ({ arguments: [[texts].flat().map(textIn)], options }),
    event: (event) => (event.type === "item" ? { ...event, embedding: floats(event.embedding) } : event),
    result: (events) => itemsOf(events).map(({ embedding }) => embedding),
  },
  translate: {
    load: "translate.load",
    run: "translate",
    params: (text, options) => ({ text: textIn(text), options }),
    result: (events, { reason = "complete" }) => ({ text: textOf(events, "item"), reason }),
  },
  speak: {
    load: "speak.load",
    run: "speak",
    params: (text, options) => ({ text: textIn(text), options }),
    event: ({ pcm, ...event }) => (event.type === "sound" ? { ...event, samples: samplesOf(pcm) } : event),
    result: soundOf,
  },
  read: {
    load: "read.load",
    run: "read",
    params: async (picture, options) => ({ ...(await pixelsIn(picture)), options }),
    result: (events) => itemsOf(events)[0],
  },
  answer: {
    load: "answer.load",
    run: "answer",
    params: async ({ question, page, picture }, options) => ({ question, page, options, ...(picture && (await pixelsIn(picture))) }),
    result: (events) => itemsOf(events)[0]?.answers ?? [],
  },
  forecast: {
    load: "forecast.load",
    run: "forecast",
    params: (series, options) => ({ series, options }),
    result: itemsOf,
  },
  detect: look("detect"),
  segment: look("segment"),
  "cut-out": look("cut-out"),
  depth: look("depth"),
  "classify-image": look("classify-image"),
  "match-image": look("match-image"),
  "image-to-text": look("image-to-text"),
};

/** Transcribes sound while it comes. @type {Kind} */
export const LISTEN = { load: TASKS.transcribe.load, run: "listen", params: (_, options) => ({ options }), result: transcriptOf };
