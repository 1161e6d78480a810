"""The decoder of SAM-HQ (Ke et al. 2023, arXiv 2306.01567): that of Segment Anything with a further token, whose mask,
of a map that also has what the tower saw early, is added to each.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Tensor, ops
from ..layers.convolution import Conv2d, ConvTranspose2d
from ..layers.embedding import Embedding
from ..layers.normalization import LayerNorm
from .sam_tower import EPSILON
from .segment_anything import Form, Head, MaskDecoder, vectors_of
from .vision import over_channels


class FineMaskDecoder(MaskDecoder):
    """Masks of a finer map. `width`: the channels of the tower's inner map."""

    def __init__(self, config: Any, form: Form, width: int) -> None:
        super().__init__(config, form)
        own = config.hidden_size
        self.hq_token = Embedding(1, own)
        self.hq_mask_mlp = Head(own, own, own // 8, 3)
        self.compress_vit_conv1 = ConvTranspose2d(width, own, 2, stride=2)
        self.compress_vit_norm = LayerNorm(own, EPSILON)
        self.compress_vit_conv2 = ConvTranspose2d(own, own // 8, 2, stride=2)
        self.encoder_conv1 = ConvTranspose2d(own, own // 4, 2, stride=2)
        self.encoder_norm = LayerNorm(own // 4, EPSILON)
        self.encoder_conv2 = ConvTranspose2d(own // 4, own // 8, 2, stride=2)
        self.mask_conv1 = Conv2d(own // 8, own // 4, 3, padding=1)
        self.mask_norm = LayerNorm(own // 4, EPSILON)
        self.mask_conv2 = Conv2d(own // 4, own // 8, 3, padding=1)

    def fine(self, image: Tensor, inner: Tensor | None) -> Tensor:
        """A picture's map image (B, C, side, side) and the tower's inner one (B, side, side, width), if there is one →
        the finer map (B, C / 8, 4 * side, 4 * side).
        """
        x = self.encoder_conv2(ops.gelu(over_channels(self.encoder_conv1(image), self.encoder_norm)))
        if inner is None:
            return x
        y = ops.gelu(over_channels(self.compress_vit_conv1(inner.permute(0, 3, 1, 2)), self.compress_vit_norm))
        return x + self.compress_vit_conv2(y)

    def decoded(
        self, prompts: Tensor, image: Tensor, places: Tensor, finer: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As MaskDecoder.decoded; finer: the map that `fine` makes."""
        count = self.mask_tokens.num_embeddings
        own = ops.cat([*self.own_tokens(), vectors_of(self.hq_token)])  # (2 + M, C)
        x, image = self.seen(own, prompts, image, places)  # (B, T, C), (B, C / 8, 4 * side, 4 * side)
        map_of_fine = self.mask_conv2(ops.gelu(over_channels(self.mask_conv1(image), self.mask_norm))) + finer[0]
        filters = [head(x.select(1, 1 + i)) for i, head in enumerate(self.output_hypernetworks_mlps)]
        found = ops.stack(filters, 1) @ image.flatten(2)  # (B, M, pixels)
        found = found + self.hq_mask_mlp(x.narrow(1, 1 + count, 1)) @ map_of_fine.flatten(2)
        return found.reshape(*found.shape[:2], *image.shape[2:]), self.scores(x.select(1, 0)), x
