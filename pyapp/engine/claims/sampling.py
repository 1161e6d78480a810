"""The draw of a token, the peak of a row of logits, and masks of tokens (native/sample.c, native/token_mask.c)."""

from __future__ import annotations

from ..launch import KERNELS, launch_all
from ..op import claims
from ..tensor import Tensor

_SAMPLE, _ARGMAX, _CROSS_ENTROPY = KERNELS["sample_f32"], KERNELS["argmax_f32"], KERNELS["cross_entropy_f32"]
_TOKEN_MASK = KERNELS["token_mask"]
UNITS = 1 << 24  # of the kernel's `typical`


@claims("_sample")
def _sample(
    token: Tensor, logits: Tensor, uniform: Tensor, candidates: Tensor, history: Tensor | None, history_count: int,
    temperature: float, top_k: int, top_p: float, min_p: float, typical: float, penalty: float,
) -> Tensor:  # fmt: skip
    vocabulary = logits._shape[0]
    _SAMPLE.launch(
        vocabulary >> 9, token, logits, history, uniform, candidates, vocabulary, history_count, top_k,
        0 if typical >= 1 else round(typical * UNITS), temperature, top_p, min_p, penalty,
    )  # fmt: skip
    return token


@claims("_peak")
def _peak(place: Tensor, excess: Tensor, logits: Tensor) -> Tensor:
    """The excess is -log(softmax) of the largest logit."""
    size = logits._shape[0]
    launch_all(
        size >> 7,
        (_ARGMAX, place, logits, 1, size, size),
        (_CROSS_ENTROPY, excess, None, None, logits, place, None, 1, size, -1, place.dtype.itemsize),
    )
    return place


@claims("_token_mask")
def _token_mask(
    mask: Tensor, table: Tensor, columns_of: Tensor, distance: Tensor, bytes_: Tensor, offsets: Tensor,
    state: int, budget: int,
) -> Tensor:  # fmt: skip
    tokens = mask._shape[0]
    _TOKEN_MASK.launch(
        tokens >> 6, mask, table, columns_of, distance, bytes_, offsets, tokens, table._shape[0], table._shape[1],
        bytes_._shape[0], state, budget,
    )  # fmt: skip
    return mask
