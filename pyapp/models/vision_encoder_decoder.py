"""An encoder of pictures and a decoder of text that reads its hidden states: TrOCR (Li et al. 2021, arXiv 2109.10282),
Donut (Kim et al. 2021, arXiv 2111.15664), captions.

The two parts are other architectures, which config.json names. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.vision.vision import check_pictures

from .loading import two_parts
from .loading.two_parts import PartsConfig, TwoParts

MODEL_TYPES = ("vision-encoder-decoder",)
BASE = ""
IGNORED = rf"{two_parts.IGNORED}|encoder\.embeddings\.mask_token|.*relative_position_index"


@dataclass(frozen=True)
class Config(PartsConfig):
    """The configurations of both parts."""

    model_type = MODEL_TYPES[0]
    parts = {"encoder": "image-features", "decoder": "text-decoder"}


class VisionEncoderDecoder(TwoParts):
    """Both parts, and a projection between them if their widths differ."""

    @property
    def pixels(self) -> tuple[int, int] | None:
        """The only size (height, width) of pictures that the model takes."""
        found: tuple[int, int] | None = self.encoder.pixels
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D)."""
        return self.projected(self.encoder(ids))

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if ids.dtype.is_floating_point:
            check_pictures(type(self).__name__, ids, self.config.encoder.num_channels, self.pixels)
        else:
            super().check(ids, mask)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": VisionEncoderDecoder}
