// node scripts/compile_python.mjs job.json: runs compile_python.py in Pyodide, with the project's folder at the same path, and
// that of node_modules, which may be a link to another place.
import { readFileSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "../node_modules/pyodide/pyodide.mjs";

const here = dirname(fileURLToPath(import.meta.url));
try {
  const pyodide = await loadPyodide();
  const project = resolve(here, "..");
  const packages = realpathSync(join(project, "node_modules"));
  for (const folder of packages === join(project, "node_modules") ? [project] : [project, packages]) pyodide.mountNodeFS(folder, folder);
  pyodide.globals.set("job", readFileSync(process.argv[2], "utf8"));
  pyodide.runPython(readFileSync(join(here, "compile_python.py"), "utf8"));
} catch (error) {
  console.error(String(error.message ?? error).slice(-2000)); // without the source line, which is a megabyte of Pyodide
  process.exit(1);
}
