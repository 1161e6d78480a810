"""Element types, their order of promotion, and the block formats of quantised weights.

Promotion follows PyTorch (https://pytorch.org/docs/stable/tensor_attributes.html): the category (bool, integer,
floating, complex) decides first, then the wider type; a zero-dimensional tensor or a Python number counts only for its
category. A complex dtype is made of floats, so its width is that of the widest floats beside it.
"""

from __future__ import annotations

from .blocks.layout import BLOCK_TYPES


class DType:
    """One element type. `itemsize` is in bytes (0 for block formats); `numpy_name` is the NumPy dtype that
    stores it.
    """

    __slots__ = (
        "block", "category", "format", "has_gradient", "is_bits", "is_complex", "is_floating_point", "is_quantized",
        "is_signed",
        "is_storage_only", "itemsize", "name", "numpy_name", "part", "rank",
    )  # fmt: skip

    def __init__(
        self, name: str, category: int, rank: int, itemsize: int, numpy_name: str = "", format: str = "", block: int = 1
    ) -> None:
        self.name = name
        self.category = category  # 0 bool, 1 integer, 2 floating, 3 complex, 4 block format
        self.rank = rank  # within the category, the wider type has the higher rank
        self.itemsize = itemsize
        self.numpy_name = numpy_name
        self.format = format  # of memoryview; "" where it has none
        self.block = block  # columns that share a scale
        self.is_bits = category == 2 and numpy_name.startswith("uint")  # NumPy does not have it: computed in float32
        self.is_storage_only = self.is_bits and itemsize == 1  # stored and converted, without arithmetic
        self.is_floating_point = category == 2
        self.is_quantized = category == 4
        self.is_signed = category > 0 and name[0] != "u"
        self.is_complex = category == 3
        self.has_gradient = category in (2, 3)  # whether tensors of it can require one
        self.part: DType = self  # of the real and of the imaginary part

    def to_real(self) -> DType:
        """The dtype of the real and of the imaginary part; of a real dtype, itself."""
        return self.part

    def to_complex(self) -> DType:
        """The complex dtype whose parts this is; complex64 for 16-bit floats. TypeError for integers."""
        if not self.has_gradient:
            raise TypeError(f"to_complex: takes a floating-point or complex dtype, not {self}")
        return complex_of(self)

    def __repr__(self) -> str:
        return f"pyapp.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)


bool_ = DType("bool", 0, 0, 1, "bool", "?")
uint8 = DType("uint8", 1, 0, 1, "uint8", "B")
uint16 = DType("uint16", 1, 2, 2, "uint16", "H")
uint32 = DType("uint32", 1, 3, 4, "uint32", "I")
uint64 = DType("uint64", 1, 4, 8, "uint64", "Q")
int8 = DType("int8", 1, 1, 1, "int8", "b")
int16 = DType("int16", 1, 2, 2, "int16", "h")
int32 = DType("int32", 1, 3, 4, "int32", "i")
int64 = DType("int64", 1, 4, 8, "int64", "q")
float8_e4m3fn = DType("float8_e4m3fn", 2, -1, 1, "uint8", "B")  # Micikevicius et al. 2022, arXiv 2209.05433
float8_e5m2 = DType("float8_e5m2", 2, -1, 1, "uint8", "B")
float16 = DType("float16", 2, 0, 2, "float16", "H")  # memoryview has no half type: its bits
bfloat16 = DType("bfloat16", 2, 1, 2, "uint16", "H")  # NumPy has no bfloat16: its bits are kept
float32 = DType("float32", 2, 2, 4, "float32", "f")
float64 = DType("float64", 2, 3, 8, "float64", "d")
complex64 = DType("complex64", 3, 0, 8, "complex64")
complex128 = DType("complex128", 3, 1, 16, "complex128")
complex64.part, complex128.part = float32, float64
q8_group = DType("q8_group", 4, 0, 0, block=32)
# By name: those above, and GGML's block types, "q4_0" … "mxfp4".
DTYPES = {found.name: found for found in [*globals().values()] if isinstance(found, DType)}
GGML = {name: DType(name, 4, 1, 0, block=block.values) for name, block in BLOCK_TYPES.items()}
DTYPES |= GGML
q4_0, q8_0, q4_K, q6_K = (GGML[name] for name in ("q4_0", "q8_0", "q4_K", "q6_K"))
_WIDE_UNSIGNED = (uint16, uint32, uint64)  # torch combines them with no other integers
ALIASES = {"half": float16, "float": float32, "double": float64, "long": int64, "int": int32, "short": int16}
ALIASES |= {"f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64, "i32": int32, "i64": int64, "u8": uint8}
ALIASES |= {"cfloat": complex64, "cdouble": complex128}


def as_dtype(value: object) -> DType:
    """A DType from itself, its name, a Python type or a NumPy dtype."""
    if isinstance(value, DType):
        return value
    if value is float:
        return float64
    if value is int:
        return int64
    if value is bool:
        return bool_
    if value is complex:
        return complex128
    name: str = value if isinstance(value, str) else getattr(value, "name", "") or getattr(value, "__name__", "")
    found = DTYPES.get(name) or ALIASES.get(name)
    if found is None:
        raise TypeError(f"unknown dtype {value!r}; known: {', '.join(DTYPES)}")
    return found


class Default:
    """The dtype of new floating-point tensors, of Python floats, and of floating-point results of integers. float32
    unless changed by set_default_dtype().
    """

    dtype = float32


def get_default_dtype() -> DType:
    """The dtype of new floating-point tensors: float32 unless set_default_dtype() changed it."""
    return Default.dtype


def set_default_dtype(d: object) -> None:
    """Sets the dtype of new floating-point tensors. TypeError for any but float64, float32, float16 and bfloat16."""
    found = as_dtype(d)
    if not found.is_floating_point or found.is_storage_only:
        raise TypeError(f"set_default_dtype: takes a floating-point dtype that is computed with, not {found}")
    Default.dtype = found


# torch's older names of tensors of a dtype.
TYPED = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip


def of_number(value: object) -> DType:
    """PyTorch's dtype of a Python number, or one of NumPy's of the same category."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, complex):
        return complex_of(Default.dtype)
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if kind == "c":
        return complex_of(Default.dtype)
    return bool_ if kind == "b" else int64 if kind in ("i", "u") else Default.dtype


def complex_of(dtype: DType) -> DType:
    """The complex dtype that numbers of a dtype become: complex128 for float64 and complex128, else complex64."""
    return complex128 if dtype.part is float64 else complex64


def promote(a: DType, b: DType) -> DType:
    """The common dtype of two tensors of equal promotion rank."""
    if a is b and not a.is_storage_only:
        return a
    if a.category == 4 or b.category == 4:
        raise TypeError(f"cannot combine {a} and {b}: dequantize the block-quantised tensor first")
    if a.is_storage_only or b.is_storage_only:
        raise TypeError(f"cannot combine {a} and {b}: 8-bit floats are for storage; convert with .to(float32)")
    if (a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED) and max(a.category, b.category) < 2:
        raise TypeError(f"cannot combine {a} and {b}: convert one of them first")
    if a.category != b.category:
        high, low = (a, b) if a.category > b.category else (b, a)
        return complex128 if high.is_complex and low is float64 else high
    if a.category == 1 and uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    if {a, b} == {float16, bfloat16}:
        return float32
    return a if a.rank > b.rank else b


def result_dtype(operands: list[tuple[DType, int]]) -> DType:
    """The promoted dtype of (dtype, priority) pairs. Priority 2 is a tensor with dimensions, 1 a zero-dimensional
    tensor, 0 a number.

    Operands of a lower priority matter only if their category (bool, integer, float, complex) is higher than that of
    the others.
    """
    result: DType | None = None
    for priority in (2, 1, 0):
        level: DType | None = None
        for dtype, its in operands:
            if its == priority:
                level = dtype if level is None else promote(level, dtype)
        if level is None:
            continue
        if result is None or level.category > result.category:
            if level.is_storage_only or (result is not None and result.is_storage_only):
                promote(level, result or level)
            if level.is_complex and result is not None and result.is_floating_point:
                level = complex_of(result)
            result = level
    assert result is not None
    return result


__top_level__ = ["set_default_dtype"]
