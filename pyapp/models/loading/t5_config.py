"""The fields of T5's config.json, for the models that have its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from pyapp.dataclass import dataclass
from pyapp.nn.layers.gated import activation_named

from .config import check_depth, check_fields, check_padding, check_token, read_config, require


@dataclass(frozen=True)
class T5Config:
    """The hyper-parameters, by the names of config.json."""

    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int | None = None
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    dense_act_fn: str | None = None
    is_gated_act: bool | None = None
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0
    kind: str = "t5"  # the model_type

    def __post_init__(self) -> None:
        check_fields(self)
        buckets = self.relative_attention_num_buckets
        require(
            4 <= buckets <= 1 << 16,
            f"relative_attention_num_buckets is {buckets}, expected 4 to 65,536: both directions need two or more",
        )
        require(
            self.feed_forward_proj.count("-") == 0 or self.feed_forward_proj.startswith("gated-"),
            f"feed_forward_proj {self.feed_forward_proj!r:.60} is not known",
        )
        check_depth(max(self.num_layers, self.decoder_layers))
        check_padding(self.pad_token_id, self.vocab_size)
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)
        activation_named(self.activation)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From the object of a config.json; other keys are ignored."""
        kind = values.get("model_type", "t5")
        usual = {"feed_forward_proj": "gated-gelu"} if kind in ("mt5", "umt5") else {}
        return read_config(cls, {**usual, **values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {"model_type": values.pop("kind")} | values

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def gated(self) -> bool:
        """Whether the feed-forward parts have a gate."""
        return self.feed_forward_proj.startswith("gated-") if self.is_gated_act is None else self.is_gated_act

    @property
    def activation(self) -> str:
        """The activation of the feed-forward parts. transformers writes it beside the name of both, and believes it."""
        if self.dense_act_fn is not None:
            return self.dense_act_fn
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else name

    @property
    def biased_layers(self) -> int:
        """How many layers, from the first, have biases by distance. Layers without have those of the first."""
        return max(self.num_layers, self.decoder_layers) if self.kind == "umt5" else 1

    @property
    def scaled(self) -> bool:
        """Whether the head reads the decoder's output divided by the root of d_model: where it is the embedding, but
        never in mT5.
        """
        if self.scale_decoder_outputs is None:
            return self.tie_word_embeddings and self.kind != "mt5"
        return self.scale_decoder_outputs


def t5_adapted(settings: Mapping[str, Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors: a file with a head of its own has it, one without is tied."""
    tied = settings.get("tie_word_embeddings") is not False
    scaled = settings.get("scale_decoder_outputs", tied) and settings.get("model_type") != "mt5"  # which never does
    own = "lm_head.weight" in names and not (tied and scaled)
    return {**settings, "tie_word_embeddings": not own, "scale_decoder_outputs": scaled}
