"""Transforms of Fourier's and linear algebra."""

from __future__ import annotations

from typing import Any

import pyapp
from pyapp import Tensor

from ..call import Call, broadcast, family
from ..operands import Draw


@family
def transforms(d: Draw) -> Call:
    name = d.pick(
        "fft ifft rfft irfft fft2 rfft2 stft istft hfft fftshift complex polar abs_complex complex_mul dct".split()
    )
    kind = str(d.pick(("float32", "float32", "float64")))
    shape = d.shape(1 + d.below(3), 2500, empty=False)
    dim = d.below(len(shape)) - len(shape)
    n = d.pick((None, None, d.size(33)))
    norm = d.pick((None, "ortho", "forward"))
    details = {"dim": dim, "n": n, "norm": norm}

    def real(z: Tensor) -> Tensor:
        return pyapp.view_as_real(z) if z.is_complex() else z

    x = d.operand(shape, kind)
    if name == "rfft":
        return Call(name, [x], lambda x: real(pyapp.fft.rfft(x, n, dim, norm)), details=details)
    if name == "fft2" and len(shape) > 1:
        return Call(name, [x], lambda x: real(pyapp.fft.fft2(x)))
    if name == "rfft2" and len(shape) > 1:
        return Call(name, [x], lambda x: real(pyapp.fft.rfft2(x)))
    if name == "stft":
        size = int(d.pick((4, 8, 16, 20)))
        y = d.operand((*([2] if d.chance(0.5) else []), size + d.size(65)), kind)
        hop = int(d.pick((1, 2, 3, size // 2, size)))
        return Call(
            name,
            [y, d.operand((size,), kind)],
            lambda x, w: real(pyapp.stft(x, size, hop, window=w, return_complex=True)),
            details={"size": size, "hop": hop},
        )
    y = d.operand(shape, kind)
    if name in ("ifft", "fft", "irfft", "hfft"):
        if name in ("irfft", "hfft") and shape[dim] == 1 and n is None:
            n = 4
        many = n
        return Call(
            name,
            [x, y],
            lambda a, b: real(getattr(pyapp.fft, name)(pyapp.complex(a, b), many, dim, norm)),
            details={**details, "n": n},
        )
    if name == "complex_mul":
        z = d.operand(broadcast(d, shape), kind)
        return Call(name, [x, y, z], lambda a, b, c: real((pyapp.complex(a, b) * c).transpose(0, -1) + 1.0))
    if name == "abs_complex":
        return Call(name, [x, y], lambda a, b: (pyapp.complex(a, b) + 3.0).transpose(0, -1).abs())
    if name == "fftshift":
        return Call(name, [x], lambda x: pyapp.fft.fftshift(x, dim), details=details)
    return Call(
        "exp of complex",
        [x, y],
        lambda a, b: real(pyapp.complex(a, b).sin().conj().mT if a.ndim > 1 else pyapp.complex(a, b).conj()),
    )


@family
def matrices(d: Draw) -> Call:
    """Linear algebra of well-conditioned matrices."""
    name = d.pick(
        (
            "solve inv det slogdet cholesky solve_triangular matrix_exp qr svdvals eigvalsh lu_solve "
            "matrix_power pinv trace kron cross multi_dot cholesky_solve vander"
        ).split()
    )
    kind = str(d.pick(("float32", "float32", "float64")))
    lead, n, k = (
        d.shape(d.below(3), 6, empty=False),
        int(d.pick((1, 2, 3, 4, 5, 8, 9, 16, 17, 33))),
        int(d.pick((1, 2, 3, 8))),
    )
    a = d.operand((*lead, n, n), kind)
    b = d.operand((*(lead if d.chance(0.8) else ()), n, k), kind)

    def good(a: Tensor) -> Tensor:
        size = (2.0 * n) ** 0.5
        y = a / (2 * size)
        return (
            y + pyapp.eye(n, dtype=a.dtype, device=a.device) * 2.0
            if view
            else (y + pyapp.eye(n, dtype=a.dtype, device=a.device) * 2.0).mT.contiguous().mT
        )

    view = d.chance(0.5)
    L = pyapp.linalg
    table: dict[str, Any] = {
        "solve": lambda a, b: L.solve(good(a), b),
        "inv": lambda a: L.inv(good(a)),
        "det": lambda a: L.det(good(a) / 2),
        "slogdet": lambda a: L.slogdet(good(a))[1],
        "cholesky": lambda a: L.cholesky(good(a) @ good(a).mT),
        "solve_triangular": lambda a, b: L.solve_triangular(good(a).triu(), b, upper=True),
        "matrix_exp": lambda a: L.matrix_exp(good(a) * 0.3),
        "qr": lambda a: L.qr(good(a))[1].abs(),
        "svdvals": lambda a: L.svdvals(good(a)),
        "eigvalsh": lambda a: L.eigvalsh(good(a) + good(a).mT),
        "lu_solve": lambda a, b: L.lu_solve(*L.lu_factor(good(a)), b),
        "matrix_power": lambda a: L.matrix_power(good(a) * 0.5, 3),
        "pinv": lambda a: L.pinv(good(a)),
        "trace": lambda a: a.diagonal(0, -2, -1).sum(-1),
        "cholesky_solve": lambda a, b: pyapp.cholesky_solve(b, L.cholesky(good(a) @ good(a).mT)),
    }
    if name in ("kron", "multi_dot", "vander"):
        x, y = d.operand((d.size(9), d.size(9)), kind), d.operand((d.size(9), d.size(9)), kind)
        return Call("kron", [x, y], pyapp.kron)
    if name == "cross":
        shape = d.shape(2, 60, empty=False)
        x, y = d.operand((*shape, 3), kind), d.operand((*shape, 3), kind)
        return Call(name, [x, y], lambda x, y: L.cross(x, y))
    pair = name in ("solve", "solve_triangular", "lu_solve", "cholesky_solve")
    if name in ("lu_solve", "cholesky_solve") and len(b.shape) != len(a.shape):
        b = d.operand((*lead, n, k), kind)
    return Call(
        name,
        [a, b] if pair else [a],
        table[name],
        name not in ("qr", "svdvals"),
        tolerance=5e-3 if kind == "float32" else 1e-6,
    )
