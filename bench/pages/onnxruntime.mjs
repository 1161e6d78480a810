// onnxruntime-web in WebAssembly: seconds of a run of an ONNX file, one thread.
import * as ort from "../peers/onnxruntime-web/dist/ort.wasm.min.mjs";

const TYPES = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array };
ort.env.wasm.wasmPaths = new URL("../peers/onnxruntime-web/dist/", import.meta.url).href;
ort.env.wasm.numThreads = 1;
let session;
let feeds;

/** The inputs as {name: [type, dims, numbers]}. */
async function load({ file, inputs }) {
  session = await ort.InferenceSession.create(new URL(`../weights/${file}`, import.meta.url).href, { executionProviders: ["wasm"] });
  feeds = Object.fromEntries(Object.entries(inputs).map(([name, [type, dims, values]]) =>
    [name, new ort.Tensor(type, TYPES[type].from(values, type === "int64" ? BigInt : Number), dims)]));
  return ort.env.versions.web;
}

/** The first numbers of the first output. */
async function output({ count }) {
  const found = await session.run(feeds);
  return [...found[session.outputNames[0]].data.slice(0, count)];
}

/** Seconds of a run. */
async function figure({ runs }) {
  const start = performance.now();
  for (let i = 0; i < runs; i += 1) {
    const found = await session.run(feeds);
    for (const tensor of Object.values(found)) tensor.dispose();
  }
  return (performance.now() - start) / 1000 / runs;
}

const methods = { load, output, figure };
window.call = (method, params) => methods[method](params);
