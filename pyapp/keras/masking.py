"""Masks: which steps of a batch of sequences count. A mask (B, steps), bool, travels with the tensor that it belongs
to, as in Keras: layers read it from their inputs and set it on their outputs; losses and metrics read it from
predictions.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..engine import Tensor, ops

_NAME = "_keras_mask"


def mask_of(value: Any) -> Tensor | None:
    """The mask that a tensor carries, or None."""
    return getattr(value, _NAME, None)


def set_mask(value: Any, mask: Tensor | None) -> Any:
    """Makes a tensor carry a mask; returns the tensor."""
    if isinstance(value, Tensor):
        setattr(value, _NAME, mask)
    return value


def exclude(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with a large negative number where the mask is False, whose softmax is 0: as in Keras -3e4 in float16."""
    if mask is None:
        return scores
    least = -3e4 if scores.dtype.name == "float16" else -1e9
    return ops.where(mask, scores, ops.full((), least, dtype=scores.dtype, device=scores.device))


def masked_weights(sample_weight: Any, mask: Tensor | None, dtype: Any, mean: bool) -> Any:
    """Sample weights that are 0 where the mask is. For a mean the others grow, so that it is one over what counts."""
    if mask is None:
        return sample_weight
    weights = mask.to(dtype)
    if mean:
        weights = weights * (prod(mask.shape) / weights.sum().clamp(min=1.0))
    if sample_weight is None:
        return weights
    given = ops.as_tensor(sample_weight).to(dtype).to(weights.device)
    if given.ndim == weights.ndim + 1 and given.shape[-1] == 1:
        given = given.squeeze(-1)
    given = given.reshape(given.shape + (1,) * (weights.ndim - given.ndim))
    return given * weights.reshape(weights.shape + (1,) * (given.ndim - weights.ndim))
