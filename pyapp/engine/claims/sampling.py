"""The draw of a token, and the peak of a row of logits (native/sample.c)."""

from __future__ import annotations

from ..launch import KERNELS, launch_all
from ..op import claims
from ..ops import sampling as _sampling  # noqa: F401 (defines the ops)
from ..tensor import Tensor

_SAMPLE, _ARGMAX, _CROSS_ENTROPY = KERNELS["sample_f32"], KERNELS["argmax_f32"], KERNELS["cross_entropy_f32"]


@claims("_sample")
def _sample(
    token: Tensor, logits: Tensor, uniform: Tensor, candidates: Tensor, history: Tensor | None, history_count: int,
    temperature: float, top_k: int, top_p: float, min_p: float, penalty: float,
) -> Tensor:  # fmt: skip
    vocabulary = logits.shape[0]
    _SAMPLE.launch(
        vocabulary >> 9, token, logits, history, uniform, candidates, vocabulary, history_count, top_k,
        temperature, top_p, min_p, penalty,
    )  # fmt: skip
    return token


@claims("_peak")
def _peak(place: Tensor, excess: Tensor, logits: Tensor) -> Tensor:
    """The excess is -log(softmax) of the largest logit."""
    size = logits.shape[0]
    launch_all(
        size >> 7,
        (_ARGMAX, place, logits, 1, size, size),
        (_CROSS_ENTROPY, excess, None, None, logits, place, None, 1, size, -1),
    )
    return place
