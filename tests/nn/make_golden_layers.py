"""Makes golden_layers.npz: torch's values of layer_cases.py. Run with the extra `oracle`:

python -m tests.nn.make_golden_layers
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch

from tests.goldens import write_npz

from .layer_cases import CTC, LAYERS
from .make_golden_training import leaf, to_torch
from .training_cases import values

golden: dict[str, np.ndarray] = {}


def layers() -> None:
    torch.manual_seed(0)
    for name, case in LAYERS.items():
        module = getattr(torch.nn, case.kind)(**case.settings).train(case.training)
        with torch.no_grad():
            for buffer in module.buffers():
                if buffer.dtype == torch.float32:
                    buffer.add_(torch.rand_like(buffer))
        for key, value in module.state_dict().items():
            golden[f"{name}/state/{key}"] = value.numpy().copy()
        inputs = [leaf(array) for array in case.inputs]
        output = module(*inputs, **{key: to_torch(v) for key, v in case.options.items()})
        (output * torch.from_numpy(values(0, *output.shape))).sum().backward()
        golden[f"{name}/output"] = output.detach().numpy()
        for i, tensor in enumerate(inputs):
            if tensor.grad is not None:
                golden[f"{name}/input/{i}"] = tensor.grad.numpy()
        for key, parameter in module.named_parameters():
            golden[f"{name}/grad/{key}"] = parameter.grad.numpy()
        for key, buffer in module.named_buffers():
            golden[f"{name}/after/{key}"] = buffer.numpy()


def ctc() -> None:
    for name, (array, targets, inputs, lengths, settings) in CTC.items():
        logits = leaf(array)
        sizes = (torch.tensor(inputs), torch.tensor(lengths))
        loss = torch.nn.functional.ctc_loss(logits.log_softmax(-1), torch.from_numpy(targets), *sizes, **settings)
        loss.sum().backward()
        golden[f"ctc {name}/loss"] = loss.detach().numpy()
        golden[f"ctc {name}/grad"] = logits.grad.numpy()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    layers()
    ctc()
    path = Path(__file__).with_name("golden_layers.npz")
    write_npz(path, golden)
    print(path.name, len(golden), "arrays,", path.stat().st_size, "bytes, torch", torch.__version__)
