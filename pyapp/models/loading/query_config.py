"""The fields of config.json of a Q-Former (nn/vision_language/query_former.py)."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import check_divides, check_fields, check_padding, require


@dataclass(frozen=True, kw_only=True)
class QueryConfig:
    """The fields of qformer_config and of projector_config."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    cross_attention_frequency: int = 2
    vocab_size: int = 30522  # these are InstructBLIP's
    max_position_embeddings: int = 512
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_padding(self.pad_token_id, self.vocab_size)
        check_divides(self, "num_attention_heads", "hidden_size")
        require(self.num_hidden_layers <= 1 << 10, f"a Q-Former of {self.num_hidden_layers:,} layers")
