// node page_files.mjs MODULES: hostile files through the page's readers, as JSON [what, milliseconds, answer or error].
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const part = (path) => import(pathToFileURL(`${modules}/${path}`));
/** A document whose body has as its text what it is given. */
const blank = () => ({ body: { set innerHTML(html) { this.textContent = html; } } });
globalThis.document = { implementation: { createHTMLDocument: blank } };
globalThis.Image = class {
  decode() {
    return Promise.reject(new Error("nothing is drawn here"));
  }
};
globalThis.FileReader = class {
  readAsDataURL() {
    this.onload();
  }
};
globalThis.fetch = async () => ({ ok: true, json: async () => ({ gguf: { llama: "chat" }, model_types: { bert: "embed" } }) });
const [kinds, notebooks, texts, collections, conversations, drawings, sounds, cut, sent, words, history, files, downloads, listing, python, weights] = await Promise.all([
  "page/file-kinds.js", "views/lab/notebook-files.js", "views/search/text-files.js", "views/search/collection.js",
  "views/chat/conversation.js", "pictures/svg-picture.js", "audio/decoder.js", "audio/cut-off.js", "shared/sent.js", "shared/words.js",
  "history/history-store.js", "worker/store.js",
  "worker/download.js", "worker/hub-listing.js", "worker/python.js", "worker/weight-type.js",
].map(part));

const LONG = 300_000;
const file = (name, ...parts) => Object.assign(new File(parts, name), { webkitRelativePath: "" });
const text = async (name, content) => (await texts.readTexts([file(name, content)], "windows-1252")).texts[0].text;
const long = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const short = (value) => Buffer.from(Uint32Array.of(value).buffer);
const string = (value) => Buffer.concat([long(value.length), Buffer.from(value)]);
const gguf = (...parts) => kinds.taskOf([file("a.gguf", "GGUF", short(3), long(0), long(1), ...parts)]);
const odd = { toString: 1, valueOf: 2 };
const error = { output_type: "error", ename: odd, evalue: odd, traceback: [odd] };
const notebook = JSON.stringify({ nbformat: 4, cells: [{ cell_type: "code", source: "x", outputs: [error] }] });
const answer = (type, status = 200) => new Response("", { status, headers: { "Content-Type": type } });
const never = () => new Promise(() => {});
const waits = globalThis.setTimeout;
/** What comes of work while all times are over at once. */
const late = async (work) => {
  globalThis.setTimeout = (over) => waits(over, 1);
  return work().finally(() => (globalThis.setTimeout = waits));
};
globalThis.indexedDB = { open: () => ({}) };
globalThis.localStorage = { length: 0 };
Object.defineProperty(globalThis, "navigator", { value: { storage: { getDirectory: never } } });
const entry = { key: "a", journal: async () => null, close: () => {} };
const wanted = { name: "a", url: "http://localhost/a", size: 9, sha256: null };
const silent = async () => {
  const answer = globalThis.fetch;
  globalThis.fetch = (_, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { signal } = new AbortController();
  return downloads.download(wanted, { entry: async () => entry }, { signal, onProgress() {}, hash: never }).finally(() => (globalThis.fetch = answer));
};
const ended = (error) => {
  throw Object.assign(error, { pyodide_fatal_error: true });
};
const FAMILY = "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}";
const cases = {
  "a history that does not answer": () => late(() => new history.HistoryStore("a").list()),
  "stored files that do not answer": () => late(files.openStore),
  "a download of which nothing comes": () => late(silent),
  "a name that is no address": () => listing.parseHubName("a/100%"),
  "a name with escapes": () => listing.parseHubName("https://huggingface.co/a/b%20%E2%82%AC?x").repo,
  "a name as other programs have it": () => {
    const name = listing.parseHubName("hf.co/a/b-GGUF:Q4_K_M");
    const files = ["b-q4_0.gguf", "b-q4_k_m-00001-of-00002.gguf", "b-q4_k_m-00002-of-00002.gguf", "b-q8_0.gguf"];
    return [name.repo, ...listing.modelsOf(name, files.map((path) => ({ path, size: 1, sha256: null })), "chat").map(({ title }) => title)];
  },
  "a Python that ends": () => {
    const api = { fatal_error: ended };
    const death = python.deathOf(api);
    try {
      api.fatal_error(new RangeError("out of bounds"));
    } catch {
      // Pyodide's event loop has it
    }
    return death;
  },
  "a title that ends inside an emoji": () => words.titleOf(`${"a".repeat(57)}${FAMILY} b`),
  "a title that ends between a letter and its mark": () => words.titleOf(`${"a".repeat(60)}\u0301`),
  "a title of marks": async () => words.titleOf("\u0301".repeat(LONG)).length,
  "a text that is too large": () => texts.readTexts([Object.defineProperty(file("a.txt", "a"), "size", { value: 1e9 })], "utf-8"),
  "a page in place of a file": () => sent.checkSent(answer("text/html; charset=utf-8"), "a.json"),
  "a script of another type": () => sent.checkSent(answer("application/octet-stream"), "a.js", { script: true }),
  "a file that is not there": () => sent.checkSent(answer("application/json", 404), "a.json"),
  "a file": () => sent.checkSent(answer("application/json"), "a.json"),
  "spaces in a page": async () => (await text("a.html", `a${" ".repeat(LONG)}\n${" ".repeat(LONG)}b`)).length,
  "paragraphs of a page": () => text("a.html", "  a \n b\n \n\n\n c  \n"),
  "a table of marks": () => text("a.csv", `a,"b ""b""\nb",\n\n1,"2, ""3""\n4"5,6\n,"\n`),
  "a long table": async () => (await text("a.csv", `a,b\n${"1,2\n".repeat(LONG)}`)).length,
  "a long table that is stopped": () => {
    const signal = AbortSignal.timeout(50);
    return texts.readTexts([file("a.csv", `a,b\n${"1,2\n".repeat(10 * LONG)}`)], "utf-8", { signal });
  },
  "spaces in a script": async () => (await notebooks.readNotebook(file("a.py", `a${" ".repeat(LONG)}b`))).cells.length,
  "an error of no text": async () => (await notebooks.readNotebook(file("a.ipynb", notebook))).cells[0].outputs[0].name,
  "conversations of no version": () => conversations.imported(JSON.stringify({ format: "pyapp.conversations", version: odd, conversations: [] }), "a"),
  "collections of no version": () => collections.imported(JSON.stringify({ format: "pyapp.search", version: odd, collections: [] }), "a"),
  "tags that do not end": () => drawings.drawSvg(file("a.svg", "<svg ".repeat(LONG)), 1e6),
  "a name that does not end": () => drawings.drawSvg(file("a.svg", `<${"a".repeat(LONG)}:svg `), 1e6),
  "a width of spaces": () => drawings.drawSvg(file("a.svg", `<svg width="0${" ".repeat(LONG)}!" height="0">`), 1e6),
  "a format that all objects have": () => kinds.exporterOf(file("a.json", '{"format": "constructor"}')),
  "a model type that all objects have": () => kinds.taskOf([file("config.json", '{"model_type": "constructor"}')]),
  "an architecture that all objects have": () => gguf(string("general.architecture"), short(8), string("constructor")),
  "types of weights": async () => {
    const tensors = (...types) => `        {${types.map((type, at) => `"${at}":{"dtype":"${type}","shape":[1]}`)}}`;
    const numbered = (number) => ["GGUF\u0003", string("general.file_type"), short(4), short(number)];
    const found = [
      ["a.safetensors", tensors("F32", "F16", "F16")], ["a.safetensors", tensors("BF16")], ["a.safetensors", tensors("F32")],
      ["a.safetensors", tensors("U8")], ["a.safetensors"], ["a.gguf", ...numbered(0)], ["a.gguf", ...numbered(32)], ["a.gguf", ...numbered(7)],
      ["a.gguf", "GGUF", "general.file_type"], ["ggml-a.bin", "lmgg", Buffer.alloc(40), short(1)], ["ggml-a.bin", "lmgg", Buffer.alloc(40), short(7)],
      ["a.bin", "PK\u0003\u0004 ctorch\nBFloat16Storage\nctorch\nLongStorage\nctorch\nBFloat16Storage\n"], ["a.bin", short(64)],
      ["a.bin", "24ka", short(2)], ["a.bin", "24ka", short(1)], ["a.onnx", "x"],
    ];
    const types = await Promise.all(found.map(([name, ...parts]) => weights.weightType(file(name, ...parts))));
    return types.map((type) => type ?? "-").join(" ");
  },
  "an Ogg file that is cut off": async () => {
    const page = (flags) => `OggS\0${String.fromCharCode(flags)}${"x".repeat(99)}`;
    const told = await Promise.all([["OggS"], [page(2), page(0)], [page(2), page(4)], ["fLaC"]].map((parts) => cut.cutOff(file("a", ...parts), 2)));
    return told.map((notice) => notice?.what.slice(0, 30) ?? "-").join(" ");
  },
  "a file of Segment Anything": () => kinds.taskOf([file("mobile_sam.pt", "x")]),
  "an architecture": () => gguf(string("general.architecture"), short(8), string("llama")),
  "lists in lists": () => gguf(string("a"), short(9), Buffer.concat(Array(80_000).fill(Buffer.concat([short(9), long(1)])))),
  "a type that there is not": () => gguf(string("a"), short(99), Buffer.alloc(99)),
  ...Object.fromEntries([0.5, 1, 44_100.5, 1_000_003, 2 ** 31].map((rate) => [`${rate} samples a second`, () => sounds.checkRate(rate, { name: "a" })])),
  ...Object.fromEntries([8000, 11_025, 22_255, 44_100, 48_000, 192_000, 384_000].map((rate) => [`${rate} samples a second`, () => sounds.checkRate(rate, { name: "a" })])),
};
const found = [];
for (const [what, read] of Object.entries(cases)) {
  const start = performance.now();
  const answer = await Promise.resolve().then(read).then((value) => value ?? null, (failure) => `${failure.constructor.name}: ${failure.message}`);
  found.push([what, performance.now() - start, answer]);
}
process.stdout.write(JSON.stringify(found));
