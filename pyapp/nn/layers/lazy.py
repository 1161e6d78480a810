"""Layers that take the size of their input from the first call, and then become the ordinary layer."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad
from ...engine.user_errors import describe
from ..module import Module
from ..parameter import skip_initialization


class LazyModuleMixin(Module):
    """A layer whose input size is not known yet. Its parameters have no elements before the first call (or before a
    state is loaded); they stay the same objects when they get their size.
    """

    becomes: Any  # the ordinary layer
    size_name: str  # the missing first argument: in_features, in_channels or num_features

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        groups = kwargs.get("groups", 1) if self.size_name == "in_channels" else 1
        with skip_initialization():
            made = self.becomes(groups, *args, **kwargs)  # any allowed size, replaced later
        self.__setstate__(made.__dict__)
        object.__setattr__(self, "_made_of", (args, kwargs))
        setattr(self, self.size_name, 0)
        with no_grad():  # without elements until the size is known (is_lazy)
            for tensor in (*self.parameters(), *self.buffers()):
                if tensor.ndim:
                    tensor.data = tensor.new_empty((0,))
        self.register_load_state_dict_pre_hook(_take_size)

    def has_uninitialized_params(self) -> bool:
        """Whether the size of the layer's input is still unknown."""
        return "_made_of" in self.__dict__

    def reset_parameters(self) -> None:
        """Initialises weight and bias again; does nothing before the size is known."""
        if not self.has_uninitialized_params():
            self.becomes.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Takes the size from an input."""
        if self.size_name == "in_features":
            size = input.shape[-1]
        elif input.ndim < 2:
            raise RuntimeError(f"{type(self).__name__}: takes at least two dims, got {describe(input)}")
        else:  # without a batch, a convolution's input has one dim less
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

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(input)
        return self.forward(input, *args, **kwargs)  # that of the ordinary layer

    def __repr__(self) -> str:
        return f"Lazy{self.becomes.__name__}({self.extra_repr()})"


def _take_size(layer: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a lazy layer loads a state, it takes its size from there."""
    if not isinstance(layer, LazyModuleMixin) or not layer.has_uninitialized_params():
        return
    weight = state.get(f"{prefix}weight", state.get(f"{prefix}running_mean"))
    if weight is not None and weight.numel():
        at = 1 if weight.ndim > 1 and not getattr(layer.becomes, "transposed", False) else 0
        grouped = at and layer.size_name == "in_channels"
        layer._become(weight.shape[at] * (layer.groups if grouped else 1))


def lazy_layer(becomes: type[Module], size_name: str) -> Any:
    """The lazy variant of a layer, whose first argument is called `size_name`."""
    return type(
        f"Lazy{becomes.__name__}", (LazyModuleMixin, becomes),
        {
            "becomes": becomes, "size_name": size_name, "__module__": becomes.__module__,
            "__doc__": f"{becomes.__name__} without its first argument.",
        },
    )  # fmt: skip
