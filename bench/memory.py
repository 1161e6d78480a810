"""The peak of memory while a Llama loads from a GGUF file with its tokenizer, beside the size of the file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from .browser import WEIGHTS
from .peer_weights import write_gguf
from .report import Figure

# In a process of its own: what the process has before the model does not count.
PROGRAM = """
import json, sys
import numpy, tokenizers
import pyapp, pyapp.hub.resolver, pyapp.models.llama, pyapp.models.load, pyapp.models.loading.reading_gguf
import pyapp.models.loading.weights, pyapp.text.generation.generate, pyapp.text.tokenization.tokenizer_files

def now(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))

pyapp.nn.quantize(pyapp.nn.Linear(64, 64), "q8_0")
before = now("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
loaded = pyapp.models.load.load_model(sys.argv[1])
print(json.dumps(now("VmHWM") - before))
"""


def load_figures(shape: str, kind: str, runs: int) -> Iterator[Figure]:
    """Megabytes at the peak, and of the file. On Linux only."""
    if sys.platform != "linux":
        return
    from .workload import environment

    path = write_gguf(shape, kind, WEIGHTS)
    command = [sys.executable, "-c", PROGRAM, str(path)]
    peaks = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e6
        for _ in range(runs)
    ]  # fmt: skip
    samples = {"pyapp": peaks, "the file": [path.stat().st_size / 1e6] * runs}
    yield Figure(f"native/memory/{shape}/{kind}", "MB", samples, environment())
