/**
 * Saves the transcript as TXT, SRT, VTT or JSON, and the sound. The engine writes the text files, from the edited text.
 */
import { byId, h } from "../../page/dom.js";
import { UserError } from "../../shared/protocol.js";
import { showError } from "../../page/errors.js";
import { saveFile } from "../../page/save-file.js";
import { stem } from "./transcript-keeper.js";

const FORMATS = [
  { format: "txt", label: "TXT", title: "Plain text", type: "text/plain" },
  { format: "srt", label: "SRT", title: "Subtitles, SubRip", type: "application/x-subrip" },
  { format: "vtt", label: "VTT", title: "Subtitles, WebVTT", type: "text/vtt" },
  { format: "json", label: "JSON", title: "Everything, JSON", type: "application/json" },
];

/**
 * @typedef {{name: string, segments: object[], language: string | null, duration: number, task: string, guess: number | null}} Contents
 */

/** @param {import("../../page/engine.js").Engine} engine @param {Contents} contents @param {{format: string, type: string}} kind @returns {Promise<File>} */
async function written(engine, { name, ...transcript }, { format, type }) {
  const { text } = await engine.call("export", { ...transcript, format });
  return new File([text], `${stem(name)}.${format}`, { type: `${type};charset=utf-8` });
}

/** The transcript in all formats. @param {import("../../page/engine.js").Engine} engine @param {Contents} contents @returns {Promise<File[]>} */
export async function allFormats(engine, contents) {
  const files = [];
  for (const kind of FORMATS) files.push(await written(engine, contents, kind));
  return files;
}

/**
 * @param {import("../../page/app.js").App} app
 * @param {HTMLElement} host
 * @param {() => Contents} contents
 * @param {() => File | null} sound
 */
export function setUpDownloads(app, host, contents, sound) {
  const save = async (/** @type {() => File | Promise<File>} */ getFile) => {
    try {
      const file = await getFile();
      saveFile(file.name, file);
    } catch (error) {
      showError(byId("transcribe-error"), error, { ...app.actions, retry: () => save(getFile) });
    }
  };
  host.append(...FORMATS.map((kind) =>
    h("button", { type: "button", title: kind.title, "data-format": kind.format, onclick: () => save(() => written(app.engine, contents(), kind)) }, kind.label)));
  host.append(h("button", { type: "button", title: "The recording itself", "data-format": "sound", onclick: () => save(() => {
    const file = sound();
    if (!file) throw new UserError("The sound of this transcript is not stored.");
    return file;
  }) }, "Sound"));
}
