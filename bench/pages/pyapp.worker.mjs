// The site's own Pyodide and wheels, with bench/ beside them; the worker's name is the number of threads.
// Methods: load(shape, kind), loadLlama(shape, gguf), loadSpeech(kind),
// loadEmbedder(folder), vectors(texts), embeddings(texts), loadBlocks(kind), loadRows(kind), sampleBlocks(), figure(name), loadOps(packages), opFigure(package, name),
// loadOnnx(file, inputs), output(count), loadTraining(packages, name), trainingFigure(package), records(name, rounds, every), stream(megabytes).
import createPyodideModule from "../pyodide/pyodide.asm.js";
import { loadPyodide } from "../pyodide/pyodide.js";
import { openPool } from "../modules/worker/pool.js";
import { addLibrary } from "../modules/worker/unpack.js";
import { encoderOf } from "../modules/worker/token-encoder.js";

const FILES = ["__init__", "shapes", "workload", "speech_workload", "ops_workload", "report", "training", "records"];
const EMBEDDER = [
  "config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json",
  "1_Pooling/config.json",
];
const folder = new URL("../pyodide/", import.meta.url).href;

async function start() {
  const pyodide = await loadPyodide({ indexURL: folder, packageBaseUrl: folder, createPyodideModule });
  const lock = await (await fetch(`${folder}pyodide-lock.json`)).json();
  addLibrary(pyodide, await (await fetch(folder + lock.packages["python-later"].file_name)).arrayBuffer());
  const loaded = await pyodide.loadPackage(["numpy", "pyapp"], { messageCallback: () => {} });
  if (loaded.length < 2) throw new Error("numpy or pyapp was not loaded: is the site whole?");
  pyodide.FS.mkdir("/home/pyodide/bench");
  for (const name of FILES) {
    const text = await (await fetch(new URL(`../bench/${name}.py`, import.meta.url))).text();
    pyodide.FS.writeFile(`/home/pyodide/bench/${name}.py`, text);
  }
  pyodide.runPython("import sys; sys.path.insert(0, '/home/pyodide')");
  const threads = Number(self.name);
  if (threads > 1) {
    pool = await openPool(threads, (problem) => { throw problem; });
    pool.attach(pyodide._module);
    pyodide.pyimport("pyapp.engine.devices.pool").connect(pool);
  }
  return pyodide;
}

let pool = null;
const device = () => (pool === null ? "cpu" : "pool");
const ready = start();
let workload;
let ops;
let steps;
const methods = {
  async load(pyodide, { shape, kind }) {
    const module = pyodide.pyimport("bench.workload");
    workload?.destroy();
    workload = module.Workload(shape, kind, device());
    return { ...module.environment().toJs({ dict_converter: Object.fromEntries }), heap: pyodide._module.HEAPU8.length };
  },
  async loadLlama(pyodide, { shape, gguf }) {
    workload?.destroy();
    const path = `/home/pyodide/${gguf.split("/").pop()}`;
    pyodide.FS.writeFile(path, new Uint8Array(await (await fetch(new URL(gguf, import.meta.url))).arrayBuffer()));
    workload = pyodide.pyimport("bench.workload").LlamaWorkload(shape, path, device());
    pyodide.FS.unlink(path);
    const about = pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
    return { ...about, heap: pyodide._module.HEAPU8.length };
  },
  async loadEmbedder(pyodide, { folder }) {
    const { Tokenizer } = await import("../tokenizers/tokenizers.min.js");
    pyodide.pyimport("pyapp.browser").install({ createEncoder: (json) => encoderOf(Tokenizer, json) });
    const path = "/home/pyodide/embedder";
    pyodide.FS.mkdirTree(`${path}/1_Pooling`);
    for (const name of EMBEDDER) {
      const response = await fetch(new URL(`${folder}/${name}`, import.meta.url));
      if (!response.ok) throw new Error(`${name}: status ${response.status}`);
      pyodide.FS.writeFile(`${path}/${name}`, new Uint8Array(await response.arrayBuffer()));
    }
    workload?.destroy();
    workload = pyodide.pyimport("bench.workload").EmbedderWorkload(path);
    return pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
  },
  async vectors(pyodide, { texts }) {
    return workload.vectors(pyodide.toPy(texts)).toJs();
  },
  async embeddings(pyodide, { texts }) {
    return workload.figure(pyodide.toPy(texts));
  },
  async loadSpeech(pyodide, { kind }) {
    workload?.destroy();
    workload = pyodide.pyimport("bench.speech_workload").SpeechWorkload(kind, device());
    const about = pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
    return { ...about, heap: pyodide._module.HEAPU8.length };
  },
  async loadOps(pyodide, { packages }) {
    const { OpsWorkload } = pyodide.pyimport("bench.ops_workload");
    ops = new Map(packages.map((name) => [name, OpsWorkload(name)]));
    return pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
  },
  async opFigure(pyodide, { package: name, name: op }) {
    return ops.get(name).figure(op);
  },
  async loadTraining(pyodide, { packages, name }) {
    const { step_of: stepOf } = pyodide.pyimport("bench.training");
    steps = new Map(packages.map((of) => [of, stepOf(of, name, of === "pyapp")]));
    return pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
  },
  async trainingFigure(pyodide, { package: name }) {
    return pyodide.pyimport("bench.training").sample(steps.get(name), true);
  },
  async records(pyodide, { name, rounds, every }) {
    return pyodide.pyimport("bench.records").report(name, rounds, every);
  },
  async loadBlocks(pyodide, { kind }) {
    const module = pyodide.pyimport("bench.workload");
    workload?.destroy();
    workload = module.BlockStream(kind);
    return { ...module.environment().toJs({ dict_converter: Object.fromEntries }), heap: pyodide._module.HEAPU8.length };
  },
  async loadRows(pyodide, { kind }) {
    const module = pyodide.pyimport("bench.workload");
    workload?.destroy();
    workload = module.BlockRows(kind);
    return { ...module.environment().toJs({ dict_converter: Object.fromEntries }), heap: pyodide._module.HEAPU8.length };
  },
  async sampleBlocks() {
    return workload.sample().toJs();
  },
  async stream(pyodide, { megabytes }) {
    return pyodide.pyimport("bench.workload").stream(megabytes);
  },
  async loadOnnx(pyodide, { file, inputs }) {
    const path = `/home/pyodide/${file}`;
    pyodide.FS.writeFile(path, new Uint8Array(await (await fetch(new URL(`../weights/${file}`, import.meta.url))).arrayBuffer()));
    workload?.destroy();
    workload = pyodide.pyimport("bench.workload").OnnxWorkload(path, pyodide.toPy(inputs));
    return pyodide.pyimport("bench.workload").environment().toJs({ dict_converter: Object.fromEntries });
  },
  async output(pyodide, { count }) {
    return workload.output(count).toJs();
  },
  async figure(pyodide, { name, runs }) {
    return workload.figure(runs ?? name);
  },
};

self.onmessage = async ({ data: { id, method, params } }) => {
  try {
    postMessage({ id, value: await methods[method](await ready, params) });
  } catch (error) {
    postMessage({ id, error: String(error.message ?? error).slice(-2000) });
  }
};
