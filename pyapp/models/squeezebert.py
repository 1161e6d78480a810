"""SqueezeBERT (Iandola et al. 2020, arXiv 2006.11316): BERT whose linear layers are convolutions in groups of features.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Conv1d, LayerNorm, Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    Encoder,
    PooledClassifierHead,
    Pooler,
    PredictionsHead,
    TokenLabelsHead,
    attend,
    choosing,
    headed,
    visible_keys,
)
from pyapp.nn.layers.gated import activation_named

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("squeezebert",)
BASE = "transformer"  # the encoder's name in files with a head
EPSILON = 1e-12  # of the norms of layers, whatever the configuration says


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "squeezebert"

    embedding_size: int = 768
    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    q_groups: int = 4
    k_groups: int = 4
    v_groups: int = 4
    post_attention_groups: int = 1
    intermediate_groups: int = 4
    output_groups: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        size, inner = self.hidden_size, self.intermediate_size
        require(self.embedding_size == size, f"embedding_size {self.embedding_size} is not hidden_size {size}")
        for name in ("q", "k", "v", "post_attention", "intermediate", "output"):
            groups: int = getattr(self, f"{name}_groups")
            fits = size % groups == 0 and (name not in ("intermediate", "output") or inner % groups == 0)
            require(fits, f"{name}_groups {groups} does not divide the features of its layer")


class Grouped(Conv1d):
    """A linear layer of each group of features."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__(inputs, outputs, 1, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T, outputs)."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2).contiguous()


class Attention(Module):
    """Self-attention without an output projection."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.query = Grouped(size, size, config.q_groups)
        self.key = Grouped(size, size, config.k_groups)
        self.value = Grouped(size, size, config.v_groups)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        parts = (layer(x) for layer in (self.query, self.key, self.value))
        q, k, v = (part.reshape(*part.shape[:2], self.heads, -1) for part in parts)  # (B, T, H, D / H)
        return attend(q, k, v, mask)


class NormedGroups(Module):
    """A grouped layer, the residual and the norm."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.conv1d = Grouped(inputs, outputs, groups)
        self.layernorm = LayerNorm(outputs, EPSILON)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, inputs), residual (B, T, outputs) → (B, T, outputs)."""
        return self.layernorm(self.conv1d(x) + residual)


class ActivatedGroups(Module):
    """A grouped layer and an activation."""

    def __init__(self, inputs: int, outputs: int, groups: int, activation: str) -> None:
        super().__init__()
        self.conv1d = Grouped(inputs, outputs, groups)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T, outputs)."""
        return self.activation(self.conv1d(x))


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.attention = Attention(config)
        self.post_attention = NormedGroups(size, size, config.post_attention_groups)
        self.intermediate = ActivatedGroups(size, inner, config.intermediate_groups, config.hidden_act)
        self.output = NormedGroups(inner, size, config.output_groups)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.post_attention(self.attention(x, mask), x)
        return self.output(self.intermediate(x), x)


class SqueezeBert(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config)
        self.encoder = Module()
        self.encoder.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler: Pooler | None = Pooler(config.hidden_size)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x, mask = self.embeddings(ids, type_ids), visible_keys(attention_mask)
        for layer in self.encoder.layers:
            x = layer(x, mask)
        return x


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": SqueezeBert,
    "masked-lm": headed(PredictionsHead, BASE, SqueezeBert),
    "sequence-classification": headed(PooledClassifierHead, BASE, SqueezeBert),
    "token-classification": headed(TokenLabelsHead, BASE, SqueezeBert),
    "question-answering": headed(AnswersHead, BASE, SqueezeBert),
    "multiple-choice": choosing(BASE, SqueezeBert),
}
