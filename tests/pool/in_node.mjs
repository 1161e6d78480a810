// node in_node.mjs pool_simd.wasm INDEX: the page's pool (web/modules/worker/pool.js) on worker threads of node; INDEX is that
// of the kernel fill_f32. Prints what happened as JSON.
import { readFile } from "node:fs/promises";
import { Worker as Thread } from "node:worker_threads";

const [program, kernel] = process.argv.slice(2);
const HELPER = `
  const { parentPort, workerData } = require("node:worker_threads");
  globalThis.self = globalThis;
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  const loaded = import(workerData);
  parentPort.on("message", async (data) => { await loaded; self.onmessage({ data }); });
`;
globalThis.crossOriginIsolated = true;
globalThis.location = new URL(import.meta.url);
globalThis.fetch = async () => new Response(await readFile(program));
globalThis.Worker = class {
  constructor(url) {
    this.thread = new Thread(HELPER, { eval: true, workerData: url });
    this.thread.on("message", (data) => this.onmessage({ data }));
  }
  postMessage(data) { this.thread.postMessage(data); }
  terminate() { return this.thread.terminate(); }
};
const { openPool } = await import("../../web/modules/worker/pool.js");

const COUNT = 200_000;
const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A pool, and a function that fills COUNT float32 with a value, from `to` on, by all threads or one. */
async function open(threads) {
  const pool = await openPool(threads, (problem) => { throw problem; }, "simd");
  const functions = [];
  pool.attach({ HEAPU8: new Uint8Array(1 << 16), addFunction: (work) => functions.push(work) - 1 });
  pool.grow(pool.base + 4096 + 4 * COUNT);
  const replay = functions[pool.functions.replay];
  const fill = (value, sharing, to = pool.base + 4096) => {
    pool.chooser.run = (key, work) => work(sharing);
    const record = new DataView(pool.memory.buffer, pool.base, 248);
    record.setInt32(0, Number(kernel), true);
    record.setInt32(4, 5000, true);
    record.setUint32(8, to, true);
    record.setBigInt64(40, BigInt(COUNT), true);
    record.setFloat32(232, value, true);
    return replay(pool.base, 1);
  };
  const all = (value) => new Float32Array(pool.memory.buffer, pool.base + 4096, COUNT).every((x) => x === value);
  return { pool, fill, all };
}

const found = { right: true };
for (const threads of [2, 3, 5]) {
  const { pool, fill, all } = await open(threads);
  for (let i = 0; i < 20; i += 1) {
    if (i === 5) await later(30); // helpers are there now, and asleep
    if (fill(i + 0.5, i % 4 > 0) !== 0 || !all(i + 0.5)) found.right = false;
  }
  await pool.helpers[0].terminate(); // between two records
  found.right &&= fill(77, true) === 0 && all(77);
  pool.close();
}
{
  // Runs that try to share, in slices: one that shares to its end, and one that is given up; then with a record of no kernel.
  const { pool } = await open(3);
  const functions = [];
  pool.attach({ HEAPU8: new Uint8Array(1 << 16), addFunction: (work) => functions.push(work) - 1 });
  pool.recordBytes = 248;
  const [records, many, each] = [pool.base, 20, 1000];
  const values = pool.base + 8192;
  pool.grow(values + 4 * many * each);
  const write = (kernelOf, value) => {
    for (let i = 0; i < many; i += 1) {
      const record = new DataView(pool.memory.buffer, records + 248 * i, 248);
      record.setInt32(0, kernelOf(i), true);
      record.setInt32(4, 5000, true);
      record.setUint32(8, values + 4 * each * i, true);
      record.setBigInt64(40, BigInt(each), true);
      record.setFloat32(232, value + i, true);
    }
  };
  const asked = [];
  const tries = (until) => {
    pool.chooser.run = (key, work) => work(true, (done) => (asked.push(done), done >= until));
    return functions[pool.functions.replay](records, many);
  };
  const filled = (value) => [...Array(many).keys()].every((i) => new Float32Array(pool.memory.buffer, values + 4 * each * i, each).every((x) => x === value + i));
  write(() => Number(kernel), 1);
  found.right &&= tries(2) === 0 && filled(1) && asked.join() === "0.15,0.3,0.45,0.6,0.75,0.9";
  asked.length = 0;
  write(() => Number(kernel), 50);
  found.right &&= tries(0.3) === 0 && filled(50) && asked.join() === "0.15,0.3";
  write((i) => (i === 13 ? -1 : Number(kernel)), 1);
  found.wrongRecord = [tries(2) >> 8, tries(0.3) >> 8];
  pool.close();
}
{
  const { pool, fill } = await open(2); // this worker fails
  found.trapHere = fill(1, false, 0xffff0000);
  found.why = pool.lost;
  found.after = fill(1, false);
  found.helpers = pool.helpers.length;
}
{
  const { pool, fill } = await open(2); // some worker fails
  await later(30);
  found.trapShared = fill(1, true, 0xffff0000) & 255;
  found.afterwards = fill(1, true);
}
console.log(JSON.stringify(found));
process.exit(0);
