"""What GPT-2 and the models of its form share: the fields of config.json, and names and keys of GGUF files."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import FileConfig, check_divides

GGUF_NAMES = {
    "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
    "lm_head": "output", "transformer.h.{}.ln_1": "blk.{}.attn_norm", "transformer.h.{}.ln_2": "blk.{}.ffn_norm",
    "transformer.h.{}.attn.c_attn": "blk.{}.attn_qkv", "transformer.h.{}.attn.c_proj": "blk.{}.attn_output",
    "transformer.h.{}.mlp.c_fc": "blk.{}.ffn_up", "transformer.h.{}.mlp.c_proj": "blk.{}.ffn_down",
}  # fmt: skip
GGUF_KEYS = {
    "n_positions": "context_length",
    "n_embd": "embedding_length",
    "n_layer": "block_count",
    "n_head": "attention.head_count",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
}


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(FileConfig):
    """The fields of config.json that models of GPT-2's form have."""

    vocab_size: int
    n_positions: int = 1024
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "n_head", "n_embd")

    @property
    def hidden_size(self) -> int:
        return self.n_embd

    @property
    def num_hidden_layers(self) -> int:
        return self.n_layer

    @property
    def num_attention_heads(self) -> int:
        return self.n_head

    @property
    def num_key_value_heads(self) -> int:
        return self.n_head

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def max_seq_len(self) -> int:
        return self.n_positions

    @property
    def inner_size(self) -> int:
        """The features between the two layers of the feed-forward part."""
        return self.n_inner or 4 * self.n_embd
