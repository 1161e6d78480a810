// node scripts/check_types.mjs: checks the types in the JSDoc of web/ with TypeScript. It writes build/types/elements.d.ts
// first: the ids of the page's elements and their kinds, from index.html and from calls like h("p", { id: "name" }), so that
// byId("prompt") is a textarea.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const ELEMENTS = "build/types/elements.d.ts";
const PROJECTS = ["tsconfig.json", "scripts/types/worker.json"];
const IN_HTML = /<([a-z][a-z0-9]*)\b[^>]*?\sid="([\w-]+)"/g;
const IN_SCRIPT = /\bh\(\s*"([a-z][a-z0-9]*)",\s*\{[^{}]*?\bid:\s*"([\w-]+)"/g;

const scripts = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "web/modules/*.js"], { encoding: "utf8" });
const found = new Map();
for (const [files, pattern] of [[["web/index.html"], IN_HTML], [new Set(scripts.split("\n").filter(Boolean)), IN_SCRIPT]]) {
  for (const file of files) {
    for (const [, tag, id] of readFileSync(file, "utf8").matchAll(pattern)) found.set(id, tag);
  }
}
const lines = [...found].sort().map(([id, tag]) => `  ${JSON.stringify(id)}: HTMLElementTagNameMap[${JSON.stringify(tag)}];`);
mkdirSync("build/types", { recursive: true });
writeFileSync(ELEMENTS, `/** Written by scripts/check_types.mjs. */\ninterface ElementsById {\n${lines.join("\n")}\n}\n`);

let failed = false;
for (const project of PROJECTS) {
  const { status } = spawnSync("node_modules/.bin/tsc", ["--project", project, "--pretty", String(process.stdout.isTTY ?? false)], { stdio: "inherit" });
  failed ||= status !== 0;
}
console.log(failed ? "the types are not right" : `types checked, ${found.size} elements by id`);
process.exit(failed ? 1 : 0);
