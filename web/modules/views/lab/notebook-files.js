/**
 * Notebooks as files: Jupyter's .ipynb (nbformat 4) and Python scripts in the percent format (`# %%`, `# %% [markdown]`).
 * Source of the format: https://nbformat.readthedocs.io/en/latest/format_description.html
 *
 * @typedef {{kind: string, id?: string | null, text?: string, stream?: string, [field: string]: any}} Output as pyapp/lab/output.py sends it
 * @typedef {{kind: "code" | "text", source: string, outputs?: Output[], count?: number | null}} CellData
 * @typedef {{title: string, cells: CellData[]}} NotebookData
 */
import { decoded } from "../../shared/decoded.js";
import { UserError, megabytes } from "../../shared/protocol.js";

const LARGEST = 50e6; // bytes of a file
const MOST_CELLS = 1000;
const LONGEST_CELL = 1e6; // characters
const OWN = "application/vnd.pyapp.output+json"; // what the Lab shows; other programs show the text, the image or the sound beside it
const MARK = /^#\s*%%(.*)$/;
const PYTHON = { kernelspec: { display_name: "Python 3", language: "python", name: "python3" }, language_info: { name: "python" } };

/** @param {File} file @returns {Promise<NotebookData & {assumed: boolean}>} `assumed`: it is not in UTF-8 or UTF-16, and was read as Windows-1252 */
export async function readNotebook(file) {
  if (file.size > LARGEST) throw new UserError(`This file is too large for a notebook: ${megabytes(file.size)}.`, { where: file.name, hint: `At most ${megabytes(LARGEST)} can be opened.` });
  if (!file.size) throw new UserError("This file is empty.", { where: file.name, hint: "Open a Jupyter notebook (.ipynb) or a Python script (.py)." });
  const found = decoded(await file.arrayBuffer());
  if (found === null) throw new UserError("This file is not a text file.", { where: file.name, hint: "Open a Jupyter notebook (.ipynb) or a Python script (.py)." });
  const { text } = found;
  const title = file.name.replace(/\.(ipynb|py)$/i, "");
  const notebook = /\.py$/i.test(file.name) ? fromScript(text, title) : fromJupyter(text, title, file.name);
  return { ...notebook, assumed: found.assumed };
}

/** @param {string} text @param {string} title @returns {NotebookData} */
export function fromScript(text, title) {
  /** @type {CellData[]} */
  const cells = [];
  /** @type {{kind: "code" | "text", lines: string[]}} */
  let cell = { kind: "code", lines: [] };
  const end = () => {
    const lines = cell.kind === "text" ? uncommented(cell.lines) : cell.lines;
    const source = lines.join("\n").replace(/^\s*\n/, "").trimEnd();
    if (source) cells.push({ kind: cell.kind, source });
  };
  for (const line of text.replace(/\r\n?/g, "\n").split("\n")) {
    const mark = line.match(MARK);
    if (!mark) cell.lines.push(line);
    else {
      end();
      cell = { kind: /\[(markdown|md)\]/.test(mark[1]) ? "text" : "code", lines: [] };
    }
  }
  end();
  return { title, cells: checked(cells, title) };
}

/** The lines of a text cell: comments, or a string in three quotes. @param {string[]} lines */
function uncommented(lines) {
  const text = lines.join("\n").trim();
  const quoted = text.match(/^r?("""|''')([\s\S]*)\1$/);
  if (quoted) return quoted[2].trim().split("\n");
  return text.split("\n").map((line) => line.replace(/^#\s?/, ""));
}

/** @param {NotebookData} notebook @returns {string} */
export function toScript({ cells }) {
  return cells.map(({ kind, source }) => {
    const lines = source.split("\n");
    // As comments, such lines would begin cells.
    if (kind === "text" && /^\s*%%/m.test(source) && !source.includes('"""')) return `# %% [markdown]\n"""\n${source}\n"""`;
    if (kind === "text") return ["# %% [markdown]", ...lines.map((line) => `# ${line}`.trimEnd())].join("\n");
    return `# %%\n${source}`;
  }).join("\n\n") + "\n";
}

/** @param {string} text @param {string} title @param {string} where @returns {NotebookData} */
function fromJupyter(text, title, where) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new UserError("This is not a notebook: it is not JSON.", { where, hint: "Open a Jupyter notebook (.ipynb) or a Python script (.py)." });
  }
  if (data?.nbformat !== 4 || !Array.isArray(data.cells)) {
    const version = Number.isInteger(data?.nbformat) ? ` It has version ${data.nbformat}.` : "";
    throw new UserError(`This is not a notebook of version 4 of the format.${version}`, { where, hint: "Open it in Jupyter and save it again." });
  }
  const cells = data.cells.filter((/** @type {unknown} */ cell) => cell && typeof cell === "object").map((/** @type {any} */ cell) => ({
    kind: /** @type {"code" | "text"} */ (cell.cell_type === "code" ? "code" : "text"),
    source: joined(cell.source),
    outputs: (Array.isArray(cell.outputs) ? cell.outputs : []).slice(0, 200).map(fromJupyterOutput).filter(Boolean),
    count: Number.isInteger(cell.execution_count) ? cell.execution_count : null,
  }));
  return { title: typeof data.metadata?.title === "string" ? data.metadata.title.slice(0, 200) : title, cells: checked(cells, where) };
}

/** @param {CellData[]} cells @param {string} where @returns {CellData[]} */
function checked(cells, where) {
  if (cells.length > MOST_CELLS) throw new UserError(`This notebook has ${cells.length.toLocaleString("en")} cells; at most ${MOST_CELLS.toLocaleString("en")} can be opened.`, { where, hint: "Split it into several notebooks." });
  if (cells.some(({ source }) => source.length > LONGEST_CELL)) throw new UserError("A cell of this notebook is longer than a million characters.", { where, hint: "Put the data into a file beside the notebook." });
  return cells.length ? cells : [{ kind: "code", source: "" }];
}

/** Texts are strings or lists of lines. @param {unknown} value @returns {string} */
const joined = (value) => (Array.isArray(value) ? value.filter((line) => typeof line === "string").join("") : typeof value === "string" ? value : "");

/** @param {any} output @returns {Output | null} null if the Lab does not show it */
function fromJupyterOutput(output) {
  if (output?.output_type === "stream") return { kind: "text", stream: output.name === "stderr" ? "stderr" : "stdout", text: joined(output.text) };
  if (output?.output_type === "error") {
    const trace = (Array.isArray(output.traceback) ? output.traceback : []).filter(isText).map((/** @type {string} */ line) => `${line}\n`).join("");
    const name = isText(output.ename) ? output.ename : "Error";
    return { kind: "error", name, text: (trace || `${name}: ${isText(output.evalue) ? output.evalue : ""}`).replace(/\u001b\[[\d;]*m/g, "").trimEnd() };
  }
  const data = output?.data;
  if (!data || typeof data !== "object") return null;
  if (isWhole(data[OWN])) return data[OWN];
  const text = joined(data["text/plain"]);
  if (data["audio/wav"]) return { kind: "sound", wav: joined(data["audio/wav"]).replace(/\s/g, ""), caption: "", text };
  if (data["image/png"]) return { kind: "image", png: joined(data["image/png"]).replace(/\s/g, ""), caption: "", text };
  return text ? { kind: "value", text } : null;
}

const isText = (/** @type {unknown} */ value) => typeof value === "string";
const isNumber = (/** @type {unknown} */ value) => typeof value === "number";
/** @param {(one: any) => boolean} is @returns {(value: any) => boolean} */
const listOf = (is) => (value) => Array.isArray(value) && value.every(is);

/** What the fields of the Lab's outputs are. */
const FIELDS = new Map(Object.entries({
  ...Object.fromEntries(["id", "text", "stream", "name", "title", "x_label", "y_label", "caption", "png", "wav", "label", "view"].map((name) => [name, isText])),
  ...Object.fromEntries(["width", "height", "count", "left_out", "size"].map((name) => [name, isNumber])),
  columns: listOf(isText), rows: listOf(Array.isArray), files: listOf(isText), x: Array.isArray,
  curves: listOf((curve) => isText(curve?.name) && Array.isArray(curve.y)),
}));

/** Whether an output in a file is one of the Lab, and not damaged. @param {any} output @returns {output is Output} */
const isWhole = (output) => isText(output?.kind) && Object.entries(output).every(([name, value]) => FIELDS.get(name)?.(value) ?? true);

/** @param {NotebookData} notebook @returns {string} */
export function toJupyter({ title, cells }) {
  const listed = cells.map(({ kind, source, outputs = [], count = null }, index) => ({
    cell_type: kind === "code" ? "code" : "markdown",
    id: `cell-${index + 1}`,
    metadata: {},
    source: source.split(/(?<=\n)/),
    ...(kind === "code" ? { execution_count: count, outputs: outputs.map((output) => toJupyterOutput(output, count)) } : {}),
  }));
  return `${JSON.stringify({ cells: listed, metadata: { ...PYTHON, title }, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`;
}

/** Where an error happened, and what it says, which may have several lines. @param {Output} output @returns {[string, string]} */
export function partsOfError({ text = "", name = "" }) {
  const lines = text.split("\n");
  const first = lines.findIndex((line) => /^[\w.]+/.exec(line)?.[0].split(".").at(-1) === name);
  const said = lines.splice(first); // where none begins with the name, the last line
  return [lines.join("\n"), said.join("\n")];
}

/** @param {Output} output @param {number | null} count */
function toJupyterOutput(output, count) {
  const { kind, text = "" } = output;
  if (kind === "text" || kind === "tail") return { output_type: "stream", name: output.stream ?? "stdout", text: text.split(/(?<=\n)/) };
  if (kind === "error") return { output_type: "error", ename: output.name, evalue: partsOfError(output)[1], traceback: text.split("\n") };
  if (kind === "value") return { output_type: "execute_result", execution_count: count, metadata: {}, data: { "text/plain": text } };
  const media = kind === "image" ? { "image/png": output.png } : kind === "sound" ? { "audio/wav": output.wav } : {};
  return { output_type: "display_data", metadata: {}, data: { [OWN]: output, ...media, "text/plain": text } };
}
