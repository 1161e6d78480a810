// Starts the site's own Pyodide, with the site's own wheels, and runs pytest in it. Messages: {line}, and {exit, summary}
// for each run of the job.
import createPyodideModule from "../pyodide/pyodide.asm.js";
import { loadPyodide } from "../pyodide/pyodide.js";
import { openPool } from "../modules/worker/pool.js";
import { addLibrary } from "../modules/worker/unpack.js";
import { createEncoder, loadTokenizers } from "../modules/worker/tokenizer.js";

const SITE = new URL("../", import.meta.url);

async function bytesOf(path) {
  const response = await fetch(new URL(path, SITE));
  if (!response.ok) throw new Error(`${path}: status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Whole lines only: pytest flushes after every dot. */
function lineWriter() {
  const decoder = new TextDecoder();
  let rest = "";
  return (bytes) => {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) postMessage({ line });
    return bytes.length;
  };
}

async function start() {
  const folder = new URL("pyodide/", SITE).href;
  const pyodide = await loadPyodide({ indexURL: folder, packageBaseUrl: folder, createPyodideModule });
  const lock = JSON.parse(new TextDecoder().decode(await bytesOf("pyodide/pyodide-lock.json")));
  addLibrary(pyodide, (await bytesOf(`pyodide/${lock.packages["python-later"].file_name}`)).buffer);
  const wanted = ["numpy", "pyapp", "pyapp-english", "micropip", "jinja2"];
  const loaded = await pyodide.loadPackage(wanted, { messageCallback: () => {} });
  const missing = wanted.filter((name) => !loaded.some((item) => item.name === name));
  if (missing.length) throw new Error(`not loaded, or with a wrong hash: ${missing.join(", ")}`);
  return pyodide;
}

async function run(job) {
  const pyodide = await start();
  const packages = pyodide.runPython("import sysconfig; sysconfig.get_paths()['purelib']");
  for (const wheel of job.wheels) pyodide.unpackArchive(await bytesOf(wheel), "zip", { extractDir: packages });
  pyodide.unpackArchive(await bytesOf(job.files), "zip", { extractDir: "/home/pyodide" });
  await loadTokenizers();
  // Before the kernels are loaded: the library of the job, not the best one.
  pyodide.runPython(`import os; os.environ["PYAPP_LIBRARY"] = "${packages}/pyapp/_native/libpyapp_${job.kernels}.wasm"`);
  const problems = [];
  const pool = await openPool(2, (problem) => problems.push(problem), job.kernels);
  if (pool === null) throw new Error(`there are no threads: ${problems}`);
  pool.attach(pyodide._module);
  const openGraphicsCard = async () => (await import("../modules/worker/webgpu.js")).openGraphicsCard(pyodide._module);
  pyodide.pyimport("pyapp.browser").install({ createEncoder, pool, openGraphicsCard });
  pyodide.setStdout({ write: lineWriter() });
  pyodide.setStderr({ write: lineWriter() });
  pyodide.globals.set("job", JSON.stringify(job));
  const program = await (await fetch(new URL("in_pyodide.py", import.meta.url))).text();
  await pyodide.runPythonAsync(program);
  for (const options of job.runs) {
    // A call from here would leave less of the stack: tests that go deep need all of it.
    const [exit, summary] = (await pyodide.runPythonAsync(`run(${JSON.stringify(JSON.stringify(options))})`)).toJs();
    postMessage({ exit, summary });
  }
}

self.onmessage = async ({ data }) => {
  try {
    await run(data);
  } catch (error) {
    postMessage({ line: String(error.message ?? error).slice(-4000), exit: 3, summary: "Pyodide did not get so far" });
  }
};
