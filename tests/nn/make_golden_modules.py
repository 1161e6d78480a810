"""Makes golden_modules.npz: torch's values of module_cases.py. Run with the extra `oracle`:

python -m tests.nn.make_golden_modules
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .make_golden_training import (
    keep,
    leaf,
    losses,
    modules,
    optimizers,
    save,
    schedules,
    tensors,
    to_torch,
    weighted,
)
from .module_cases import FUNCTIONS, LOSSES, MODULES, OPTIMIZERS, PACKED, SCHEDULES
from .training_cases import values


def functions() -> None:
    for name, (function, arrays, settings) in FUNCTIONS.items():
        leaves = [leaf(array) for array in arrays]
        named: dict[str, Any] = {key: to_torch(value) for key, value in settings.items()}
        if "dtype" in named:
            named["dtype"] = getattr(torch, named["dtype"])
        outputs = tensors(getattr(torch.nn.functional, function)(*(x * 1 for x in leaves), **named))
        weighted(outputs).backward()
        for i, output in enumerate(outputs):
            keep(f"{name}/output/{i}", output)
        for i, x in enumerate(leaves):
            keep(f"{name}/input/{i}", x.grad if x.grad is not None else torch.zeros_like(x))


def packed() -> None:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.manual_seed(1)
    for name, (kind, settings, lengths, states) in PACKED.items():
        layer = getattr(torch.nn, kind)(**settings)
        first = settings.get("batch_first", False)
        shape = (len(lengths), max(lengths)) if first else (max(lengths), len(lengths))
        x = leaf(values(0, *shape, 3))
        sequence = pack_padded_sequence(x, torch.tensor(lengths), first, enforce_sorted=False)
        hidden = None
        if states:
            _, last = layer(x.detach())
            sizes = [tuple(s.shape) for s in tensors(last)]
            hidden = [torch.from_numpy(values(1 + i, *size)) for i, size in enumerate(sizes)]
            hidden = tuple(hidden) if kind == "LSTM" else hidden[0]
        output, last = layer(sequence, hidden)
        padded, counts = pad_packed_sequence(output, first, -1.0)
        found = [padded, *tensors(last)]
        weighted(found).backward()
        for key, value in layer.state_dict().items():
            keep(f"packed {name}/state/{key}", value)
        for i, output in enumerate([*found, counts, sequence.batch_sizes, sequence.sorted_indices]):
            keep(f"packed {name}/output/{i}", output)
        keep(f"packed {name}/input/0", x.grad)
        for key, parameter in layer.named_parameters():
            keep(f"packed {name}/grad/{key}", parameter.grad)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    modules(MODULES)
    losses(LOSSES)
    functions()
    packed()
    optimizers(OPTIMIZERS)
    schedules(SCHEDULES)
    save("golden_modules.npz")
