/** Subtitles of a recording that somebody chooses: `tsc --noEmit` finds what is wrong with the calls. */
import { Engine, UserError } from "./pyapp/pyapp.js"; // the site's files lie in the folder pyapp beside this file

const engine = new Engine({ threads: 2, task: "transcribe" });

/** A time as subtitles have it: hours:minutes:seconds,milliseconds. */
function time(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString().slice(11, 23).replace(".", ",");
}

/** The subtitles in the form SRT. `show` gets each line as soon as it is known. */
export async function subtitles(recording: Blob, show: (line: string) => void, signal?: AbortSignal): Promise<string> {
  const speech = await engine.load("transcribe", "speech", { signal, onProgress: ({ what }) => show(what) });
  const run = speech.run(recording, { language: "en" }, { signal });
  for await (const event of run) if (event.type === "segment") show(event.text);
  const { segments } = await run;
  return segments.map(({ start, end, text }, i) => `${i + 1}\n${time(start)} --> ${time(end)}\n${text.trim()}\n`).join("\n");
}

const field = document.querySelector<HTMLInputElement>("input[type=file]");
field?.addEventListener("change", async () => {
  const [file] = field.files ?? [];
  if (!file) return;
  try {
    console.log(await subtitles(file, console.log));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.what, error.where, error.hint);
  }
});
