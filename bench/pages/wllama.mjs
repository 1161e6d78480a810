// wllama (llama.cpp in WebAssembly) on the same shapes, greedy. ?threads=1 … ?version=2 (its last release with SIMD quantised
// kernels, driven token by token) or 3 (completions, with the engine's own timings).
const parameters = new URLSearchParams(location.search);
const version = parameters.get("version");
const threads = Number(parameters.get("threads") ?? 1);
const base = new URL(`../peers/wllama-${version}/esm/`, import.meta.url).href;
const { Wllama } = await import(`${base}index.js`);
const logger = { debug() {}, log() {}, warn() {}, error: console.error };
const paths =
  version === "2"
    ? { "single-thread/wllama.wasm": `${base}single-thread/wllama.wasm`, "multi-thread/wllama.wasm": `${base}multi-thread/wllama.wasm` }
    : { default: `${base}wasm/wllama.wasm` };
const SAMPLE_MS = 600;
let engine;

async function load({ gguf, context }) {
  await engine?.exit();
  engine = new Wllama(paths, { logger });
  const file = await (await fetch(new URL(gguf, location.href))).blob();
  await engine.loadModel([file], { n_threads: threads, n_ctx: context, n_batch: 512, ...(version === "3" ? { n_parallel: 1, warmup: true } : {}) });
}

/** Version 2: [ms of the prompt, ms of the new tokens]. */
async function stepwise(prompt, tokens) {
  await engine.samplingInit({ temp: 0 });
  await engine.kvClear();
  const ids = Array.from({ length: prompt }, (_, i) => 300 + ((i * 7) % 31000));
  const start = performance.now();
  await engine.decode(ids, {});
  const middle = performance.now();
  for (let i = 0; i < tokens; i++) {
    const { token } = await engine.samplingSample();
    await engine.samplingAccept([token]);
    await engine.decode([token], {});
  }
  return [middle - start, performance.now() - middle];
}

/** Version 3: the same from the engine's timings; a letter is a token, beside BOS and the leading space. */
async function completion(prompt, tokens) {
  const text = Array.from({ length: prompt - 2 }, (_, i) => "abcdefghijklmnopqrstuvwxyz"[(i * 7) % 26]).join("");
  const { timings } = await engine.createCompletion({
    prompt: text, max_tokens: Math.max(tokens, 1), temperature: 0, top_k: 1, ignore_eos: true, cache_prompt: false,
  });
  if (timings.prompt_n < prompt || timings.predicted_n < tokens) throw new Error(`stopped early: ${JSON.stringify(timings)}`);
  return [timings.prompt_ms, timings.predicted_ms];
}

/** Tokens per second; calls are repeated for SAMPLE_MS. */
async function figure({ name, prompt, tokens }) {
  const run = version === "2" ? stepwise : completion;
  let spent = 0;
  let done = 0;
  while (spent < SAMPLE_MS) {
    const [promptMs, tokenMs] = await (name === "prompt" ? run(prompt, 0) : run(8, tokens));
    spent += name === "prompt" ? promptMs : tokenMs;
    done += name === "prompt" ? prompt : tokens;
  }
  return (done / spent) * 1000;
}

const methods = { load, figure };
window.call = (method, params) => methods[method](params);
