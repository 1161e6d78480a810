"""BLIP (Li et al. 2022, arXiv 2201.12086): a Vision Transformer, and a decoder with BERT's layers that writes what a
picture shows.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.blip import BlipVision
from pyapp.nn.encoders import Intermediate, NormedResidual, Predictions
from pyapp.nn.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.vision import check_pictures

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


class TextAttention(Module):
    """Attention of each token to the text so far, or to the picture; the residual and the norm."""

    def __init__(self, config: BlipTextConfig, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        parts = Module()
        parts.query, parts.key, parts.value = (Linear(wide, width) for wide in (width, source_width, source_width))
        self.add_module("self", parts)
        self.output = NormedResidual(width, width, config.layer_norm_eps)

    def heads_of(self, name: str, x: Tensor) -> Tensor:
        """x (B, T, D) → the queries, keys or values (B, T, H, D')."""
        return self._modules["self"]._modules[name](x).reshape(*x.shape[:2], self.heads, -1)

    def own(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        q, k, v = (self.heads_of(name, x) for name in ("query", "key", "value"))
        return self.output(memory.own(layer, q, k, v), x)

    def source(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        return self.output(memory.source(layer, self.heads_of("query", x), self.project), x)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D') of a picture (B, S, D)."""
        return self.heads_of("key", encoded), self.heads_of("value", encoded)


class TextLayer(Module):
    """Attention to the text, attention to the picture and a feed-forward part, each followed by a residual and a
    norm.
    """

    def __init__(self, config: BlipTextConfig, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = TextAttention(config, width)
        self.crossattention = TextAttention(config, source_width)
        self.intermediate = Intermediate(width, config.intermediate_size, config.hidden_act)
        self.output = NormedResidual(config.intermediate_size, width, config.layer_norm_eps)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.attention.own(x, memory, layer)
        x = self.crossattention.source(x, memory, layer)
        return self.output(self.intermediate(x), x)


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


class TextDecoder(Module):
    """The decoder with its scores of words."""

    def __init__(self, config: BlipTextConfig, source_width: int) -> None:
        super().__init__()
        self.bert = Module()
        self.bert.embeddings = TextEmbeddings(config)
        self.bert.encoder = Module()
        self.bert.encoder.layer = ModuleList(TextLayer(config, source_width) for _ in range(config.num_hidden_layers))
        self.cls = Module()
        self.cls.predictions = Predictions(config, config.hidden_size, self.bert.embeddings.word_embeddings)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        x = self.bert.embeddings(tokens, memory.positions(tokens))
        for i, layer in enumerate(self.bert.encoder.layer):
            x = layer(x, memory, i)
        return self.cls.predictions(x)


class BlipForConditionalGeneration(SequenceToSequence):
    """Pictures to captions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.text_config.max_position_embeddings
        self.vision_model = BlipVision(config.vision_config)
        self.text_decoder = TextDecoder(config.text_config, config.vision_config.hidden_size)

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
