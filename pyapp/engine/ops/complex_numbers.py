"""Complex numbers: their parts, which are views of the same memory, and the functions that make and take them apart.

The elements of complex64 and complex128 lie in memory as pairs of floats, as in torch. What moves elements takes them
as they are; arithmetic on the CPU is NumPy's, on other devices that of the parts (complex_by_parts.py). The gradient of
a complex tensor is dL/d(real) + i dL/d(imaginary): `Op.of_complex` says how an op gets it.
"""

from __future__ import annotations

from math import pi
from typing import Any

from .. import dtype as _dtype
from ..declare import attribute, function
from ..dtype import complex_of
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..op import op, primitive, view_op
from ..shape import broadcast_shapes
from ..tensor import Tensor, make
from ..user_errors import describe
from .element_updates import element_function
from .elementwise.arithmetic import sign
from .elementwise.select import where
from .stacking import stack
from .view import expanded

_FLOATS = (_dtype.float32, _dtype.float64)


def _d_view_as_real(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    g = g.contiguous()
    return (_view_as_complex.call(g.clone() if g.offset % 2 else g),)  # pairs begin at even places


def _d_view_as_complex(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    return (_view_as_real.call(g),)


@view_op(_d_view_as_real)
def _view_as_real(x: Tensor) -> Tensor:
    return make(x._storage, (*x._shape, 2), (*[2 * s for s in x.strides], 1), x.dtype.part, 2 * x.offset)


@view_op(_d_view_as_complex)
def _view_as_complex(x: Tensor) -> Tensor:
    return make(x._storage, x._shape[:-1], tuple([s // 2 for s in x.strides[:-1]]), complex_of(x.dtype), x.offset // 2)


@function()
def view_as_real(x: Tensor) -> Tensor:
    """The parts of a complex tensor (...) as pairs (..., 2), a view of its memory. RuntimeError for real tensors."""
    if not x.dtype.is_complex:
        raise RuntimeError(f"view_as_real: takes a complex tensor, not {describe(x)}")
    return _view_as_real.call(x)


@function()
def view_as_complex(x: Tensor) -> Tensor:
    """Pairs (..., 2) of float32 or float64 as a complex tensor (...), a view of their memory. RuntimeError where the
    last dim is not two neighbouring elements, or the other strides and the offset are odd.
    """
    if x.dtype not in _FLOATS:
        raise RuntimeError(f"view_as_complex: takes float32 or float64, not {describe(x)}")
    if not x._shape or x._shape[-1] != 2:
        raise RuntimeError(f"view_as_complex: takes pairs (..., 2), not {describe(x)}")
    if (
        x.strides[-1] != 1
        or x.offset % 2
        or any(s % 2 for n, s in zip(x._shape, x.strides[:-1], strict=False) if n > 1)
    ):
        raise RuntimeError(
            f"view_as_complex: the pairs of {describe(x)} with strides {x.strides} from {x.offset} do not lie in "
            "memory as complex numbers do; use contiguous()"
        )
    return _view_as_complex.call(x)


def _part_view(at: int) -> Any:
    def view(x: Tensor) -> Tensor:
        return make(x._storage, x._shape, tuple([2 * s for s in x.strides]), x.dtype.part, 2 * x.offset + at)

    return view


_real = view_op(lambda g, _, x: (g.to(x.dtype),), name="_real")(_part_view(0))
_imag = view_op(lambda g, _, x: (g * 1j,), name="_imag")(_part_view(1))


@attribute("real")
@function()
def real(x: Tensor) -> Tensor:
    """The real part, a view of the same memory; a real tensor itself."""
    return _real.call(x) if checked(x).dtype.is_complex else x


@attribute("imag")
@function()
def imag(x: Tensor) -> Tensor:
    """The imaginary part, a view of the same memory. RuntimeError for real tensors."""
    if not x.dtype.is_complex:
        raise RuntimeError(f"imag: takes a complex tensor, not {describe(x)}")
    return _imag.call(x)


def _check_parts(name: str, first: Tensor, second: Tensor) -> None:
    """RuntimeError unless both are tensors of float32, or of float64."""
    for x in (first, second):
        if not isinstance(x, Tensor) or x.dtype not in _FLOATS:
            raise RuntimeError(f"{name}: takes tensors of float32 or float64, not {describe(x)}")
    if first.dtype is not second.dtype:
        raise RuntimeError(f"{name}: {describe(first)} and {describe(second)} differ in dtype")


@function("complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, broadcast, of float32 or float64. RuntimeError for other dtypes, or two of them."""
    _check_parts("complex", real, imag)
    shape = broadcast_shapes(real._shape, imag._shape, op="complex")
    return _view_as_complex.call(stack([expanded(real, shape), expanded(imag, shape)], -1))


@function()
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs (cos angle + i sin angle), broadcast, of float32 or float64."""
    _check_parts("polar", abs, angle)
    return complex_(abs * angle.cos(), abs * angle.sin())


@primitive(vjp=lambda g, _, x: (g.conj(),), saves="none", name="conj_physical")
def _conj(x: Tensor) -> Tensor:
    return tensor_of(np.conjugate(x.array()), x.dtype)


_conj.takes_complex = True


@function(method=True)
def conj(x: Tensor) -> Tensor:
    """The complex conjugate, computed at once; a real tensor itself."""
    return _conj.call(x) if checked(x).dtype.is_complex else x


@function(method=True, in_place=True)
def conj_physical(x: Tensor) -> Tensor:
    """The complex conjugate; of a real tensor itself."""
    return conj(x)


def _resolved(x: Tensor) -> Tensor:
    """x itself: conj() computes at once, so nothing is left to do."""
    return checked(x)


def _is_left(x: Tensor) -> bool:
    """False: conj() computes at once, so nothing is left to do."""
    checked(x)
    return False


def checked(x: Any) -> Tensor:
    """x. TypeError for what is not a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"takes a tensor, not {describe(x)}")
    return x


for _name in ("resolve_conj", "resolve_neg"):
    function(_name, method=True)(_resolved)
for _name in ("is_conj", "is_neg"):
    function(_name, method=True)(_is_left)


def _d_angle(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    """The angle of 0 has the slope 0, as in torch."""
    if not x.dtype.is_complex:
        return (g.new_zeros(g._shape),)
    square = (x * x.conj()).real
    return (where(square == 0, 0.0, x * 1j / where(square == 0, 1.0, square)) * g,)


_angle_of_real = element_function(
    lambda x, half_turn: (x.sign().minimum(0.0) * half_turn).abs().where(x.abs() > -1.0, x), 1, 1
)


@function(method=True)
@op(vjp=_d_angle)
def angle(x: Tensor) -> Tensor:
    """The angle of complex numbers in radians, -π to π; of real ones π below 0, else 0, and NaN of NaN."""
    if x.dtype.is_complex:
        return imag(x).atan2(real(x))
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.Default.dtype)
    return _angle_of_real(x, pi)


def _d_sgn(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    """What turns the number, not what lengthens it."""
    size = x.abs()
    none = size == 0
    return (where(none, 0.0, (g - y * (y.conj() * g).real) / where(none, 1.0, size)),)


@op(vjp=_d_sgn, saves="both", name="sgn")
def _sgn(x: Tensor) -> Tensor:
    size = x.abs()
    return where(size == 0, 0.0, x / where(size == 0, 1.0, size))


_sgn.takes_complex = True


@function(method=True, in_place=True)
def sgn(x: Tensor) -> Tensor:
    """x / |x|, 0 for 0; the sign of real numbers."""
    return _sgn.call(x) if x.dtype.is_complex else sign.call(x)


@function(method=True)
def isreal(x: Tensor) -> Tensor:
    """Where the imaginary part is 0; everywhere in a real tensor."""
    return imag(x) == 0 if x.dtype.is_complex else x.new_ones(x._shape, dtype=_dtype.bool_)


@function(method=True)
def adjoint(x: Tensor) -> Tensor:
    """The matrices (..., M, N) transposed and conjugated."""
    return conj(x.mT)


@attribute("mH")
def _adjoints(x: Tensor) -> Tensor:
    """The last two dims swapped, conjugated. A number is its own."""
    return conj(x.mT)


@attribute("H")
def _adjoint_of_matrix(x: Tensor) -> Tensor:
    if x.ndim not in (0, 2):
        raise RuntimeError(f"H: takes a matrix, not {describe(x)}; see mH")
    return conj(x.mT if x.ndim else x)
