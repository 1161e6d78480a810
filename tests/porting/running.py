"""Runs a script that was written for torch with pyapp, by changing its imports."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

SCRIPTS = Path(__file__).parent / "scripts"
NAMES = (
    "resnet",
    "vae",
    "tagger",
    "unet",
    "dcgan",
    "translation",
    "mixed",
    "functional",
    "experts",
    "reinforcement",
    "diffusion",
    "nano_gpt",
    "policies",
    "contrast",
    "sequences",
    "own_functions",
    "surgery",
    "signals",
    "graphs",
    "quantized_models",
    "quantized_training",
    "loading",
    "model_library",
    "detection",
    "flows",
    "trainer",
    "vision_transformer",
    "speech",
    "tracing",
)


def ported(text: str) -> str:
    """`import torch` becomes `import pyapp as torch`; imports from torch's modules become imports from pyapp's."""
    text = re.sub(r"^(\s*)import torch$", r"\1import pyapp as torch", text, flags=re.M)
    text = re.sub(r"^(\s*)import torch\.(\S+) as ", r"\1import pyapp.\2 as ", text, flags=re.M)
    text = re.sub(r"^(\s*)import torch\.(\S+)$", r"\1import pyapp.\2", text, flags=re.M)
    return re.sub(r"^(\s*)from torch(\.\S+)? import ", r"\1from pyapp\2 import ", text, flags=re.M)


def load(name: str, framework: str) -> Any:
    """A script as a module, for "torch" or "pyapp"."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    module = types.ModuleType(f"{framework}_{name}")
    code = compile(ported(text) if framework == "pyapp" else text, f"{name}.py", "exec")
    sys.modules[module.__name__] = module  # dataclasses look there
    exec(code, module.__dict__)
    return module


def fill(model: Any) -> None:
    """The same numbers for every parameter in both frameworks, drawn from its name and shape."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if not tensor.dtype.is_floating_point or "running" in name or name == "scale":
            continue
        random = np.random.RandomState(sum(name.encode()) % 1000)
        fan = max(int(np.prod(tensor.shape[1:])), 1)
        values = random.randn(*tensor.shape).astype(np.float32) * (1 / np.sqrt(fan) if tensor.ndim > 1 else 0.1)
        if tensor.ndim == 1 and ("norm" in name or "bn" in name or "ln_" in name) and name.endswith("weight"):
            values += 1
        if "_u" in name or "_v" in name:  # unit vectors of a spectral norm
            values /= np.linalg.norm(values)
        memory = tensor.detach().numpy()
        memory[...] = values
