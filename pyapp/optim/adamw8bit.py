"""AdamW whose moments take one byte each (Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, arXiv
2110.02861): blocks of 256 elements with one scale, and codes that are dense near zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import Numbers
from ..engine.lazy import np
from ..engine.numpy_arrays import array_of, tensor_of
from ..engine.ops import zeros_like
from ..engine.ops.optimizer_steps import adamw_step
from .optimizer import Group, Optimizer, counted

__all__ = ["AdamW8bit"]

BLOCK = 256
SMALL = 4096  # elements up to which a parameter's moments stay float32: they take little, and biases and norms want it
_PIECE = 1 << 15  # elements that are coded at once, within the processor's cache
_SHIFT = 12  # bits of a float32 that the look-up of codes leaves out; 11 bits of the mantissa remain
_MOMENTS = {"exp_avg": True, "exp_avg_sq": False}  # whether the codes have signs


@cache
def _values(signed: bool) -> Any:
    """The values in [-1, 1] or [0, 1] of the 256 codes, ascending, float32: seven decades, each of which has twice as
    many values as the one below it, and 0 and 1 (the dynamic tree of the paper, section 2.1).
    """
    found = [0.0, 1.0]
    for decade in range(7):
        edges = np.linspace(0.1, 1.0, 2 ** (decade + (not signed)) + 1)
        middles = 10.0 ** (decade - 6) * (edges[1:] + edges[:-1]) / 2
        found += [*middles, *-middles] if signed else [*middles]
    return np.sort(np.array(found + [0.0] * (256 - len(found)), np.float32))


@cache
def _codes(signed: bool) -> Any:
    """The code of the nearest value, uint8, by the upper bits of a float32."""
    bits = (np.arange(1 << (32 - _SHIFT), dtype=np.uint32) << _SHIFT) | np.uint32(1 << (_SHIFT - 1))
    numbers = np.nan_to_num(bits.view(np.float32), nan=0.0, posinf=1.0, neginf=-1.0)
    values = _values(signed)
    codes = np.searchsorted((values[1:] + values[:-1]) / 2, numbers).astype(np.uint8)
    zero = np.uint8(np.searchsorted(values, 0.0))
    codes[0] = codes[1 << (31 - _SHIFT)] = zero  # 0 and -0, whose bins end in tiny numbers
    return codes


def encode(moment: Any, signed: bool) -> tuple[Any, Any]:
    """A float32 array as codes (uint8, of its shape) and scales (float32, one for each block of 256)."""
    flat, table = moment.reshape(-1), _codes(signed)
    codes, scales = np.empty(flat.size, np.uint8), np.empty(-(-flat.size // BLOCK), np.float32)
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        padded = np.zeros((-(-piece.size // BLOCK), BLOCK), np.float32)
        padded.reshape(-1)[: piece.size] = piece
        largest = np.abs(padded).max(1)
        scales[start // BLOCK : start // BLOCK + largest.size] = largest
        padded *= (1.0 / np.where(largest > 0, largest, 1.0)).astype(np.float32)[:, None]
        places = (padded.view(np.uint32) >> np.uint32(_SHIFT)).reshape(-1)[: piece.size]
        table.take(places.astype(np.intp), out=codes[start : start + _PIECE], mode="clip")
    return codes.reshape(moment.shape), scales


def decode(codes: Any, scales: Any, signed: bool) -> Any:
    """The float32 array of codes and scales."""
    flat, values = codes.reshape(-1), _values(signed)
    found = np.empty(flat.size, np.float32)
    for start in range(0, flat.size, _PIECE):
        piece = found[start : start + _PIECE]
        values.take(flat[start : start + _PIECE].astype(np.intp), out=piece, mode="clip")
        full = piece.size // BLOCK * BLOCK
        first = start // BLOCK
        piece[:full].reshape(-1, BLOCK)[...] *= scales[first : first + full // BLOCK, None]
        piece[full:] *= scales[-1]
    return found.reshape(codes.shape)


class AdamW8bit(Optimizer):
    """AdamW whose moments take 2.03 bytes of each element of a parameter, instead of 8, between steps. A step decodes
    the moments of one parameter, computes in float32, and encodes them again. Parameters of up to 4096 elements have
    float32 moments. The moments are in the memory of the host, whatever the parameter's device.

    Its settings are those of AdamW.
    """

    takes_complex = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, (beta1, beta2) = self.state[parameter], group["betas"]
        if not entry:
            for name in _MOMENTS:
                self._keep(entry, name, zeros_like(parameter))
        step = counted(entry)
        numbers = (group["lr"], beta1, beta2, group["eps"], group["weight_decay"], 1 - beta1**step, 1 - beta2**step)
        moments = {name: self._moment(entry, name, parameter) for name in _MOMENTS}
        self._write({}, parameter, grad, tuple(moments.values()), (numbers,))
        if parameter.numel() > SMALL:
            for name, moment in moments.items():
                self._keep(entry, name, moment)

    def _launch(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        adamw_step(parameter, *states, grad, *numbers)

    def _keep(self, entry: dict[str, Any], name: str, moment: Tensor) -> None:
        """Stores a moment, as codes if it is large."""
        if moment.numel() <= SMALL:
            entry[name] = moment
            return
        codes, scales = encode(array_of(moment.cpu().float()), _MOMENTS[name])
        entry[name], entry[f"{name}_scales"] = tensor_of(codes), tensor_of(scales)

    def _moment(self, entry: dict[str, Any], name: str, parameter: Tensor) -> Tensor:
        """A moment in the parameter's dtype, on its device."""
        if parameter.numel() <= SMALL:
            found: Tensor = entry[name]
            return found
        values = decode(array_of(entry[name]), array_of(entry[f"{name}_scales"]), _MOMENTS[name])
        return tensor_of(values).to(parameter.dtype).to(parameter.device)

    def _loaded(self, number: Any, name: str, value: Any, parameter: Tensor) -> Any:
        loaded = super()._loaded(number, name, value, parameter)
        large = isinstance(loaded, Tensor) and parameter.numel() > SMALL
        if large and name in _MOMENTS and loaded.dtype.name != "uint8":
            raise ValueError(f"load_state_dict: {name} of parameter {number} has no codes: it is a state of AdamW")
        return loaded.cpu() if large else loaded

    def _fits(self, name: str, value: Tensor, parameter: Tensor) -> bool:
        if name.endswith("_scales"):
            return value.shape == (-(-parameter.numel() // BLOCK),)
        return value.shape == parameter.shape
