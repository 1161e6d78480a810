"""The base of layers over sequences, images and volumes, whose channels are last or first."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..arguments import layer_is_channels_first
from ..core import Layer

__all__: list[str] = []


def check_dims(layer: Layer, inputs: Tensor, dims: int) -> None:
    """ValueError unless the inputs have a batch, `dims` dims of space and channels."""
    if inputs.ndim != dims + 2:
        raise ValueError(f"layer {layer.name} ({type(layer).__name__}) takes {dims + 2} dims, got {inputs.shape}")


class DataFormatLayer(Layer):
    """A layer whose channels are last or first: `channels_first` says it."""

    channels_first = False
    keras_has_data_format = True  # else it is written only if channels are first

    @property
    def data_format(self) -> str:
        return "channels_first" if self.channels_first else "channels_last"

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the data_format that a session's setting chose."""
        config = {**super().get_config(), "data_format": self.data_format}
        if not (self.keras_has_data_format or self.channels_first):
            del config["data_format"]
        return config


class ChannelsLayer(DataFormatLayer):
    """A layer that works on (B, …, channels). With `data_format="channels_first"` its inputs and outputs are (B,
    channels, …)."""

    dims: int  # of space

    def __init__(self, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        """The outputs (B, …, channels) of inputs (B, …, channels)."""
        raise NotImplementedError

    def call(self, inputs: Tensor) -> Tensor:
        check_dims(self, inputs, self.dims)
        if not self.channels_first:
            return self.on_channels_last(inputs)
        return self.on_channels_last(inputs.movedim(1, -1)).movedim(-1, 1)
