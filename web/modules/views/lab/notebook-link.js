/**
 * A link that carries a small notebook: its script, compressed, in the part of the address that is not sent to a server.
 */
import { UserError } from "../../shared/protocol.js";
import { siteUrl } from "../../shared/site.js";
import { fromScript, toScript } from "./notebook-files.js";

const START = "#lab=";
const LONGEST = 30000; // characters of a link; longer ones are cut off by some programs
const LARGEST = 2e6; // characters of the script

/** @param {import("./notebook-files.js").NotebookData} notebook @returns {Promise<string>} */
export async function linkOf(notebook) {
  const script = `# ${notebook.title.replace(/\s+/g, " ")}\n${toScript(notebook)}`;
  const stream = new Blob([script]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const link = siteUrl("./") + START + text;
  if (link.length > LONGEST) {
    throw new UserError(`This notebook is too long for a link: ${link.length.toLocaleString("en")} characters; at most ${LONGEST.toLocaleString("en")} work everywhere.`, { hint: "Save it as a file and send that." });
  }
  return link;
}

/** Whether an address carries a notebook. @param {string} hash */
export const carries = (hash) => hash.startsWith(START);

/** @param {string} hash of the address @returns {Promise<import("./notebook-files.js").NotebookData>} */
export async function fromLink(hash) {
  let script;
  try {
    const text = atob(hash.slice(START.length).replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    script = await inflated(new Blob([bytes]));
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError("The notebook in this link is damaged.", { hint: "The link may have been cut off. Copy all of it." });
  }
  const [, title, rest] = script.match(/^# ([^\n]{0,200})\n([\s\S]*)$/) ?? [null, "Shared notebook", script];
  return fromScript(rest, title);
}

/** Inflates at most LARGEST characters. @param {Blob} blob @returns {Promise<string>} */
async function inflated(blob) {
  const reader = blob.stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length > LARGEST) throw new UserError("The notebook in this link is too large.", { hint: "Ask for it as a file." });
  }
}
