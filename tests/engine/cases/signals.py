"""Fourier transforms; complex results are shown as pairs: cases as the package describes them."""

from __future__ import annotations

import importlib
from typing import Any

from . import Case


def pairs(P: Any, x: Any) -> Any:
    return P.view_as_real(x.resolve_conj())


def whole(P: Any, x: Any) -> Any:
    """A complex tensor from pairs."""
    return P.view_as_complex(x.contiguous())


def _stft(P: Any, x: Any, *arguments: Any, **settings: Any) -> Any:
    return P.view_as_real(P.stft(x, *arguments, return_complex=True, **settings))


def _round_trip(P: Any, x: Any) -> Any:
    window = P.hann_window(8)
    y = _stft(P, x, 8, 2, window=window)
    return P.istft(whole(P, y * 1.5), 8, 2, window=window, length=20)


def _windows(P: Any) -> Any:
    """Every window, symmetric and of a period, of 6 numbers and of 1."""
    of = {
        "general_cosine": {"a": [0.3, 0.5, 0.2]}, "exponential": {"tau": 2.0}, "gaussian": {"std": 1.7},
        "kaiser": {"beta": 8.0},
    }  # fmt: skip
    windows = importlib.import_module(f"{P.__name__}.signal.windows")
    return P.cat([
        getattr(windows, name)(size, sym=sym, **of.get(name, {}))
        for name in sorted(windows.__all__) for size in (6, 1) for sym in (True, False)
    ])  # fmt: skip


CASES: list[Case] = [
    ("windows", lambda P, x: _windows(P) * x, [()]),
    *(
        (f"{n}_dims_{d}", lambda P, x, n=n, d=d: pairs(P, getattr(P.fft, n)(whole(P, x), dim=d)), [(2, 3, 4, 2)])
        for n in ("fft2", "ifft2")
        for d in (1, (0, 2, 1))
    ),
    *(
        (f"{n}_{norm}", lambda P, x, n=n, m=norm: pairs(P, getattr(P.fft, n)(whole(P, x), norm=m)), [(2, 5, 2)])
        for n in ("fft", "ifft")
        for norm in (None, "ortho", "forward")
    ),
    ("fft_dim", lambda P, x: pairs(P, P.fft.fft(whole(P, x), 4, 0)), [(6, 3, 2)]),
    ("fft_longer", lambda P, x: pairs(P, P.fft.ifft(whole(P, x), 8)), [(3, 5, 2)]),
    *(
        (f"rfft_{norm}", lambda P, x, m=norm: pairs(P, P.fft.rfft(x, norm=m)), [(2, 7)])
        for norm in ("backward", "ortho", "forward")
    ),
    ("rfft_even", lambda P, x: pairs(P, P.fft.rfft(x, 6, 0)), [(8, 3)]),
    ("rfft_longer", lambda P, x: pairs(P, P.fft.rfft(x, 9)), [(2, 6)]),
    *(
        (f"irfft_{n}", lambda P, x, n=n: P.fft.irfft(whole(P, x), n, norm="ortho"), [(2, 5, 2)])
        for n in (None, 9, 6, 12)
    ),
    ("irfft_dim", lambda P, x: P.fft.irfft(whole(P, x), dim=0), [(4, 3, 2)]),
    ("fft2", lambda P, x: pairs(P, P.fft.fft2(whole(P, x))), [(2, 3, 4, 2)]),
    ("ifft2", lambda P, x: pairs(P, P.fft.ifft2(whole(P, x), (4, 3))), [(3, 4, 2)]),
    ("rfft2", lambda P, x: pairs(P, P.fft.rfft2(x)), [(2, 3, 4)]),
    ("irfft2", lambda P, x: P.fft.irfft2(whole(P, x), (3, 5)), [(3, 3, 2)]),
    ("fftn", lambda P, x: pairs(P, P.fft.fftn(whole(P, x), norm="ortho")), [(2, 3, 2)]),
    ("ifftn", lambda P, x: pairs(P, P.fft.ifftn(whole(P, x), (4, 2), (1, 0))), [(2, 3, 2)]),
    ("rfftn", lambda P, x: pairs(P, P.fft.rfftn(x, (3, 4))), [(2, 2, 5)]),
    ("irfftn", lambda P, x: P.fft.irfftn(whole(P, x)), [(2, 2, 3, 2)]),
    ("hfft", lambda P, x: P.fft.hfft(whole(P, x), 5, norm="forward"), [(2, 3, 2)]),
    ("ihfft", lambda P, x: pairs(P, P.fft.ihfft(x, dim=0)), [(4, 3)]),
    ("hfft2", lambda P, x: P.fft.hfft2(whole(P, x), (3, 5), norm="ortho"), [(2, 3, 3, 2)]),
    ("hfftn", lambda P, x: P.fft.hfftn(whole(P, x), dim=(2, 0)), [(2, 3, 3, 2)]),
    ("ihfft2", lambda P, x: pairs(P, P.fft.ihfft2(x, norm="forward")), [(2, 3, 4)]),
    ("ihfftn", lambda P, x: pairs(P, P.fft.ihfftn(x, (3, 4))), [(2, 2, 5)]),
    ("fftfreq", lambda P, x: P.fft.fftfreq(7, 0.5) + x * 0, [()]),
    ("rfftfreq", lambda P, x: P.fft.rfftfreq(8) + x * 0, [()]),
    ("fftshift", lambda P, x: P.fft.fftshift(x), [(4, 5)]),
    ("ifftshift", lambda P, x: P.fft.ifftshift(x, 1), [(4, 5)]),
    *(
        (f"{n}_{size}_{periodic}", lambda P, x, n=n, s=size, p=periodic: getattr(P, n)(s, p) + x * 0, [()])
        for n in ("hann_window", "hamming_window", "blackman_window", "bartlett_window")
        for size in (1, 8, 9)
        for periodic in (True, False)
    ),
    ("stft", lambda P, x: _stft(P, x, 8), [(2, 20)]),
    ("stft_all", lambda P, x, w: _stft(P, x, 8, 3, 6, w, normalized=True, pad_mode="constant"), [(20,), (6,)]),
    ("stft_two_sided", lambda P, x, w: _stft(P, x, 8, 4, 8, w, center=False, onesided=False), [(2, 20), (8,)]),
    ("istft", _round_trip, [(2, 20)]),
]
