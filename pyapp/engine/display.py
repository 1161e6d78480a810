"""repr of tensors, as torch prints them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from . import dtype as _dtype
from .lazy import np

if TYPE_CHECKING:
    from .tensor import Tensor

_DEFAULT = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "short": {**_DEFAULT, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULT, "threshold": inf},
}
_OPTIONS: dict[str, Any] = dict(_DEFAULT)


def set_printoptions(*, profile: str | None = None, **options: Any) -> None:
    """Sets how tensors are printed: precision (digits), threshold (largest number of elements shown in full),
    edgeitems, linewidth, sci_mode (True, False, or None to decide by the values). `profile` "default", "short" or
    "full" sets all of them first.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}; known: {', '.join(_PROFILES)}")
        _OPTIONS.update(_PROFILES[profile])
    unknown = options.keys() - _OPTIONS.keys()
    if unknown:
        raise TypeError(f"set_printoptions: unknown option {sorted(unknown)[0]!r}; known: {', '.join(_OPTIONS)}")
    _OPTIONS.update(options)


def _float_formatter(values: Any) -> tuple[Any, int]:
    """(format, width) for all shown values. The format is integers as '1.', fixed point, or scientific if the
    magnitudes differ much. Infinities and NaN do not count for the width.
    """
    precision = _OPTIONS["precision"]
    finite = values[np.isfinite(values) & (values != 0)]
    sizes = np.abs(finite)
    whole = bool((finite == np.floor(finite)).all())
    far = bool(sizes.size and (sizes.max() / sizes.min() > 1000 or sizes.max() > 1e8))
    science = _OPTIONS["sci_mode"]
    if science is None:
        science = far or bool(not whole and sizes.min() < 1e-4)

    def style(value: float) -> str:
        if science:
            return f"{value:.{precision}e}"
        if whole:
            return f"{value:.0f}." if np.isfinite(value) else f"{value:.0f}"
        return f"{value:.{precision}f}"

    return style, max((len(style(v)) for v in finite.tolist()), default=1)


def _complex_formatter(values: Any) -> tuple[Any, int]:
    """(text of one number, what torch counts as its width)."""
    (real_style, real_width), (imag_style, imag_width) = map(_float_formatter, (values.real, values.imag))

    def style(value: complex) -> str:
        imaginary = imag_style(value.imag)
        sign = "" if imaginary[0] == "-" else "+"
        return f"{real_style(value.real).rjust(real_width)}{sign}{imaginary}j"

    return style, real_width + imag_width


def _shown(array: Any, summarize: bool) -> Any:
    """The elements that will be printed, as a flat array."""
    edge = _OPTIONS["edgeitems"]
    for axis in range(array.ndim):
        if summarize and array.shape[axis] > 2 * edge:
            array = np.concatenate([array.take(range(edge), axis), array.take(range(-edge, 0), axis)], axis)
    return array.reshape(-1)


def _body(array: Any, text: Any, indent: int, summarize: bool, longest: int = 0) -> str:
    """`longest`: the width of the longest text; 0: that of those in a row."""
    edge = _OPTIONS["edgeitems"]
    cut = summarize and array.shape[0] > 2 * edge
    rows = [*array[:edge], None, *array[-edge:]] if cut else list(array)
    if array.ndim == 1:
        words = [" ..." if row is None else text(row) for row in rows]
        per_line = max(
            1, (_OPTIONS["linewidth"] - indent) // ((longest or max((len(w) for w in words), default=1)) + 2)
        )
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if row is None else _body(row, text, indent + 1, summarize, longest) for row in rows]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def tensor_repr(x: Tensor) -> str:
    """tensor(…, dtype=…, requires_grad=…)."""
    notes: list[str] = []
    if x.dtype.is_quantized:
        blocks = f"{x.dtype.name} blocks{', transposed' if x.strides != (x.shape[1], 1) else ''}"
        return f"tensor(<{blocks}>, size={x.shape}, dtype={x.dtype!r})"
    kind = x.dtype
    if x.device.type == "meta":
        notes = [f"device='{x.device}'", f"size={tuple(x.shape)}"]
        notes += [] if kind is _dtype.Default.dtype else [f"dtype={kind!r}"]
        return annotated(f"{_kind_of(x)}(...", notes + of_graph(x))
    if kind not in (_dtype.Default.dtype, _dtype.int64, _dtype.bool_, _dtype.complex64):
        notes.append(f"dtype={kind!r}")
    if x.device.type != "cpu":
        notes.append(f"device='{x.device}'")
    notes += of_graph(x)
    if x.numel() == 0:
        if kind in (_dtype.int64, _dtype.bool_, _dtype.complex64):  # there is no element that shows it
            notes.insert(0, f"dtype={kind!r}")
        if x._shape != (0,):
            notes.insert(0, f"size={tuple(x.shape)}")
    kind_of = _kind_of(x)
    return annotated(f"{kind_of}({numbers(x, len(kind_of) + 1)}", notes)


def _kind_of(x: Tensor) -> str:
    """The word tensor; of a class that derives from Tensor its name."""
    name = type(x).__name__
    return "tensor" if name == "Tensor" else name


def numbers(x: Tensor, indent: int) -> str:
    """The elements, in lines that begin at that column."""
    array, kind, longest = x.detach().numpy(), x.dtype, 0
    if array.size == 0:
        return "[]"
    summarize = array.size > _OPTIONS["threshold"]
    shown = _shown(array, summarize)
    if kind.is_floating_point:
        style, width = _float_formatter(shown.astype("float64"))

        def text(value: Any) -> str:
            return str(style(float(value))).rjust(width if array.ndim else 0)

    elif kind.is_complex:
        parted, longest = _complex_formatter(shown.astype("complex128"))

        def text(value: Any) -> str:
            return str(parted(complex(value)) if array.ndim else parted(complex(value)).lstrip())

    else:
        width = max(len(str(v)) for v in shown.tolist())

        def text(value: Any) -> str:
            return str(value.item()).rjust(width if array.ndim else 0)

    return _body(array, text, indent, summarize, longest) if array.ndim else text(array[()])


def of_graph(x: Tensor) -> list[str]:
    """Whether it has a gradient."""
    node = None if x.is_leaf else x.grad_fn
    if node is not None:
        return [f"grad_fn=<{node.name()}>"]
    return ["requires_grad=True"] if x.requires_grad else []


def annotated(text: str, notes: list[str], new_line: bool = False) -> str:
    """Appends the notes; one that does not fit goes on a new line, and the first one with `new_line`."""
    column = len(text) - text.rfind("\n") + 1
    for note in notes:
        fits = not new_line and column + len(note) + 2 <= _OPTIONS["linewidth"]
        new_line = False
        text += f", {note}" if fits else ",\n       " + note
        column = column + len(note) + 2 if fits else 7 + len(note)
    return text + ")"


__top_level__ = ["set_printoptions"]
