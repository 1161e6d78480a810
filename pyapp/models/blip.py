"""BLIP (Li et al. 2022, arXiv 2201.12086): a Vision Transformer, and a decoder with BERT's layers that writes what a
picture shows.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Embedding, LayerNorm, Module
from pyapp.nn.encoders.bert_decoder import TextDecoder
from pyapp.nn.encoders.encoders import Predictions
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.vision.blip import BlipVision
from pyapp.nn.vision.vision import check_pictures

from .loading.config import check_padding
from .loading.pictures_config import PatchConfig
from .loading.towers_config import TextConfig, TowersConfig

MODEL_TYPES = ("blip",)
IMAGE_PROCESSOR = "Blip"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|text_decoder\.cls\.predictions\.decoder\..*"  # the decoder is the table of words


@dataclass(frozen=True, kw_only=True)
class BlipTextConfig(TextConfig):
    """The fields of text_config."""

    vocab_size: int = 30524
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    max_position_embeddings: int = 512
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    bos_token_id: int = 30522
    sep_token_id: int = 102
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class BlipVisionConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "blip_vision_model"
    image = 384

    layer_norm_eps: float = 1e-5


class Config(TowersConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = BlipTextConfig
    vision_class = BlipVisionConfig


class TextEmbeddings(Module):
    """Words and their positions."""

    def __init__(self, config: BlipTextConfig) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """tokens (R, T) at positions (T,) → (R, T, D)."""
        return self.LayerNorm(self.word_embeddings(tokens) + self.position_embeddings(positions))


class CaptionDecoder(TextDecoder):
    """The decoder with its scores of words."""

    def __init__(self, config: BlipTextConfig, source_width: int) -> None:
        super().__init__("bert", config, TextEmbeddings(config), source_width)
        self.cls = Module()
        self.cls.predictions = Predictions(config, config.hidden_size, self.bert.embeddings.word_embeddings)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        return self.cls.predictions(self.hidden(tokens, memory))


class BlipForConditionalGeneration(SequenceToSequence):
    """Pictures to captions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.text_config.max_position_embeddings
        self.vision_model = BlipVision(config.vision_config)
        self.text_decoder = CaptionDecoder(config.text_config, config.vision_config.hidden_size)

    @property
    def device(self) -> Device:
        found: Device = next(iter(self.parameters())).device
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        """The only size (height, width) of pictures that the model takes."""
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    @property
    def generation(self) -> dict[str, Any]:
        """What generation_config.json does not say rightly: the tokens that begin and end a caption."""
        text = self.config.text_config
        return {"decoder_start_token_id": text.bos_token_id, "eos_token_id": text.sep_token_id}

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D)."""
        return self.vision_model(ids)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.text_decoder(tokens, memory)

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if ids.dtype.is_floating_point:
            check_pictures("BLIP", ids, self.config.num_channels, self.pixels)
        else:
            super().check(ids, mask)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": BlipForConditionalGeneration}
