"""All parameters as one vector, by torch.nn.utils' names."""

from __future__ import annotations

from collections.abc import Iterable

from ...engine import Tensor, no_grad
from ...engine.ops import cat
from ...engine.user_errors import describe

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other."""
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copies a vector of parameters_to_vector into the parameters. ValueError if the lengths differ."""
    every = list(parameters)
    if vec.shape != (sum(parameter.numel() for parameter in every),):
        raise ValueError(
            f"vector_to_parameters: {describe(vec)} for {sum(parameter.numel() for parameter in every)} numbers"
        )
    start = 0
    with no_grad():
        for parameter in every:
            parameter.copy_(vec[start : start + parameter.numel()].reshape(parameter.shape))
            start += parameter.numel()
