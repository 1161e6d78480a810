"""Runs a written file beside the module that it was written from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.device import cpu
from pyapp.errors import ModelError, PyappError

from .exporting.calls import Call, tensors_of
from .exporting.model_file import data_path
from .module import OnnxModule

APART = 1e-3  # how far numbers may be apart, of the largest number of an output: they are summed in other orders
# The same with weights in blocks: the module rounds activations to int8, where a small difference becomes a step, and a
# file with these weights in float32 does not.
APART_IN_BLOCKS = 5e-2
FAR = 256  # how much larger than the example's a size is tried, where this makes no large inputs
LARGE = 1 << 16  # elements
HINT = "Give the sizes that differ limits, or leave them out; or export a part of the module"


@contextmanager
def removed_if_wrong(file: str | os.PathLike[str]) -> Iterator[None]:
    """Removes a written file, and its tensors beside it, where a check in this context fails."""
    try:
        yield
    except ModelError:
        for path in (Path(file), data_path(file)):
            path.unlink(missing_ok=True)
        raise


def check_outputs(
    model: OnnxModule, module: Callable[..., Any], inputs: Mapping[str, Tensor], names: Sequence[str],
    others: Mapping[str, Tensor] | None = None, *, in_blocks: bool = False,
) -> None:  # fmt: skip
    """ModelError where the file gives other numbers than the module, called with the inputs in order. `names`: of the
    outputs. `others`: inputs of the file alone. `in_blocks`: whether the module has weights in blocks.
    """
    wanted = [output.cpu() for output in tensors_of(module(*inputs.values()))]
    what = ", ".join(f"{name} {tuple(x.shape)}" for name, x in inputs.items())
    try:
        known = {info.name for info in model.inputs}
        with cpu:  # the file says nothing of devices
            found = model.values(**{name: x.cpu() for name, x in {**inputs, **(others or {})}.items() if name in known})
    except PyappError as error:
        raise ModelError(f"the written file does not run with {what}: {error}", hint=HINT) from error
    share = APART_IN_BLOCKS if in_blocks else APART
    for name, own, other in zip(names, found, wanted, strict=True):
        if not isinstance(own, Tensor) or own.shape != other.shape or own.dtype is not other.dtype:
            raise ModelError(f"{name} of the written file is another tensor than the module's, with {what}", hint=HINT)
        if not own.numel():
            continue
        a, b = (x.detach().to("float64") for x in (own, other))
        apart = (a - b).abs().nan_to_num(0.0, float("inf"), float("inf"))  # equal infinities give NaN
        largest = b.abs().nan_to_num(0.0, 0.0, 0.0).max().item()
        same = (a == b) | (a.isnan() & b.isnan()) | ((apart <= share * max(largest, 1e-30)) & a.isfinite())
        if not bool(same.all()):
            raise ModelError(
                f"{name} of the written file is {apart.max().item():.3g} apart from the module's, with {what}",
                hint=HINT,
            )


def has_blocks(weights: Iterable[Tensor]) -> bool:
    """Whether one of the weights is in blocks."""
    return any(weight.dtype.is_quantized for weight in weights)


def check_file(model: OnnxModule, call: Call, names: Sequence[str], *, in_blocks: bool = False) -> None:
    """ModelError where the file gives other numbers than the module: with the example, and with each size that may
    differ 1, or far above the example's. What the module refuses is left out.
    """
    titles = call.titles(False)
    limits = call.limits(titles)
    example = {title: number for title, (number, _, _) in limits.items()}
    for changed in ({}, *_tried(limits, sum(x.numel() for x in call.examples))):
        given = call.resized(titles, example | changed)
        if changed:
            try:
                call.run(given)
            except Exception:  # such a size is not for this module
                continue
        inputs = dict(zip(call.names, given, strict=True))
        check_outputs(model, lambda *inputs: call.run(inputs), inputs, names, in_blocks=in_blocks)


def _tried(limits: Mapping[str, tuple[int, int, int | None]], elements: int) -> Iterator[dict[str, int]]:
    """Sizes that differ from those of an example with so many elements."""
    for title, (number, least, most) in limits.items():
        far = number + FAR if elements * (number + FAR) // number <= LARGE else number + 1
        for size in (1, far if most is None else min(far, most)):
            if size != number and size >= least:
                yield {title: size}
