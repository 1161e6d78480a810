"""Makes golden_training.npz and golden_schedules.npz: results of torch's layers, losses, optimisers and schedulers. Run
with the extra `oracle`:

python -m tests.nn.make_golden_training
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.goldens import kept_arrays, write_npz
from tests.nn.cases import SHAPES, STEPS, gradient, start
from tests.nn.training_cases import (
    CHANGED_AT,
    CHANGED_TO,
    LOSSES,
    METRICS,
    MODULES,
    MOMENT_OPTIMIZERS,
    SCHEDULE_PAIRS,
    SCHEDULE_STEPS,
    SCHEDULES,
    SCHEDULES_OF_PAIRS,
    Case,
    load_golden,
    values,
)

golden: dict[str, np.ndarray] = {}


def to_torch(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def leaf(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.copy()).requires_grad_(array.dtype == np.float32)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value if part is not None for t in tensors(part)]


def keep(name: str, tensor: torch.Tensor) -> None:
    golden[name] = tensor.detach().numpy().copy()


def modules(cases: dict[str, Case]) -> None:
    torch.manual_seed(0)
    for name, case in cases.items():
        module = getattr(torch.nn, case.kind)(**case.settings)
        with torch.no_grad():
            for parameter in module.parameters():  # biases and norms that are not all zeros and ones
                parameter.add_(0.1 * torch.randn_like(parameter))
            for buffer in module.buffers():
                if buffer.dtype == torch.float32:
                    buffer.add_(torch.rand_like(buffer))
        module.train(case.training)
        for key, value in module.state_dict().items():
            keep(f"{name}/state/{key}", value)
        inputs = [leaf(array) for array in case.inputs]
        outputs = tensors(module(*inputs, **{key: to_torch(v) for key, v in case.options.items()}))
        weighted(outputs).backward()
        for i, output in enumerate(outputs):
            keep(f"{name}/output/{i}", output)
        for i, tensor in enumerate(inputs):
            if tensor.grad is not None:
                keep(f"{name}/input/{i}", tensor.grad)
        for key, parameter in module.named_parameters():
            keep(f"{name}/grad/{key}", parameter.grad)
        for key, buffer in module.named_buffers():
            keep(f"{name}/after/{key}", buffer)


def weighted(outputs: list[torch.Tensor]) -> torch.Tensor:
    """A number whose gradient differs from element to element."""
    return sum(
        (output * torch.from_numpy(values(i, *output.shape))).sum()
        for i, output in enumerate(outputs)
        if output.is_floating_point()
    )


def losses(cases: dict[str, Any]) -> None:
    for name, (function, arrays, settings) in cases.items():
        kinds = ("none", "sum", "mean", *(("batchmean",) if function == "kl_div" else ()))
        for reduction in kinds:
            arguments = [leaf(array) for array in arrays]
            named = {key: to_torch(value) for key, value in settings.items()}
            result = getattr(torch.nn.functional, function)(*arguments, **named, reduction=reduction)
            (result * torch.from_numpy(values(1, *result.shape))).sum().backward()
            keep(f"{name}/{reduction}", result)
            for i, argument in enumerate(arguments[:2]):
                if argument.grad is not None:
                    keep(f"{name}/{reduction}/{i}", argument.grad)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 2302.06675; torch has none."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = group["betas"][0] * m + (1 - group["betas"][0]) * p.grad
                p.copy_(p - group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.copy_(group["betas"][1] * m + (1 - group["betas"][1]) * p.grad)


def optimizers(cases: dict[str, Any]) -> None:
    for name, (kind, settings) in cases.items():
        parameters = [torch.nn.Parameter(torch.from_numpy(start(i))) for i in range(len(SHAPES))]
        optimizer = (Lion if kind == "Lion" else getattr(torch.optim, kind))(parameters, **settings)
        for step in range(STEPS):
            for i, parameter in enumerate(parameters):
                parameter.grad = torch.from_numpy(gradient(i, step))
            optimizer.step()
            if step in (0, STEPS - 1):
                for i, parameter in enumerate(parameters):
                    keep(f"{name}/{step}/{i}", parameter)


def schedules(cases: dict[str, Any]) -> None:
    for name, (kind, settings) in cases.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3, momentum=0.9)
        schedule = getattr(torch.optim.lr_scheduler, kind)(optimizer, **settings)
        rates = []
        for step in range(SCHEDULE_STEPS):
            rates.append([optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]])
            optimizer.step()
            schedule.step(*([METRICS[step]] if kind == "ReduceLROnPlateau" else []))
        golden[f"{name}/rates"] = np.array(rates)


def changed_rates() -> None:
    """The rates of two schedules that are both stepped, and of schedules whose rate the user has changed."""
    plans = torch.optim.lr_scheduler
    every = dict(SCHEDULE_PAIRS) | {f"changed {name}": (name,) for name in SCHEDULES_OF_PAIRS}
    for case, names in every.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3, momentum=0.9)
        chosen = [SCHEDULES_OF_PAIRS[name] for name in names]
        schedules = [getattr(plans, kind)(optimizer, **settings) for kind, settings in chosen]
        rates = []
        for step in range(SCHEDULE_STEPS):
            if step == CHANGED_AT and case.startswith("changed"):
                optimizer.param_groups[0]["lr"] = CHANGED_TO
            optimizer.step()
            for schedule, (kind, _) in zip(schedules, chosen, strict=True):
                schedule.step(*([METRICS[step]] if kind == "ReduceLROnPlateau" else []))
            rates.append(optimizer.param_groups[0]["lr"])
        golden[f"{case}/rates together"] = np.array(rates)


def save(file: str) -> None:
    """One array and an index: hundreds of entries would be mostly headers."""
    path = Path(__file__).with_name(file)
    new = {name: np.asarray(array, np.float32) for name, array in golden.items()}
    arrays = kept_arrays(new, load_golden(file) if path.exists() else {})
    index = json.dumps({name: array.shape for name, array in arrays.items()}, separators=(",", ":"))
    flat = np.concatenate([array.reshape(-1) for array in arrays.values()])
    write_npz(path, {"index": np.frombuffer(index.encode(), np.uint8), "values": flat})
    print(file, len(golden), "arrays,", path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    modules(MODULES)
    losses(LOSSES)
    optimizers(MOMENT_OPTIMIZERS)
    schedules(SCHEDULES)
    save("golden_training.npz")
    golden.clear()
    changed_rates()
    save("golden_schedules.npz")
