"""The memory that loading takes: little more than the larger of the file and the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pyapp
from pyapp.formats import write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models import llama
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.nn.parameter import skip_initialization

pytestmark = [
    pytest.mark.native_only,
    pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's account of the memory"),
]

SETTINGS = {
    "model_type": "llama", "vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": True,
}  # fmt: skip
SPARE = 6 << 20  # bytes that do not grow with the model
PROGRAM = """
import json, sys
import numpy
import pyapp, pyapp.models.load, pyapp.models.llama, pyapp.models.loading.gguf, pyapp.models.loading.weights
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint

def now(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))

pyapp.nn.quantize(pyapp.nn.Linear(64, 64), "q8_0")
path, dtype, settings = json.loads(sys.argv[1])
before = now("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
with open_checkpoint(path) as checkpoint:
    model = pyapp.models.load.build(checkpoint, lambda event: None, Cancel(), settings, dtype)
print(json.dumps([now("VmHWM") - before, sum(p.nbytes for p in model.parameters())]))
"""


def test_loading_takes_little_more_than_the_file(tmp_path: Path) -> None:
    with skip_initialization():
        model = llama.LlamaForCausalLM(llama.Config.from_dict(SETTINGS))
    halves = tmp_path / "model.safetensors"
    shapes = {name: value.shape for name, value in model.named_parameters() if name != "lm_head.weight"}
    write_safetensors(halves, {name: pyapp.full(shape, 0.5, dtype="float16") for name, shape in shapes.items()})
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    gguf = tmp_path / "model.gguf"
    quantize_file(halves, gguf, "q8_0", view=gguf_view(halves))
    for path, dtype, settings in ((halves, "q8_0", SETTINGS), (gguf, None, None)):
        argument = json.dumps([str(path), dtype, settings])
        done = subprocess.run([sys.executable, "-c", PROGRAM, argument], capture_output=True, text=True, check=True)
        peak, held = json.loads(done.stdout)
        assert peak <= 1.15 * max(held, path.stat().st_size) + SPARE, (path.name, dtype, peak >> 20, held >> 20)
