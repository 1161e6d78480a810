"""Weight normalisation (Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868) and spectral normalisation
(Miyato et al. 2018, https://arxiv.org/abs/1802.05957), by torch.nn.utils.parametrizations' names.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from ...engine import Tensor, no_grad
from ...engine.ops import normalization, randn
from ...engine.user_errors import describe
from ..layers.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from .parametrize import register_parametrization

TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The norms of the slices along `dim`, which is kept; one norm of all elements if `dim` is None or -1."""
    if dim is None or dim == -1:
        return v.norm()
    return (v * v).sum([d for d in range(v.ndim) if d != dim % v.ndim], True).sqrt()


class _WeightNorm(Module):
    """(g, v) → g v / |v|, with one |v| for each slice along `dim`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


class _SpectralNorm(Module):
    """A weight divided by the largest singular value of its matrix, with `dim` as rows. Power iterations estimate the
    value, and continue with each call in training. A vector is divided by its norm.
    """

    u_first = True

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim or n_power_iterations < 1:
            raise ValueError(
                f"spectral_norm: dim {dim} of {describe(weight)}, n_power_iterations {n_power_iterations} do not fit"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            matrix = self.matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(
                    name, normalization.normalize(randn(size, dtype=weight.dtype, device=weight.device), dim=0, eps=eps)
                )
            self.iterate(matrix, 15)

    def matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for turn in range(2 * count):
                if (turn % 2 == 0) == self.u_first:
                    self._u.copy_(normalization.normalize(matrix @ self._v, dim=0, eps=self.eps))
                else:
                    self._v.copy_(normalization.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalization.normalize(weight, dim=0, eps=self.eps)
        matrix = self.matrix(weight)
        if self.training:
            self.iterate(matrix.detach(), self.n_power_iterations)
        return weight / (self._u.clone().conj() @ (matrix @ self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_dim(module: Module, dim: int | None) -> int:
    """torch's default dim of the rows: the dim of the outputs."""
    return dim if dim is not None else 1 if isinstance(module, TRANSPOSED) else 0


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Trains a tensor's norms along `dim` and its direction separately: `parametrizations.<name>.original0` holds the
    norms, `original1` the direction.
    """
    register_parametrization(module, name, _WeightNorm(dim))
    module._register_load_state_dict_pre_hook(partial(_take_older_names, name))
    return module


def _take_older_names(name: str, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Renames the parts of nn.utils.weight_norm in a state that is to be loaded."""
    older = f"{prefix}{name}_g", f"{prefix}{name}_v"
    if all(part in state for part in older):
        for i, part in enumerate(older):
            state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(part)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a tensor by its largest singular value, as _SpectralNorm."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no tensor {name!r}")
    made = _SpectralNorm(weight.detach(), n_power_iterations, spectral_dim(module, dim), eps).train(module.training)
    return register_parametrization(module, name, made)


def __getattr__(name: str) -> Any:
    if name == "orthogonal":
        return importlib.import_module(".orthogonal", __package__).orthogonal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
