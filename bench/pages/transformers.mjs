// transformers.js (onnxruntime in WebAssembly): the embeddings of texts, one thread.
import { AutoModel, AutoTokenizer, FeatureExtractionPipeline, env } from "../peers/@huggingface/transformers/dist/transformers.min.js";

const ort = new URL("../peers/onnxruntime-web/dist/ort-wasm-simd-threaded", import.meta.url).href;
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.useBrowserCache = false;
env.localModelPath = new URL("../weights/", import.meta.url).pathname;
env.backends.onnx.wasm.wasmPaths = { mjs: `${ort}.asyncify.mjs`, wasm: `${ort}.asyncify.wasm` };
env.backends.onnx.wasm.numThreads = 1;
let embed;

async function load({ folder }) {
  const tokenizer = await AutoTokenizer.from_pretrained(folder);
  const model = await AutoModel.from_pretrained(folder, { dtype: "fp32", device: "wasm" });
  embed = new FeatureExtractionPipeline({ task: "feature-extraction", model, tokenizer });
  return env.version;
}

/** The vectors of the texts. */
async function vectors({ texts }) {
  return (await embed(texts, { pooling: "mean", normalize: true })).tolist();
}

/** Texts per second, tokenizing included, in batches. */
async function figure({ texts, batch }) {
  const start = performance.now();
  for (let at = 0; at < texts.length; at += batch) {
    await embed(texts.slice(at, at + batch), { pooling: "mean", normalize: true });
  }
  return (texts.length / (performance.now() - start)) * 1000;
}

const methods = { load, vectors, figure };
window.call = (method, params) => methods[method](params);
