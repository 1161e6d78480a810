"""The fields of config.json that encoders of texts share."""

from __future__ import annotations

from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.nn.vision.page_encoder import PAGE

from .config import FileConfig, check_divides, check_heads, check_padding, require
from .labels import Labelled


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Labelled, FileConfig):
    """The fields of BERT and its kin. A model adds its own."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = True
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "num_attention_heads", "hidden_size")
        check_padding(getattr(self, "pad_token_id", None), self.vocab_size)


class DecoderPart:
    """What a configuration says of a model that may be the decoder of another one."""

    hidden_size: int

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.hidden_size

    @property
    def source_width(self) -> None:
        """The source's hidden states have the decoder's width."""


def check_page(positions: int) -> None:
    """ModelError for tables that do not hold all places on a page, of which there are 1,001."""
    require(
        PAGE < positions <= 1 << 16,
        f"max_2d_position_embeddings is {positions:,}, expected {PAGE + 1:,} to {1 << 16:,}",
    )


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """BERT's own fields."""

    known_positions: ClassVar[tuple[str, ...]] = ("absolute",)
    decodes: ClassVar[bool] = False  # whether it may be the decoder of another model

    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    position_embedding_type: str = "absolute"
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.position_embedding_type in self.known_positions and (self.decodes or not self.is_decoder),
            f"BERT with position_embedding_type {self.position_embedding_type!r:.40} or as a decoder is not supported",
        )


@dataclass(frozen=True, kw_only=True)
class PageLayersConfig(BertConfig):
    """The fields of LayoutLM 2 and 3, whose layers read where words stand on a page (nn/vision/page_layers.py)."""

    max_2d_position_embeddings: int = 1024
    coordinate_size: int = 128
    shape_size: int = 128
    has_relative_attention_bias: bool = True
    rel_pos_bins: int = 32
    max_rel_pos: int = 128
    has_spatial_attention_bias: bool = True
    rel_2d_pos_bins: int = 64
    max_rel_2d_pos: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_page(self.max_2d_position_embeddings)
        place, size = self.coordinate_size, self.shape_size
        require(
            4 * place + 2 * size == self.hidden_size,
            f"four times coordinate_size {place} and twice shape_size {size} are not hidden_size {self.hidden_size}",
        )
        for name in ("rel_pos_bins", "rel_2d_pos_bins"):
            bins = getattr(self, name)
            require(4 <= bins <= 1 << 12, f"{name} is {bins:,}, expected 4 to {1 << 12:,}")
        for name in ("max_rel_pos", "max_rel_2d_pos"):
            most = getattr(self, name)
            require(most <= 1 << 16, f"{name} is {most:,}, expected at most {1 << 16:,}")


@dataclass(frozen=True, kw_only=True)
class BertTextConfig(BertConfig):
    """The fields of a BERT that is a part of another model. What a file does not say is that of bert-base."""

    model_type = "bert"

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072


@dataclass(frozen=True, kw_only=True)
class RotaryEncoderConfig(EncoderConfig):
    """The fields of encoders whose positions turn queries and keys. `bias`: whether attention and the last projection
    have biases; `gated`: whether feed-forward parts are gated.
    """

    bias: ClassVar[bool] = True
    gated: ClassVar[bool] = True

    rope_parameters: dict[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        check_heads(self.hidden_size, heads, heads, None, self.max_position_embeddings)

    @property
    def size(self) -> int:
        """Features of a head."""
        return self.hidden_size // self.num_attention_heads
