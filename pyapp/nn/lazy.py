"""Layers that learn the size of their input from the first one that they get, and become the plain layer then."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad
from ..engine.op import describe
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _ConvolutionBase
from .layers import Linear, skip_initialization
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d


class LazyModuleMixin(Module):
    """A layer without the size of its input. Its parameters have no elements before the first call (or before a state
    is loaded); they stay the same objects when they get their size.
    """

    becomes: Any  # the plain layer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        groups = kwargs.get("groups", 1) if issubclass(self.becomes, _ConvolutionBase) else 1
        with skip_initialization():
            made = self.becomes(groups, *args, **kwargs)  # any size that is allowed; nothing is kept of it
        self.__dict__.update(made.__dict__)
        object.__setattr__(self, "_made_of", (args, kwargs))
        setattr(self, self._size_name(), 0)
        with no_grad():
            for buffer in self.buffers():
                if buffer.ndim:
                    buffer.data = buffer.new_empty((0,))
        self._register_load_state_dict_pre_hook(self._before_loading)

    def _size_name(self) -> str:
        return {"Linear": "in_features"}.get(
            self.becomes.__name__, "in_channels" if issubclass(self.becomes, _ConvolutionBase) else "num_features"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether the size of its input is still unknown."""
        return "_made_of" in self.__dict__

    def reset_parameters(self) -> None:
        """Draws weight and bias anew, once there is a size."""
        if not self.has_uninitialized_params():
            self.becomes.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Takes the size from an input."""
        if issubclass(self.becomes, Linear):
            size = input.shape[-1]
        elif input.ndim < 2:
            raise RuntimeError(f"{type(self).__name__}: takes at least two dims, got {describe(input)}")
        else:  # without a batch, a convolution's input has a dim less
            dims = getattr(self.becomes, "dims", 0)
            size = input.shape[0 if dims and input.ndim == dims + 1 else 1]
        self._become(size)

    def _become(self, size: int) -> None:
        args, kwargs = self.__dict__.pop("_made_of")
        made = self.becomes(size, *args, **kwargs)
        with no_grad():
            for group in ("_parameters", "_buffers"):
                for name, own in getattr(self, group).items():
                    own.data = getattr(made, name).detach().to(own.dtype)
        for name, value in made.__dict__.items():
            if not isinstance(value, (Tensor, Module, dict, set)):
                self.__dict__[name] = self.training if name == "training" else value
        self.__class__ = self.becomes

    def _before_loading(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        weight = state.get(f"{prefix}weight", state.get(f"{prefix}running_mean"))
        if self.has_uninitialized_params() and weight is not None and weight.numel():
            at = 1 if weight.ndim > 1 and not getattr(self.becomes, "transposed", False) else 0
            grouped = at and issubclass(self.becomes, _ConvolutionBase)
            self._become(weight.shape[at] * (self.groups if grouped else 1))

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(input)
        return self.forward(input, *args, **kwargs)  # the plain layer's

    def __repr__(self) -> str:
        return f"Lazy{self.becomes.__name__}({self.extra_repr()})"


def _lazy(becomes: type[Module]) -> Any:
    return type(
        f"Lazy{becomes.__name__}", (LazyModuleMixin, becomes),
        {"becomes": becomes, "__doc__": f"{becomes.__name__} without its first argument.", "__module__": __name__},
    )  # fmt: skip


LazyLinear = _lazy(Linear)
LazyConv1d, LazyConv2d, LazyConv3d = map(_lazy, (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = map(
    _lazy, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = map(_lazy, (BatchNorm1d, BatchNorm2d, BatchNorm3d))


def _lazy_tracking(becomes: type[Module]) -> Any:
    """An instance norm that has a weight and running values unless told otherwise, as torch's lazy ones have."""
    lazy = _lazy(becomes)

    def __init__(
        self: Any, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        LazyModuleMixin.__init__(self, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)

    lazy.__init__ = __init__
    return lazy


LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = map(
    _lazy_tracking, (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
)
