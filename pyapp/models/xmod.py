"""X-MOD (Pfeiffer et al. 2022, arXiv 2205.06266): RoBERTa with a small part of each language after every layer. Texts
are read with the parts of `default_language` of config.json.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleDict, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEncoder,
    DenseClassifierHead,
    Intermediate,
    NormedWordsHead,
    SelfAttention,
    TokenLabelsHead,
    choosing,
    headed,
)  # fmt: skip
from pyapp.nn.layers.gated import activation_named

from .loading.config import require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("xmod",)
BASE = "roberta"  # the encoder's name in files with a head
MOST_LANGUAGES = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "xmod"

    pad_token_id: int = 1
    pre_norm: bool = False
    adapter_reduction_factor: int = 2
    adapter_layer_norm: bool = False
    adapter_reuse_layer_norm: bool = True
    ln_before_adapter: bool = True
    languages: list[str]
    default_language: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        known = 1 <= len(self.languages) <= MOST_LANGUAGES and all(type(name) is str for name in self.languages)
        require(known, f"languages is {self.languages!r:.60}, expected names of languages")
        require(
            self.language in self.languages,
            f"default_language is {self.default_language!r:.40}, none of the model's languages",
            f"Write one into config.json: {', '.join(self.languages)[:200]}",
        )
        require(
            self.adapter_reduction_factor <= self.hidden_size,
            f"adapter_reduction_factor {self.adapter_reduction_factor} is above hidden_size {self.hidden_size}",
        )
        require(
            self.pad_token_id < self.max_position_embeddings - 1,
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}",
        )

    @property
    def language(self) -> str:
        """The language of the texts; the only one of a model of one language. "": config.json says none."""
        return self.languages[0] if len(self.languages) == 1 else self.default_language or ""


class Adapter(Module):
    """dense2(activation(dense1(x))), the part of a language."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner = config.hidden_size // config.adapter_reduction_factor
        self.dense1 = Linear(config.hidden_size, inner)
        self.dense2 = Linear(inner, config.hidden_size)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.dense2(self.activation(self.dense1(x)))


class Residual(Module):
    """residual + dense(x), with a norm that stands before or after it, as the caller applies it."""

    def __init__(self, inputs: int, config: Config) -> None:
        super().__init__()
        self.dense = Linear(inputs, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, inputs), residual (B, T, D) → (B, T, D)."""
        return residual + self.dense(x)


class Output(Residual):
    """The residual, and the part of the language over it."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.intermediate_size, config)
        self.config, own = config, config.adapter_layer_norm
        self.adapter_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps) if own else None
        self.adapter_modules = ModuleDict({name: Adapter(config) for name in config.languages})

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, inner), residual (B, T, D) → (B, T, D)."""
        before = super().forward(x, residual)
        normed = before
        if self.adapter_layer_norm is not None:
            normed = self.adapter_layer_norm(before)
        elif self.config.adapter_reuse_layer_norm:
            normed = self.LayerNorm(before)
        kept = normed if self.config.ln_before_adapter else before
        return kept + self.adapter_modules[self.config.language](normed)


class Attention(Module):
    """Self-attention, its output projection, the residual and the norm before or after them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.before = config.pre_norm
        self.add_module("self", SelfAttention(config.hidden_size, config.num_attention_heads))
        self.output = Residual(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        norm = self.output.LayerNorm
        y: Tensor = self.output(self._modules["self"](norm(x) if self.before else x, mask), x)
        return y if self.before else norm(y)


class Layer(Module):
    """Attention, and a feed-forward part with that of the language."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.before = config.pre_norm
        self.attention = Attention(config)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output = Output(config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x, norm = self.attention(x, mask), self.output.LayerNorm
        y: Tensor = self.output(self.intermediate(norm(x) if self.before else x), x)
        return y if self.before else norm(y)


class Layers(Module):
    """The layers, one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps) if config.pre_norm else None

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layer:
            x = layer(x, mask)
        return x if self.LayerNorm is None else self.LayerNorm(x)


class Xmod(BertEncoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, pooler, skips_padding=True)

    def layers(self, config: Config) -> Module:
        return Layers(config)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Xmod,
    "masked-lm": headed(NormedWordsHead, BASE, Xmod, pooler=False),
    "sequence-classification": headed(DenseClassifierHead, BASE, Xmod, ops.tanh, pooler=False),
    "token-classification": headed(TokenLabelsHead, BASE, Xmod, pooler=False),
    "question-answering": headed(AnswersHead, BASE, Xmod, pooler=False),
    "multiple-choice": choosing(BASE, Xmod),
}
