"""An encoder of pictures and a decoder of text that reads its hidden states: TrOCR (Li et al. 2021, arXiv 2109.10282),
Donut (Kim et al. 2021, arXiv 2111.15664), captions.

The two parts are other architectures, which config.json names. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module
from pyapp.nn.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.vision import check_pictures

from ._index import MODEL_TYPES as MODULES
from ._index import TASKS as TASKS_OF
from .loading.config import require

MODEL_TYPES = ("vision-encoder-decoder",)
BASE = ""
IGNORED = r"encoder\.pooler\..*|encoder\.embeddings\.mask_token|.*relative_position_index"
PARTS = {"encoder": "image-features", "decoder": "text-decoder"}  # what each part must be for


@dataclass(frozen=True)
class Config:
    """The configurations of both parts."""

    encoder: Any
    decoder: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known."""
        parts = {}
        for name, task in PARTS.items():
            own = values.get(name)
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected the configuration of the {name}")
            kind = own.get("model_type")  # type: ignore[union-attr]
            module = MODULES.get(kind) if isinstance(kind, str) else None
            if module is None or task not in TASKS_OF[module]:
                known = sorted(name for name, found in MODULES.items() if task in TASKS_OF[found])
                raise ModelError(f"the {name} {kind!r:.50} is not known for {task}", hint=f"Known: {', '.join(known)}")
            parts[name] = importlib.import_module(f"pyapp.models.{module}").Config.from_dict(own)
        return cls(parts["encoder"], parts["decoder"], dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": MODEL_TYPES[0], "encoder": self.encoder.to_dict(), "decoder": self.decoder.to_dict()}
        return {**self.values, **own}

    @property
    def vocab_size(self) -> int:
        """The tokens of the decoder."""
        found: int = self.decoder.vocab_size
        return found

    @property
    def pad_token_id(self) -> int | None:
        """The token of padding."""
        found = self.values.get("pad_token_id")
        return found if type(found) is int else getattr(self.decoder, "pad_token_id", None)


class VisionEncoderDecoder(SequenceToSequence):
    """Both parts, and a projection between them if their widths differ."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = _part(config.encoder, "encoder")
        self.encoder.pooler = None
        self.decoder = _part(config.decoder, "decoder")
        self.most = self.decoder.most
        widths = config.encoder.hidden_size, config.decoder.width
        self.enc_to_dec_proj: Linear | None = None
        if widths[0] != widths[1] and config.decoder.source_width is None:
            self.enc_to_dec_proj = Linear(*widths)

    @property
    def device(self) -> Device:
        found: Device = self.encoder.device
        return found

    @property
    def pixels(self) -> tuple[int, int] | None:
        """The only size (height, width) of pictures that the model takes."""
        found: tuple[int, int] | None = self.encoder.pixels
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D)."""
        x = self.encoder(ids)
        return x if self.enc_to_dec_proj is None else self.enc_to_dec_proj(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        found: Tensor = self.decoder(tokens, memory)
        return found

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if ids.dtype.is_floating_point:
            check_pictures(type(self).__name__, ids, self.config.encoder.num_channels, self.pixels)
        else:
            super().check(ids, mask)


def _part(config: Any, name: str) -> Any:
    """The module of one part."""
    module = importlib.import_module(f"pyapp.models.{MODULES[config.to_dict()['model_type']]}")
    return module.TASKS[PARTS[name]](config)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": VisionEncoderDecoder}
