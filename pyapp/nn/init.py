"""In-place initialisation of parameters, as in torch.nn.init."""

from __future__ import annotations

from math import ceil, prod, sqrt
from typing import Any

from ..engine import Tensor, no_grad
from ..engine.lazy import np
from ..engine.ops import eye, from_numpy, rand, randn
from ..engine.user_errors import describe

Generator = Any

_GAINS = {"tanh": 5 / 3, "relu": sqrt(2), "selu": 3 / 4, "sigmoid": 1.0, "linear": 1.0}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that preserves the variance through a nonlinearity; `param` is leaky_relu's slope (0.01)."""
    if nonlinearity == "leaky_relu":
        return sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity not in _GAINS:
        raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one element of the result; the weight is (out, in, kernel...)."""
    if tensor.ndim < 2:
        raise ValueError(f"{name}: takes a tensor of at least two dims, got {describe(tensor)}")
    field = prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Tensor:
    """Uniform in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None) -> Tensor:
    """Normal."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator = None
) -> Tensor:
    """Normal, truncated to [a, b]."""
    if not a < b or std <= 0:
        raise ValueError(f"trunc_normal_: needs a < b and std > 0, got a={a}, b={b}, std={std}")
    if tensor.is_meta:
        return tensor
    from statistics import NormalDist  # late: imports fractions and decimal, which loading does not need

    low, high = (a - mean) / std, (b - mean) / std
    normal, count = NormalDist(), tensor.numel()
    if normal.cdf(high) - normal.cdf(low) > 0.1:  # redraw until enough values are inside
        values = np.empty(0, np.float32)
        while len(values) < count:
            drawn = randn(max(16, 2 * (count - len(values))), generator=generator, device="cpu").array()
            values = np.concatenate([values, drawn[(drawn >= low) & (drawn <= high)]])
    else:  # far from the mean: invert the distribution function in the lower tail, where it is exact
        turned = low > 0
        first, last = (normal.cdf(-high), normal.cdf(-low)) if turned else (normal.cdf(low), normal.cdf(high))
        draws = rand(count, generator=generator, device="cpu").array().astype(np.float64) * (last - first) + first
        least = 5e-324
        if last <= 0:
            raise ValueError(f"trunc_normal_: [{a}, {b}] is too many deviations away from {mean}")
        values = np.array([normal.inv_cdf(max(least, min(draw, 1 - 2**-53))) for draw in draws])
        values = -values if turned else values
    values = np.clip(values[:count].astype(np.float64) * std + mean, a, b).astype(np.float32)
    return _write(tensor, values.reshape(tensor.shape))


def _write(tensor: Tensor, values: Any) -> Tensor:
    """Copies a NumPy array of the tensor's shape into the tensor, on any device and in any layout."""
    with no_grad():
        return tensor.copy_(from_numpy(values).to(tensor.device))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: takes a matrix, got {describe(tensor)}")
    with no_grad():
        return tensor.copy_(eye(tensor.shape[0], tensor.shape[1], device=tensor.device))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Uniform in ±gain * sqrt(6 / (in + out)) (Glorot and Bengio 2010)."""
    bound = gain * sqrt(6 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Normal with deviation gain * sqrt(2 / (in + out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * sqrt(2 / sum(_fans("xavier_normal_", tensor))), generator)


def _kaiming(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan = _fans(name, tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Tensor:
    """Uniform in ±gain * sqrt(3 / fan) (He et al. 2015, https://arxiv.org/abs/1502.01852)."""
    bound = sqrt(3) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Tensor:
    """Normal with deviation gain / sqrt(fan) (He et al. 2015, https://arxiv.org/abs/1502.01852)."""
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator = None) -> Tensor:
    """An orthonormal matrix times gain: orthonormal rows, or columns if these are fewer. All dims after the first are
    flattened (Saxe et al. 2013, https://arxiv.org/abs/1312.6120).
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: takes a tensor of at least two dims, got {describe(tensor)}")
    if not tensor.numel() or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    drawn = randn(max(rows, columns), min(rows, columns), generator=generator, device="cpu").array()
    q, r = np.linalg.qr(drawn.astype(np.float64))
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # makes the distribution uniform
    values = (q if rows >= columns else q.T) * gain
    return _write(tensor, np.ascontiguousarray(values, np.float32).reshape(tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes a convolution with this weight (out, in / groups, kernel...) the identity: 1 in the middle of the kernel
    where the output channel of a group equals the input channel, else 0.
    """
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: takes a weight of 3, 4 or 5 dims for {groups} groups, got {describe(tensor)}")
    values = np.zeros(tensor.shape, np.float32)
    each = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            values[(group * each + channel, channel, *middle)] = 1.0
    return _write(tensor, values)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator = None) -> Tensor:
    """Normal, with the fraction `sparsity` of each column of a matrix set to zero (Martens 2010)."""
    if tensor.ndim != 2 or not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: takes a matrix and a share from 0 to 1, got {describe(tensor)}, {sparsity}")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    count = ceil(sparsity * rows)
    order = np.argsort(rand(rows, columns, generator=generator, device="cpu").array(), axis=0)
    values = randn(rows, columns, generator=generator, device="cpu").array() * np.float32(std)
    np.put_along_axis(values, order[:count], 0.0, 0)
    return _write(tensor, values)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one element of the result: torch's private name, which models use."""
    return _fans("_calculate_fan_in_and_fan_out", tensor)


def __getattr__(name: str) -> Any:
    """torch's older names, without the underscore at their end."""
    if not name.startswith("_") and f"{name}_" in globals():
        return globals()[f"{name}_"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
