// node check_imports.mjs pyodide.asm.wasm folder: every import of the side modules must be there in Pyodide's main module.
import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";

const [mainPath, folder] = process.argv.slice(2);
const main = new WebAssembly.Module(readFileSync(mainPath));
const script = readFileSync(mainPath.replace(/\.wasm$/, ".mjs"), "utf8");
const provided = new Set([...WebAssembly.Module.exports(main), ...WebAssembly.Module.imports(main)].map((entry) => entry.name));
const byLoader = /^(memory|__indirect_function_table|__memory_base|__table_base|__stack_pointer)$/;
let failed = false;
let checked = 0;
for (const name of readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(".so"))) {
  const module = new WebAssembly.Module(readFileSync(join(folder, name)));
  const own = new Set(WebAssembly.Module.exports(module).map((entry) => entry.name));
  const missing = WebAssembly.Module.imports(module)
    .map((entry) => entry.name)
    .filter((wanted) => !byLoader.test(wanted) && !provided.has(wanted) && !own.has(wanted) && !script.includes(wanted));
  if (missing.length) console.error(`${basename(name)} misses ${missing.join(", ")}`);
  failed ||= missing.length > 0;
  checked++;
}
console.log(`${checked} modules checked`);
process.exit(failed || !checked ? 1 : 0);
