"""Discrete Fourier transforms (the CPU has NumPy's, and a kernel) and short-time ones. Spectra are complex tensors."""

from __future__ import annotations

from math import pi
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..dtype import complex_of
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import op, primitive
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .complex_numbers import conj, real, view_as_real
from .create import tensor
from .padding import pad
from .sliding_windows import _add_windows, windows
from .view import narrow


def _d_dft(g: Tensor, _: Any, x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    return (_dft(g, dim, not inverse, scale),)


@primitive(vjp=_d_dft, saves="none", name="_dft")
def _dft(x: Tensor, dim: int, inverse: bool, scale: float) -> Tensor:
    """scale Σ x exp(∓ 2πi jk / n) along a dim of a complex tensor; the matrix is symmetric, so its adjoint is that of
    the other sign.
    """
    values = x.array()
    y = np.fft.ifft(values, axis=dim, norm="forward") if inverse else np.fft.fft(values, axis=dim)
    return tensor_of(_times(y, scale), x.dtype)


def _d_whole(g: Tensor, _: Any, x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    return (real(_dft(g, dim, not inverse, scale)).to(x.dtype),)


@primitive(vjp=_d_whole, saves="none", name="_rdft_whole")
def _rdft_whole(x: Tensor, dim: int, inverse: bool, scale: float) -> Tensor:
    """_dft of a real tensor, which takes half the time."""
    kind = complex_of(x.dtype)
    values = array_of(x, kind.part)
    y = np.fft.ifft(values, axis=dim, norm="forward") if inverse else np.fft.fft(values, axis=dim)
    return tensor_of(_times(y, scale), kind)


def _d_rdft(g: Tensor, _: Any, x: Tensor, dim: int, scale: float, middle: float = 1.0) -> Any:
    return (_irdft(g, x._shape[dim], dim, scale, middle / 2).to(x.dtype),)


@primitive(vjp=_d_rdft, saves="none", name="_rdft")
def _rdft(x: Tensor, dim: int, scale: float, middle: float = 1.0) -> Tensor:
    """Real, n along a dim → complex, n // 2 + 1 there, multiplied by `scale`, and all frequencies but the first and
    (for even n) the last by `middle`.
    """
    kind = complex_of(x.dtype)
    y = np.fft.rfft(array_of(x, kind.part), axis=dim)
    return tensor_of(_times(y, scale, middle, x._shape[dim], dim), kind)


def _d_irdft(g: Tensor, _: Any, x: Tensor, n: int, dim: int, scale: float, middle: float = 1.0) -> Any:
    """Each frequency except the first and (for even n) the last counts twice."""
    return (_rdft(g, dim, scale, 2 * middle),)


@primitive(vjp=_d_irdft, saves="none", name="_irdft")
def _irdft(x: Tensor, n: int, dim: int, scale: float, middle: float = 1.0) -> Tensor:
    """Complex, n // 2 + 1 along a dim → real, n there, not divided by n, but multiplied by `scale`; and all frequencies
    but the first and (for even n) the last by `middle`.
    """
    values = _times(x.array(), 1.0, middle, n, dim)
    return tensor_of(_times(np.fft.irfft(values, n, axis=dim, norm="forward"), scale), x.dtype.part)


def _times(values: Any, scale: float, middle: float = 1.0, n: int = 0, dim: int = 0) -> Any:
    """An array times `scale`, and the frequencies in the middle of n // 2 + 1 along a dim times `middle`."""
    if scale != 1:
        values = values * scale
    if middle == 1:
        return values
    factors = np.full(n // 2 + 1, middle, values.real.dtype)
    factors[0] = 1
    if n % 2 == 0:
        factors[-1] = 1
    return values * factors.reshape((-1,) + (1,) * (values.ndim - 1 - dim))


@op()
def _multiply_along(x: Tensor, factors: Tensor, dim: int, n: int, scale: float = 1.0) -> Tensor:
    """A complex tensor, cut or padded with zeros to n along a dim, times factors of the smaller size there, and times
    `scale`.
    """
    taken = narrow(x, dim, 0, factors._shape[0]) * factors.reshape(-1, *(1,) * (x.ndim - 1 - dim))
    return _resized(taken * scale if scale != 1 else taken, dim, n)


for _transform in (_dft, _rdft, _rdft_whole):
    _transform.takes_complex = True


def _scale(name: str, n: int, norm: str | None, inverse: bool) -> float:
    factors = {None: 1 / n if inverse else 1.0, "ortho": n**-0.5, "forward": 1.0 if inverse else 1 / n}
    factors["backward"] = factors[None]
    if norm not in factors:
        raise ValueError(f"{name}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    return factors[norm]


def _resized(x: Tensor, dim: int, n: int) -> Tensor:
    """Cut, or padded with zeros."""
    size = x._shape[dim]
    if n == size:
        return x
    if n < size:
        return narrow(x, dim, 0, n)
    return pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, n - size))


def _in_complex(x: Tensor) -> Tensor:
    return x if x.dtype.is_complex else x.to(complex_of(x.dtype if x.dtype.has_gradient else _dtype.Default.dtype))


def _in_reals(name: str, x: Tensor) -> Tensor:
    """Floats; RuntimeError for complex numbers."""
    if x.dtype.is_complex:
        raise RuntimeError(f"{name}: takes a real tensor, not {describe(x)}; see {name.replace('rf', 'f', 1)}")
    return x if x.dtype.is_floating_point else x.to(_dtype.Default.dtype)


def _length(name: str, n: int) -> int:
    if n < 1:
        raise ValueError(f"{name}: {n} data points cannot be transformed")
    return n


def _transformed(name: str, x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool) -> Tensor:
    d = normalize_dim(dim, x.ndim, name)
    size = _length(name, x._shape[d] if n is None else n)
    scale = _scale(name, size, norm, inverse)
    if x.dtype in (_dtype.float32, _dtype.float64):
        return _rdft_whole(_resized(x, d, size), d, inverse, scale)
    return _dft(_resized(_in_complex(x), d, size), d, inverse, scale)


def fft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform along a dim, cut or padded to n: complex. norm: "backward" (none), "ortho", "forward"."""
    return _transformed("fft", x, n, dim, norm, False)


def ifft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of fft."""
    return _transformed("ifft", x, n, dim, norm, True)


def rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform of a real tensor along a dim: the first n // 2 + 1 frequencies, complex."""
    x, d = _in_reals("rfft", x), normalize_dim(dim, x.ndim, "rfft")
    size = _length("rfft", x._shape[d] if n is None else n)
    return _rdft(_resized(x, d, size), d, _scale("rfft", size, norm, False))


def irfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of rfft: complex (..., F) → real, n long (2 (F - 1) unless given)."""
    d = normalize_dim(dim, x.ndim, "irfft")
    size = _length("irfft", 2 * (x._shape[d] - 1) if n is None else n)
    return _irdft(_resized(_in_complex(x), d, size // 2 + 1), size, d, _scale("irfft", size, norm, True))


def fft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """fftn along the last two dims, or those given."""
    return fftn(x, s, dim, norm)


def ifft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of fft2."""
    return ifftn(x, s, dim, norm)


def rfft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """fft2 of a real tensor: rfft along the last of the dims."""
    return rfftn(x, s, dim, norm)


def irfft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of rfft2."""
    return irfftn(x, s, dim, norm)


def _dims(name: str, count: int, s: Any, dim: Any) -> list[tuple[int, int | None]]:
    """(dim, size) of each of `count` dims that a transform of several takes: all by default, the last as many as there
    are sizes.
    """
    if dim is None:
        dims = list(range(count)) if s is None else list(range(-1 if isinstance(s, int) else -len(s), 0))
    else:
        dims = [dim] if isinstance(dim, int) else list(dim)
    s = [s] if isinstance(s, int) else s
    if s is not None and len(s) != len(dims):
        raise ValueError(f"{name}: {len(s)} sizes are given for {len(dims)} dims")
    found = [normalize_dim(d, count, name) for d in dims]
    if (not found and name not in ("fftn", "ifftn")) or len(set(found)) != len(found):
        raise ValueError(f"{name}: dims {dims} are not one dim or more, each once")
    return [(d, None if s is None or s[i] == -1 else int(s[i])) for i, d in enumerate(found)]


def fftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """fft along dims: all unless given. Along none it gives the complex numbers themselves."""
    for d, size in _dims("fftn", x.ndim, s, dim):
        x = fft(x, size, d, norm)
    return _in_complex(x)


def ifftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of fftn."""
    for d, size in _dims("ifftn", x.ndim, s, dim):
        x = ifft(x, size, d, norm)
    return _in_complex(x)


def rfftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """fftn of a real tensor: rfft along the last of the dims."""
    *others, (last, length) = _dims("rfftn", x.ndim, s, dim)
    y = rfft(x, length, last, norm)
    for d, size in others:
        y = fft(y, size, d, norm)
    return y


def irfftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of rfftn."""
    *others, (last, length) = _dims("irfftn", x.ndim, s, dim)
    for d, size in others:
        x = ifft(x, size, d, norm)
    return irfft(x, length, last, norm)


_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _turned(name: str, norm: str | None) -> str:
    """The norm of the inverse transform that does the same."""
    if norm not in _OTHER_WAY:
        raise ValueError(f"{name}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    return _OTHER_WAY[norm]


def hfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform, n long (2 (F - 1) unless given), of a signal of which x (..., F) holds the first half;
    the other half is its conjugate.
    """
    return irfft(conj(x), n, dim, _turned("hfft", norm))


def ihfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of hfft: a real tensor → complex (..., n // 2 + 1)."""
    return conj(rfft(x, n, dim, _turned("ihfft", norm)))


def hfftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """hfft along the last of the dims, fft along the others: complex (..., F) → real."""
    *others, (last, length) = _dims("hfftn", x.ndim, s, dim)
    for d, size in others:
        x = fft(x, size, d, norm)
    return hfft(x, length, last, norm)


def ihfftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of hfftn."""
    *others, (last, length) = _dims("ihfftn", x.ndim, s, dim)
    y = ihfft(x, length, last, norm)
    for d, size in others:
        y = ifft(y, size, d, norm)
    return y


def hfft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """hfftn along two dims."""
    return hfftn(x, s, dim, norm)


def ihfft2(x: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of hfft2."""
    return ihfftn(x, s, dim, norm)


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """The frequencies of fft, in cycles per unit of the spacing d."""
    return tensor(np.fft.fftfreq(n, d), dtype or _dtype.Default.dtype, device, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """The frequencies of rfft."""
    return tensor(np.fft.rfftfreq(n, d), dtype or _dtype.Default.dtype, device, requires_grad)


def fftshift(x: Tensor, dim: Any = None) -> Tensor:
    """Moves the zero frequency to the middle of dims."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return x.roll([x._shape[d] // 2 for d in dims], list(dims))


def ifftshift(x: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return x.roll([-(x._shape[d] // 2) for d in dims], list(dims))


def _window_dtype(name: str, dtype: Any) -> _dtype.DType:
    kind = _dtype.as_dtype(dtype or _dtype.Default.dtype)
    if not kind.is_floating_point:
        raise TypeError(f"{name}: windows are of floating-point numbers, not {kind}")
    return kind


def _window(name: str, length: int, periodic: bool, dtype: Any, terms: tuple[float, ...]) -> Tensor:
    kind = _window_dtype(name, dtype)
    if length < 0:
        raise ValueError(f"{name}: the window length {length} is negative")
    steps = length if periodic else length - 1
    angle = np.arange(length) * (2 * pi / steps if steps else 0.0)
    values = sum((-1) ** k * a * np.cos(k * angle) for k, a in enumerate(terms))
    return tensor(np.ones(1) if length == 1 else np.asarray(values), dtype=kind)


@function(factory=True)
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """½ - ½ cos(2πk / N)."""
    return _window("hann_window", window_length, periodic, dtype, (0.5, 0.5))


@function(factory=True)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """alpha - beta cos(2πk / N)."""
    return _window("hamming_window", window_length, periodic, dtype, (alpha, beta))


@function(factory=True)
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0.42 - ½ cos(2πk / N) + 0.08 cos(4πk / N)."""
    return _window("blackman_window", window_length, periodic, dtype, (0.42, 0.5, 0.08))


@function(factory=True)
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A triangle."""
    steps = window_length if periodic else window_length - 1
    values = 1 - np.abs(2 * np.arange(window_length) / max(steps, 1) - 1)
    return tensor(np.ones(1) if window_length == 1 else values, dtype=dtype or _dtype.Default.dtype)


def _stft_window(name: str, n_fft: int, win_length: int, window: Tensor | None, like: Tensor) -> Tensor:
    if window is None and 0 < win_length <= n_fft:
        window = like.new_ones(win_length)
    if window is None or window._shape != (win_length,) or not 0 < win_length <= n_fft:
        shown = "" if window is None else f"{describe(window)} "
        raise ValueError(f"{name}: the window {shown}does not fit win_length {win_length}, n_fft {n_fft}")
    before = (n_fft - win_length) // 2
    return pad(window, (before, n_fft - win_length - before))


@function(method=True)
def stft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:  # fmt: skip
    """Short-time Fourier transform of x (B?, samples) → complex (B?, n_fft // 2 + 1, frames), all n_fft frequencies of
    complex x or window, or with onesided False. `center` pads by n_fft // 2 at both ends, in `pad_mode`; the hop is
    n_fft // 4 by default. With return_complex False pairs (..., 2); RuntimeError where it is not given for real x.
    """
    if x.ndim not in (1, 2):
        raise ValueError(f"stft: takes (samples,) or (B, samples), got {describe(x)}")
    complex_input = x.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not complex_input:
        raise RuntimeError("stft: say whether the result is complex: return_complex=True, or False for pairs (..., 2)")
    if complex_input and onesided:
        raise RuntimeError(f"stft: the spectrum of {describe(x)} has two sides; use onesided=False")
    if x.ndim == 1:
        return stft(
            x.unsqueeze(0), n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
            return_complex,
        ).squeeze(0)  # fmt: skip
    if center:
        x = pad(x, (n_fft // 2, n_fft // 2), pad_mode)
    if not 0 < n_fft <= x._shape[1]:
        raise RuntimeError(f"stft: n_fft {n_fft} is not in 1 .. {x.shape[1]}, the samples of {describe(x)}")
    hop = n_fft // 4 if hop_length is None else hop_length
    shape = _stft_window("stft", n_fft, win_length or n_fft, window, x)
    frames = windows(x, 1, n_fft, hop, name="stft") * shape  # (B, frames, n_fft)
    scale = n_fft**-0.5 if normalized else 1.0
    y = _dft(_in_complex(frames), 2, False, scale) if complex_input or onesided is False else _rdft(frames, 2, scale)
    y = y.transpose(1, 2)
    return view_as_real(y) if return_complex is False else y


@function(method=True)
def istft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal (B?, samples) of a complex spectrum (B?, n_fft // 2 + 1, frames), all n_fft frequencies where
    `onesided` is False: frames added up, divided by the sum of the windows' squares. ValueError if that is zero inside
    the signal. It is real unless `return_complex`, which takes both sides.
    """
    if not x.dtype.is_complex or x.ndim not in (2, 3):
        raise RuntimeError(f"istft: takes a complex tensor (B?, frequencies, frames), not {describe(x)}")
    if onesided is None:
        onesided = x._shape[-2] != n_fft
    if return_complex and onesided:
        raise RuntimeError("istft: the signal of one side of a spectrum is real; use return_complex=False")
    if x.ndim == 2:
        return istft(
            x.unsqueeze(0), n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        ).squeeze(0)
    hop = n_fft // 4 if hop_length is None else hop_length
    shape = _stft_window("istft", n_fft, win_length or n_fft, window, x if return_complex else real(x))
    frames = x.transpose(1, 2)  # (B, frames, F)
    if frames._shape[2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise ValueError(f"istft: {describe(x)} does not hold the frequencies of n_fft {n_fft}")
    scale = (n_fft**0.5 if normalized else 1.0) / n_fft
    if return_complex:
        signal = _dft(frames, 2, True, scale)
    else:  # as torch: the rest of a real spectrum is redundant
        signal = _irdft(frames[:, :, : n_fft // 2 + 1], n_fft, 2, scale)
    signal = signal * shape
    count = frames._shape[1]
    total = n_fft + hop * (count - 1)
    y = _add_windows(signal, total, 1, hop, 1)
    weight = _add_windows((shape * shape).expand(1, count, n_fft), total, 1, hop, 1)
    start = n_fft // 2 if center else 0
    end = total - (n_fft // 2 if center else 0) if length is None else min(start + length, total)
    y, weight = narrow(y, 1, start, end - start), narrow(weight, 1, start, end - start)
    if weight.numel() and float(weight.detach().abs().amin()) < 1e-11:
        raise ValueError("istft: the windows leave gaps (the sum of their squares is zero somewhere)")
    y = y / weight
    return y if length is None or y._shape[1] >= length else pad(y, (0, length - y._shape[1]))


@function()
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None,
    layout: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta √(1 - x²)) / I0(beta), x from -1 to 1."""
    kind = _window_dtype("kaiser_window", dtype)
    if window_length < 2:
        return tensor(np.ones(window_length), dtype=kind)
    values = np.kaiser(window_length + periodic, beta)[:window_length]
    return tensor(values, dtype=kind, device=device, requires_grad=requires_grad)
