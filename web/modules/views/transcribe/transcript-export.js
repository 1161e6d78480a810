/**
 * Saves the transcript as TXT, SRT, VTT or JSON. The engine writes the file from the edited text of the page.
 */
import { byId, h } from "../../page/dom.js";
import { showError } from "../../page/errors.js";

const FORMATS = [
  { format: "txt", label: "TXT", title: "Plain text", type: "text/plain" },
  { format: "srt", label: "SRT", title: "Subtitles, SubRip", type: "application/x-subrip" },
  { format: "vtt", label: "VTT", title: "Subtitles, WebVTT", type: "text/vtt" },
  { format: "json", label: "JSON", title: "Everything, JSON", type: "application/json" },
];

/**
 * @param {import("../../page/app.js").App} app
 * @param {HTMLElement} host
 * @param {() => {name: string, segments: object[], language: string | null, duration: number, task: string}} contents
 */
export function setUpDownloads(app, host, contents) {
  const save = async ({ format, type }) => {
    const { name, ...transcript } = contents();
    try {
      const { text } = await app.engine.call("export", { ...transcript, format });
      download(new Blob([text], { type: `${type};charset=utf-8` }), `${stem(name)}.${format}`);
    } catch (error) {
      showError(byId("transcribe-error"), error, { ...app.actions, retry: () => save({ format, type }) });
    }
  };
  host.append(...FORMATS.map((kind) =>
    h("button", { type: "button", title: kind.title, "data-format": kind.format, onclick: () => save(kind) }, kind.label)));
}

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A file's name without its ending. */
const stem = (name) => name.replace(/\.[^.]{1,5}$/, "") || "transcript";
