"""OPT (Zhang et al. 2022, arXiv 2205.01068): learned positions, layer norms before each part (in the model of 350
million parameters after it), a plain feed-forward layer and biases.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, Text
from pyapp.nn.sequence_to_sequence.bart_decoder import FIRST_ROW, BartBlock, MaskedText

from .loading.config import UNGROUPED, DecoderConfig

MODEL_TYPES = ("opt",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "opt"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}
    ignored = UNGROUPED

    ffn_dim: int
    word_embed_proj_dim: int
    activation_function: str = "relu"
    do_layer_norm_before: bool = True
    _remove_final_layer_norm: bool = False
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with embeddings as large as the hidden states, unless the file says another size."""
        return {"word_embed_proj_dim": values.get("hidden_size")} | values

    def norm(self) -> LayerNorm:
        """A norm of the hidden states."""
        return LayerNorm(self.hidden_size, elementwise_affine=self.layer_norm_elementwise_affine)


class OPTStack(DecoderStack):
    """The decoder; a position's embedding is added to the token's. Embeddings of another size are projected."""

    last_norm = "final_layer_norm"

    def __init__(self, config: Config) -> None:
        blocks = (
            BartBlock(
                layer, config.hidden_size, config.ffn_dim, config.heads(), config.activation_function, config.norm,
                before=config.do_layer_norm_before, bias=config.enable_bias,
            )
            for layer in range(config.num_hidden_layers)
        )  # fmt: skip
        size, words = config.hidden_size, config.word_embed_proj_dim
        last: Any = config.norm() if config.do_layer_norm_before and not config._remove_final_layer_norm else None
        super().__init__(config.vocab_size, words, blocks, last)
        self.embed_positions = Embedding(config.max_position_embeddings + FIRST_ROW, size)
        self.project_in = None if words == size else Linear(words, size, bias=False)
        self.project_out = None if words == size else Linear(size, words, bias=False)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embed_tokens(tokens)
        return (x if self.project_in is None else self.project_in(x)) + self.placed(tokens, text)

    def placed(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_positions(text.positions(tokens) + FIRST_ROW)

    def normalized(self, x: Tensor) -> Tensor:
        x = x if self.final_layer_norm is None else self.final_layer_norm(x)
        return x if self.project_out is None else self.project_out(x)


class OPTModel(Module):
    """The decoder under the name that files have."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.decoder = OPTStack(config)

    @property
    def embedding(self) -> Embedding:
        """The table of tokens."""
        return self.decoder.embedding


class OPTForCausalLM(CausalLanguageModel):
    """The language model."""

    whole_text = MaskedText

    def __init__(self, config: Config) -> None:
        super().__init__(config, OPTModel(config))

    @property
    def stack(self) -> DecoderStack:
        found: OPTStack = self.model.decoder
        return found


TASKS = {"causal-lm": OPTForCausalLM}
