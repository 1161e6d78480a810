"""The fields of config.json that decoders share of which some layers have a state by the gated delta rule."""

from __future__ import annotations

from typing import ClassVar

from pyapp.dataclass import dataclass

from .config import LIMITS, DecoderConfig, check_divides, require

LINEAR, ATTENTION = "linear_attention", "full_attention"  # kinds of layers


@dataclass(frozen=True, kw_only=True)
class DeltaConfig(DecoderConfig):
    """The fields of config.json. A model adds its own. kinds: of layers."""

    kinds: ClassVar[tuple[str, ...]] = (LINEAR, ATTENTION)

    layer_types: list[str]
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.layer_types
        known = len(kinds) == self.num_hidden_layers and {*map(str, kinds)} <= {*self.kinds}
        expected = f"{self.num_hidden_layers} of {' or '.join(self.kinds)}"
        require(known, f"layer_types is {kinds!r:.60}, expected {expected}")
        check_divides(self, "linear_num_key_heads", "linear_num_value_heads")
        widest = max(self.key_size, self.value_size)
        require(widest <= LIMITS["hidden_size"], f"{widest:,} features of the heads with states are too many")
        kernel = self.linear_conv_kernel_dim
        require(2 <= kernel <= LIMITS["conv_kernel"], f"linear_conv_kernel_dim is {kernel}, expected 2 to 256")

    @property
    def key_size(self) -> int:
        """The features of all keys of a layer with a state."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_size(self) -> int:
        """The features of all values of a layer with a state."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def state_shapes(self) -> list[tuple[tuple[int, ...], ...] | None]:
        """Those of HybridLanguageModel."""
        inputs = self.linear_conv_kernel_dim - 1, 2 * self.key_size + self.value_size
        state = self.linear_num_value_heads, self.linear_key_head_dim, self.linear_value_head_dim
        return [(inputs, state) if kind == LINEAR else None for kind in self.layer_types]
