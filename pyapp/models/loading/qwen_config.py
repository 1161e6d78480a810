"""The fields of config.json that Qwen2 and Qwen3 share."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass

from .config import DecoderConfig, layer_types


@dataclass(frozen=True, kw_only=True)
class QwenConfig(DecoderConfig):
    """The hyper-parameters. A model adds its own."""

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    layer_types: list[str]
    use_sliding_window: bool = False
    sliding_window: int | None = None
    max_window_layers: int = 28

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: those from max_window_layers on slide, if use_sliding_window says
        so.
        """
        first = values.get("max_window_layers", 28)
        slides = values.get("use_sliding_window", False) and type(first) is int
        return values | {"layer_types": layer_types(values, lambda layer: slides and layer >= first)}

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
