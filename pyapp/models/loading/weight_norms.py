"""Weights that files store as the norm of each slice and its direction (Salimans and Kingma 2016, arXiv 1602.07868):
they are put together once, while they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyapp.engine import Tensor
from pyapp.formats.checkpoint import TensorInfo

from .stored import Stored

# The names of a weight's norms and direction: of today, and of older files.
NORMS = (("parametrizations.weight.original0", "parametrizations.weight.original1"), ("weight_g", "weight_v"))


def normed_weights(tensors: Mapping[str, TensorInfo], ignored: str) -> dict[str, Stored]:
    """How a file stores the weights that have norms. `ignored`: a pattern of names that are not parameters."""
    return dict(_normed(name for name in tensors if not re.fullmatch(ignored, name)))


def _normed(names: Iterator[str]) -> Iterator[tuple[str, Stored]]:
    for name in names:
        for norm, direction in NORMS:
            if name.endswith(f".{direction}"):
                owner = name.removesuffix(direction)
                yield f"{owner}weight", Stored((f"{owner}{norm}", name), join=_weight)


def _weight(parts: Sequence[Tensor]) -> Tensor:
    """A weight (O, ...) of the norms (O, 1 ...) of its slices and their directions (O, ...)."""
    norms, directions = (part.to("float32") for part in parts)
    lengths = (directions * directions).sum(list(range(1, directions.ndim)), True).sqrt()
    return directions * (norms / lengths)
