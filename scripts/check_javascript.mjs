// node --experimental-vm-modules scripts/check_javascript.mjs: parses every script of the project as a module and links
// it, without running it: syntax errors, imports of files that are not there and of names that they do not export.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { SourceTextModule, SyntheticModule, createContext } from "node:vm";

const context = createContext();
const modules = new Map();

function load(path) {
  if (!modules.has(path)) modules.set(path, new SourceTextModule(readFileSync(path, "utf8"), { identifier: path, context }));
  return modules.get(path);
}

/** Packages and files that `make site` adds are not read. They export every name that is imported from them. */
function outside(specifier, importer) {
  const names = new Set();
  for (const [, list] of importer.source.matchAll(/import\s*\{([^}]*)\}\s*from\s*["'][^"']*["']/g)) {
    for (const part of list.split(",")) names.add(part.trim().split(/\s+as\s+/)[0]);
  }
  names.delete("");
  return new SyntheticModule([...names, "default"], () => {}, { identifier: specifier, context });
}

function resolveImport(specifier, importer) {
  const relative = specifier.startsWith(".");
  const path = resolve(dirname(importer.identifier), specifier);
  const assembled = /(^|\/)(node_modules|pyodide|tokenizers|mediabunny)\/[^/]*\.m?js$/.test(specifier) || /\/(node_modules|bench\/peers)\//.test(path);
  if (!relative || assembled) return outside(specifier, { source: readFileSync(importer.identifier, "utf8") });
  // As the servers of tests, benches and examples mount them.
  return load(path.replace(/\/(tests|bench)\/modules\//, "/web/modules/").replace("/examples/javascript/pyapp/", "/web/"));
}

const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.js", "*.mjs"], { encoding: "utf8" });
let failed = 0;
let checked = 0;
for (const path of new Set(listed.split("\n").filter(Boolean).map((name) => resolve(name)))) {
  try {
    const module = load(path);
    if (module.status === "unlinked") await module.link(resolveImport);
    checked++;
  } catch (error) {
    failed++;
    console.error(`${path}: ${error.name}: ${error.message}`);
  }
}
console.log(`${checked} scripts checked`);
process.exit(failed || !checked ? 1 : 0);
