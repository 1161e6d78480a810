"""ESM-2 (Lin et al. 2022, bioRxiv 2022.07.20.500902) and ESM-1b: encoders of proteins, whose words are amino acids.
BERT with norms before the parts, and rotary or learned positions. Nucleotide Transformer (v1) has this architecture.

Parameters have the names of Hugging Face's files. The heads that predict contacts and folds are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Module, ModuleList, ResidualLinear
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import (
    DenseClassifierHead,
    Encoder,
    Intermediate,
    NormedWordsHead,
    Pooler,
    SelfAttention,
    TokenLabelsHead,
    attend,
    attend_joined,
    headed,
    positions_from,
    visible_keys,
)  # fmt: skip

from .loading.config import check_heads, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("esm",)
BASE = "esm"  # the encoder's name in files with a head
IGNORED = r"(esm\.)?(contact_head\..*|.*rotary_embeddings\.inv_freq)"
DROPPED = 0.15 * 0.8  # the share of tokens that were hidden in training


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. token_dropout: hidden tokens become zeros, and the others are
    scaled by how many there are.
    """

    model_type = "esm"

    max_position_embeddings: int = 1026
    pad_token_id: int = 1
    mask_token_id: int | None = None
    position_embedding_type: str = "absolute"
    rope_theta: float = 10000.0
    emb_layer_norm_before: bool | None = None
    token_dropout: bool = False
    is_folding_model: bool = False
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.position_embedding_type in ("absolute", "rotary") and not self.is_decoder,
            f"ESM with position_embedding_type {self.position_embedding_type!r:.40} or as a decoder is not supported",
        )
        require(not self.is_folding_model, "ESMFold, which predicts the places of atoms, is not supported")
        require(
            not self.token_dropout or (self.mask_token_id is not None and 0 <= self.mask_token_id < self.vocab_size),
            f"token_dropout needs a mask_token_id, not {self.mask_token_id!r:.40}",
        )
        if self.position_embedding_type == "rotary":
            heads = self.num_attention_heads
            check_heads(self.hidden_size, heads, heads, None, self.max_position_embeddings)
        else:
            require(
                self.max_position_embeddings > self.pad_token_id + 1,
                f"max_position_embeddings {self.max_position_embeddings} leaves no position after that of padding",
            )


class Embeddings(Module):
    """A token's word, with its position unless positions are rotary; padding is zero."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.padding = config.pad_token_id
        self.hidden = config.mask_token_id if config.token_dropout else None
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, self.padding)
        learned = config.position_embedding_type == "absolute"
        self.position_embeddings = (
            Embedding(config.max_position_embeddings, config.hidden_size, self.padding) if learned else None
        )  # fmt: skip
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps) if config.emb_layer_norm_before else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """ids and attention_mask (B, T) → (B, T, D)."""
        x = self.word_embeddings(ids)  # (B, T, D)
        if self.hidden is not None:
            hidden = ids == self.hidden  # (B, T)
            tokens = float(ids.shape[1]) if attention_mask is None else (attention_mask != 0).float().sum(1)  # (B,)
            factor = (1 - DROPPED) / (1 - hidden.float().sum(1) / tokens)  # (B,)
            x = ops.where(hidden.unsqueeze(-1), 0.0, x) * factor.reshape(-1, 1, 1)
        if self.position_embeddings is not None:
            x = x + self.position_embeddings(positions_from(ids, self.padding))
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x if attention_mask is None else x * (attention_mask != 0).to(x.dtype).unsqueeze(-1)


class Attention(Module):
    """A norm, self-attention, its output projection and the residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.add_module("self", SelfAttention(config.hidden_size, config.num_attention_heads))
        self.output = Module()
        self.output.dense = ResidualLinear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        own = self._modules["self"]
        qkv = own.joined(own, self.LayerNorm(x))  # (B, T, 3 D)
        if table is None:
            y = attend_joined(qkv, own.heads, mask)  # (B, T, D)
        else:
            parts = qkv.reshape(*x.shape[:2], 3 * own.heads, x.shape[2] // own.heads)
            qk = ops.rope(parts.narrow(2, 0, 2 * own.heads), table, interleaved=False)  # (B, T, 2 H, size)
            q, k = (qk.narrow(2, i * own.heads, own.heads) for i in range(2))  # (B, T, H, size)
            y = attend(q, k, parts.narrow(2, 2 * own.heads, own.heads), mask)  # (B, T, D)
        return self.output.dense(y, x)


class Layer(Module):
    """Attention and a feed-forward part, each after a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, "gelu")
        self.output = Module()
        self.output.dense = ResidualLinear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, mask, table)
        return self.output.dense(self.intermediate(self.LayerNorm(x)), x)


class Esm(Encoder):
    """The encoder; with `pooler`, also a layer over the first token. It has no token types: those given are ignored."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        rotary = config.position_embedding_type == "rotary"
        self.most = config.max_position_embeddings - (0 if rotary else config.pad_token_id + 1)
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.encoder.emb_layer_norm_after = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None
        self.rotary = RotaryTable(config.to_dict()) if rotary else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        mask = visible_keys(attention_mask)
        table = None if self.rotary is None else self.rotary.upto(ids.shape[1], self.device)
        x = self.embeddings(ids, attention_mask)
        for layer in self.encoder.layer:
            x = layer(x, mask, table)
        return self.encoder.emb_layer_norm_after(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Esm,
    "masked-lm": headed(NormedWordsHead, BASE, Esm, pooler=False),
    "sequence-classification": headed(DenseClassifierHead, BASE, Esm, ops.tanh, pooler=False),
    "token-classification": headed(TokenLabelsHead, BASE, Esm, pooler=False),
}
