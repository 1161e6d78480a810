"""Language models that write by masked diffusion: all tokens of a text see one another, and the model fills places that
are masked (Sahoo et al. 2024, arXiv 2406.07524; Nie et al. 2025, arXiv 2502.09992).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dataclass import dataclass
from ...engine import Tensor
from ...engine.ops import index_select
from ...errors import ArgumentError, ModelError
from ..decoders.decoder_blocks import RotaryLanguageModel
from .decoder_encoders import BothWaysText


@dataclass(frozen=True)
class Denoising:
    """How a model writes: `mask` is the token of masked places; `shifted`: the logits of a place are those after the
    token before it, as in the language models that some were made of. `remasking` and `block_length` (None: the whole
    text is one block) are the usual settings of text.generation.denoising, which fills as many places in each step,
    or, if there is a `least_time`, those of times from 1 to it.
    """

    mask: int
    shifted: bool = False
    remasking: str = "low_confidence"
    block_length: int | None = None
    least_time: float | None = None


class MaskedDiffusionModel(RotaryLanguageModel):
    """A masked diffusion model. `config` has mask_token_id. There is no cache: every pass reads the whole text."""

    whole_text = BothWaysText
    denoising: Denoising
    # Settings of SamplingOptions, where a model's generation_config.json does not say them.
    usual_settings: Mapping[str, Any] = {"temperature": 0.0, "top_p": 1.0}

    def predictions(self, tokens: Tensor, places: Tensor) -> Tensor:
        """tokens (B, T) integers, places (M,) int64 in the text → the logits of the tokens there (B, M, V)."""
        x = self.hidden(tokens)  # (B, T, hidden_size)
        if self.denoising.shifted:
            places = (places - 1).clamp(min=0)
        return self.head(index_select(x, 1, places))

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> None:
        """None: it has no cache. ArgumentError for several texts."""
        if texts is not None:
            raise ArgumentError("it writes one text at a time, by masked diffusion, without a cache")

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True) -> Tensor:
        """ModelError: it does not write token by token."""
        raise ModelError(
            "this model writes by masked diffusion, not token by token",
            hint="Use text.generation.generate, or call the model with the whole text",
        )
