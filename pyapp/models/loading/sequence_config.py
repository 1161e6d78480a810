"""The fields of config.json that BART and its kin share: an encoder and a decoder over one width."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import FileConfig, check_depth, check_padding, check_token, require


@dataclass(frozen=True, kw_only=True)
class SequenceToSequenceConfig(FileConfig):
    """The hyper-parameters, by the names of config.json. A model adds its own."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_layers: int
    decoder_attention_heads: int
    decoder_ffn_dim: int
    activation_function: str = "gelu"
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    pad_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        check_depth(max(self.encoder_layers, self.decoder_layers))
        check_padding(self.pad_token_id, self.vocab_size)
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)
