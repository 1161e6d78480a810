"""GPT-Neo (Black et al. 2021, https://github.com/EleutherAI/gpt-neo), and TinyStories (Eldan and Li 2023, arXiv
2305.07759): GPT-2's blocks with separate projections, scores that are not scaled, and windows in every other layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.decoders.decoder import GroupedQueryAttention, Text
from pyapp.nn.decoders.decoder_blocks import GPT2LanguageModel
from pyapp.nn.heads import Heads

from .loading.config import LIMITS, require
from .loading.gpt2_form import Gpt2Config

MODEL_TYPES = ("gpt_neo",)
IGNORED = r".*\.attn\.attention\.(bias|masked_bias)"
# What GPT-2 calls the fields of GPT-Neo's config.json.
FIELDS = {
    "max_position_embeddings": "n_positions", "hidden_size": "n_embd", "num_layers": "n_layer", "num_heads": "n_head",
    "intermediate_size": "n_inner",
}  # fmt: skip
GLOBAL, LOCAL = "global", "local"  # kinds of layers


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json, by GPT-2's names. attention_layers: whether each layer is global or local."""

    model_type = "gpt_neo"

    n_positions: int = 2048
    window_size: int = 256
    attention_layers: list[str]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        own = {FIELDS.get(name, name): value for name, value in values.items()}
        layers = own.get("n_layer")
        if "attention_layers" not in own or "attention_types" in own:
            types = own.get("attention_types") or [[[GLOBAL, LOCAL], layers // 2 if type(layers) is int else 0]]
            own["attention_layers"] = _expanded(types)
        return super().from_dict(own)

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.attention_layers
        known = len(kinds) == self.n_layer and {*map(str, kinds)} <= {GLOBAL, LOCAL}
        require(known, f"attention_layers is {kinds!r:.60}, expected {self.n_layer} of {GLOBAL} or {LOCAL}")

    def saved(self) -> dict[str, Any]:
        """The object of a config.json that transformers reads too."""
        theirs = {name: other for other, name in FIELDS.items()}
        found = {theirs.get(name, name): value for name, value in self.to_dict().items()}
        return found | {"attention_types": [[[kind], 1] for kind in self.attention_layers]}

    def heads(self, layer: int) -> Heads:
        """The heads of a layer."""
        window = self.window_size if self.attention_layers[layer] == LOCAL else None
        return Heads(self.n_head, self.n_head, self.head_dim, scale=1.0, window=window)


def _expanded(types: Any) -> list[str]:
    """The kind of each layer from pairs of kinds and how often they come."""
    found: list[str] = []
    for pair in types if isinstance(types, list) else [None]:
        known = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], list) and type(pair[1]) is int
        require(known, f"attention_types is {types!r:.60}, expected pairs of kinds of attention and a number")
        kinds, count = pair if known and pair else ([], 0)
        most = LIMITS["num_hidden_layers"]
        require(len(found) + len(kinds) * max(count, 0) <= most, f"attention_types has more than {most} layers")
        found += kinds * count
    return found


class SelfAttention(GroupedQueryAttention):
    """Self-attention with another name for the last projection, which alone has a bias."""

    output = "out_proj"


class Attention(Module):
    """The attention of a layer, under the name that files have."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.attention = SelfAttention(layer, config.n_embd, config.heads(layer), None, output_bias=True)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        y: Tensor = self.attention(x, text, residual)
        return y


class GPTNeoForCausalLM(GPT2LanguageModel):
    """The language model."""

    attention = Attention


TASKS = {"causal-lm": GPTNeoForCausalLM}
