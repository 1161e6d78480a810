// node install_in_pyodide.mjs SITE MICROPIP NUMPY PYAPP MODEL TOKENIZER: installs the wheels in a Pyodide as npm has it,
// and prints what this gives as JSON.
import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";

import { loadPyodide } from "../../node_modules/pyodide/pyodide.mjs";

const [site, ...files] = process.argv.slice(2);
const { createEncoder } = await import(resolve(site, "tokenizers.js"));
const pyodide = await loadPyodide({ stdout: console.error });
for (const file of files) pyodide.FS.writeFile(`/tmp/${basename(file)}`, readFileSync(file));
const [micropip, numpy, pyapp, model, tokenizer] = files.map((file) => `/tmp/${basename(file)}`);
await pyodide.loadPackage(`file://${files[0]}`, { checkIntegrity: false });
pyodide.registerJsModule("page_tokenizers", { createEncoder });
console.log(await pyodide.runPythonAsync(`
import json
import micropip
await micropip.install(["emfs:${numpy}", "emfs:${pyapp}"])
import page_tokenizers
import pyapp
from pyapp import nn, tasks
from pyapp.browser import use_tokenizers
from pyapp.engine.native import instruction_set

model = nn.Linear(4, 1)
optimizer = pyapp.optim.SGD(model.parameters(), lr=0.1)
x = pyapp.randn(16, 4)
losses = []
for _ in range(50):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
use_tokenizers(page_tokenizers.createEncoder)
events = tasks.generate("${model}", "Once upon a time", {"temperature": 0, "max_new_tokens": 20}, tokenizer="${tokenizer}")
text = "".join([event.text async for event in events if isinstance(event, tasks.Token)])
json.dumps({"instruction_set": instruction_set(), "losses": losses, "text": text, "eigen": pyapp.linalg.eigvalsh(pyapp.eye(3)).tolist()})
`));
