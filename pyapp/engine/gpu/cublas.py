"""Products of matrices by NVIDIA's cuBLASLt, where it is installed (`pip install 'pyapp[cublas]'`): the records of
`matmul_*` and of `linear_*` with more than a few rows. What it does not take is left to the kernels of native/cuda.

Products of float32 rows with 16-bit weights, and of int8 rows with weights in blocks, have operands of 16 bits that
kernels make first (native/cuda/operands.cu), and float32 results.

Reference: the cuBLAS documentation (https://docs.nvidia.com/cuda/cublas), and the values of its enumerations in
cublasLt.h. The library's matrices lie by columns: a dense matrix of ours is the transposed of one of its own, so that
y = x w' is computed as y' = w x'.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Sequence
from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from pyapp.dataclass import dataclass

from ...errors import KernelError
from ..native import DIMS, SIGNATURES
from .precision import precision

WORKSPACE = 32 << 20  # bytes: what NVIDIA advises for Hopper
FEW_ROWS = 32  # native/cuda/linear.cu and int8_rows.h read weights once for so many
FEW_FLOAT_ROWS = 8  # the same, of float32
TYPES = {"f32": 0, "f16": 2, "bf16": 14}  # cudaDataType
BYTES = {0: 4, 2: 2, 14: 2}
COMPUTE_32F, COMPUTE_32F_TF32 = 68, 77  # cublasComputeType_t
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
BATCH_COUNT, BATCH_OFFSET = 5, 6  # cublasLtMatrixLayoutAttribute_t
MAX_WORKSPACE, LEAST_ALIGNMENT = 1, 5  # cublasLtMatmulPreferenceAttributes_t; alignment of a, then b, c, d
# cublasLtEpilogue_t, by whether there is a bias and by the activation, whose gelu is the approximation by tanh.
EPILOGUES = {
    (False, ""): 1, (True, ""): 4, (False, "relu"): 2, (True, "relu"): 6, (False, "gelu_tanh"): 32,
    (True, "gelu_tanh"): 36,
}  # fmt: skip
ALIGNMENT = 256  # bytes: more makes no difference
SLICE = 128 << 20  # bytes of weights that are made float16 at a time
FIRST_OUTPUT = DIMS - 1  # the dim that tells native/cuda/operands.cu where a slice begins

_HANDLE = c_void_p
_SIGNATURES: dict[str, list[Any]] = {
    "cublasLtCreate": [POINTER(_HANDLE)],
    "cublasLtMatmulDescCreate": [POINTER(_HANDLE), c_int, c_int],
    "cublasLtMatmulDescSetAttribute": [_HANDLE, c_int, c_void_p, c_size_t],
    "cublasLtMatmulDescDestroy": [_HANDLE],
    "cublasLtMatrixLayoutCreate": [POINTER(_HANDLE), c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatrixLayoutSetAttribute": [_HANDLE, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutDestroy": [_HANDLE],
    "cublasLtMatmulPreferenceCreate": [POINTER(_HANDLE)],
    "cublasLtMatmulPreferenceSetAttribute": [_HANDLE, c_int, c_void_p, c_size_t],
    "cublasLtMatmulPreferenceDestroy": [_HANDLE],
    "cublasLtMatmulAlgoGetHeuristic": [
        _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE, c_int, c_void_p, POINTER(c_int)
    ],
    "cublasLtMatmul": [
        _HANDLE, _HANDLE, c_void_p, c_void_p, _HANDLE, c_void_p, _HANDLE, c_void_p, c_void_p, _HANDLE, c_void_p,
        _HANDLE, c_void_p, c_void_p, c_size_t, c_void_p,
    ],
}  # fmt: skip


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and the bytes of workspace that it needs."""

    _fields_ = [
        ("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    ]  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """A matrix as the library sees it: `rows` and `columns` as stored, columns `stride` elements apart, matrices of a
    batch `offset` elements apart; `slot`: which pointer of the record it is."""

    slot: str
    rows: int
    columns: int
    stride: int
    offset: int = 0
    turned: bool = False  # its transposed is a factor


@dataclass(frozen=True)
class Problem:
    """d = activation(a b (+ c) (+ bias of each row)) for every matrix of a batch, all of one type."""

    type: int
    batch: int
    a: Matrix
    b: Matrix
    d: Matrix
    c: Matrix | None = None  # what is added
    bias: bool = False  # the slot `residual` is a bias
    activation: str = ""
    result: int = -1  # the type of c, d and the bias: that of a and b, unless it says another

    @property
    def of_result(self) -> int:
        return self.type if self.result < 0 else self.result


def _factor(slot: str, rows: int, columns: int, row: int, column: int, offset: int) -> Matrix | None:
    """The transposed of a matrix (rows, columns) of ours with these strides, as a factor; None where neither its rows
    nor its columns are dense."""
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return Matrix(slot, columns, rows, max(row, columns), offset)
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return Matrix(slot, rows, columns, max(column, rows), offset, True)
    return None


LINEAR = {"linear_f32": "f32", "linear_f16_f16": "f16", "linear_bf16_bf16": "bf16"}
MIXED = {"linear_f16": "f16", "linear_bf16": "bf16"}  # float32 rows, and the weights' type
BLOCKS = ("linear_q8_0", "linear_q8_group", "linear_blocks")  # weights become float16
_MATMUL = {"matmul_f32": "f32", "matmul_f16": "f16", "matmul_bf16": "bf16"}
KERNELS = frozenset((*LINEAR, *MIXED, *BLOCKS, *_MATMUL))
_SLOTS = {
    name: tuple([slot.rstrip("?") for slot in group.split()] for group in SIGNATURES[name].split("|")[:2])
    for name in KERNELS
}


def problem_of(kernel: str, dims: dict[str, int], added: bool, activation: str = "") -> Problem | None:
    """What a record asks for; `added`: whether its slot `residual` has something; `activation` follows. None where the
    library does not do it, or kernels do it better."""
    d = dims
    if "outputs" in d:
        rows, outputs, inputs = d["rows"], d["outputs"], d["inputs"]
        few = FEW_FLOAT_ROWS if kernel == "linear_f32" else FEW_ROWS
        if rows <= few or not outputs or not inputs or d["y_stride"] < outputs:
            return None
        made, result = row_of(inputs), TYPES["f32"] if kernel not in LINEAR else -1
        if kernel in LINEAR:
            x = _factor("x", rows, inputs, d["x_stride"], 1, 0)
        else:
            x = Matrix("x" if kernel in MIXED else "xq", inputs, rows, made)
        if x is None or x.turned:
            return None
        turned = Matrix("w", inputs, outputs, made if kernel in BLOCKS else inputs, 0, True)  # y' = w x'
        bias = added and d["residual_stride"] == 0
        if added and not bias and d["residual_stride"] < outputs:
            return None
        c = Matrix("residual", outputs, rows, d["residual_stride"]) if added and not bias else None
        y = Matrix("y", outputs, rows, d["y_stride"])
        kind = LINEAR.get(kernel) or MIXED.get(kernel, "f16")
        return Problem(TYPES[kind], 1, turned, x, y, c, bias, activation, result)
    m, n, k, batch = d["m"], d["n"], d["k"], d["batch"]
    if not (m and n and k and batch) or d["c_row"] < n:
        return None
    left = _factor("b", k, n, d["b_row"], d["b_column"], d["b_batch"])  # c' = b' a'
    right = _factor("a", m, k, d["a_row"], d["a_column"], d["a_batch"])
    if left is None or right is None or left.offset < 0 or right.offset < 0:
        return None
    return Problem(TYPES[_MATMUL[kernel]], batch, left, right, Matrix("c", n, m, d["c_row"], d["c_batch"]))


_ZERO, _ONE = c_float(0), c_float(1)


def row_of(inputs: int) -> int:
    """How many elements the rows of an operand are apart that native/cuda/operands.cu makes (OPERAND_ROW)."""
    return -(-inputs // 32) * 32


class _Planned:
    """A problem with its descriptors and the algorithm that was chosen for it."""

    __slots__ = ("algorithm", "description", "layouts", "numbers", "places", "problem", "workspace")

    def __init__(self, problem: Problem, description: Any, layouts: dict[str, Any], found: Heuristic) -> None:
        self.problem, self.description, self.layouts = problem, description, layouts
        self.algorithm, self.workspace = found.algorithm, int(found.workspace)
        # Numbers in the order of cublasLtMatmul: ctypes takes tens of microseconds to convert objects.
        beta = _ZERO if problem.c is None else _ONE
        self.numbers = (
            description.value,
            ctypes.addressof(_ONE),
            ctypes.addressof(beta),
            ctypes.addressof(self.algorithm),
        )
        self.places = tuple(layouts[name].value for name in "abcd")


@dataclass(frozen=True)
class Piece:
    """A product of `outputs` outputs from `first` on. `made`: where in the workspace operands are made, by slot, of
    which the earlier pieces have made all but those of `own`."""

    planned: _Planned
    first: int
    outputs: int
    made: dict[str, int]
    own: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """How the library computes a record; `workspace`: bytes."""

    pieces: tuple[Piece, ...]
    workspace: int


class Products:
    """cuBLASLt for one card. Not for several threads at once: the device has a lock."""

    def __init__(self, library: Any) -> None:
        for name, types in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
        self._library, self._matmul = library, library.cublasLtMatmul
        self._handle = self._new("cublasLtCreate")
        self._planned: dict[Any, Plan | None] = {}

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise KernelError(f"{name} answers with status {status}", where="cuBLASLt")

    def _new(self, name: str, *arguments: Any) -> Any:
        made = _HANDLE()
        self._call(name, byref(made), *arguments)
        return made

    def _set(self, kind: str, of: Any, attribute: int, value: Any) -> None:
        self._call(f"cublasLt{kind}SetAttribute", of, attribute, byref(value), ctypes.sizeof(value))

    def plan(self, kernel: str, pointers: Sequence[int], dims: Sequence[int], activation: str = "") -> Plan | None:
        """How the library computes a record, with an activation after it; None where it does not."""
        slots, names = _SLOTS[kernel]
        sizes = tuple(dims[: len(names)])
        places = pointers[: len(slots)]
        aligned = tuple(min(ALIGNMENT, place & -place) if place else ALIGNMENT for place in places)
        fast = precision.allow_tf32
        key = kernel, sizes, aligned, bool(places[-1]), fast, activation
        if key not in self._planned:
            alignments = dict(zip(slots, aligned, strict=True))
            added = "residual" in alignments and bool(places[-1])
            self._planned[key] = self._plan(kernel, dict(zip(names, sizes, strict=True)), added, activation, alignments)
        return self._planned[key]

    def _plan(
        self, kernel: str, dims: dict[str, int], added: bool, activation: str, alignments: dict[str, int]
    ) -> Plan | None:
        problem = problem_of(kernel, dims, added, activation)
        if problem is None:
            return None
        if kernel in LINEAR or kernel in _MATMUL:
            planned = self._choose(problem, alignments, precision.allow_tf32)
            return None if planned is None else Plan((Piece(planned, 0, 0, {}, ()),), planned.workspace)
        x_slot, row = problem.b.slot, 2 * row_of(dims["inputs"])
        outputs, each, made = dims["outputs"], dims["outputs"], {x_slot: WORKSPACE}
        end = WORKSPACE + _rounded(row * dims["rows"])
        if kernel in BLOCKS:
            each = min(outputs, max(SLICE // row // ALIGNMENT, 1) * ALIGNMENT)
            made["w"] = end
            end += _rounded(row * each)
        for slot in made:
            alignments[slot] = ALIGNMENT
        pieces = []
        for first in range(0, outputs, each):
            size = min(each, outputs - first)
            part = problem_of(kernel, dims | {"outputs": size}, added, activation)
            planned = None if part is None else self._choose(part, alignments, False)
            if planned is None:
                return None
            pieces.append(Piece(planned, first, size, made, ("w",) if first else tuple(made)))
        return Plan(tuple(pieces), end)

    def _layout(self, matrix: Matrix, kind: int, problem: Problem) -> Any:
        made = self._new("cublasLtMatrixLayoutCreate", kind, matrix.rows, matrix.columns, matrix.stride)
        if problem.batch > 1:
            self._set("MatrixLayout", made, BATCH_COUNT, c_int32(problem.batch))
            self._set("MatrixLayout", made, BATCH_OFFSET, c_int64(matrix.offset))
        return made

    def _choose(self, problem: Problem, alignments: dict[str, int], fast: bool) -> _Planned | None:
        compute = COMPUTE_32F_TF32 if fast and problem.type == TYPES["f32"] else COMPUTE_32F
        description = self._new("cublasLtMatmulDescCreate", compute, TYPES["f32"])
        for attribute, matrix in ((TRANSA, problem.a), (TRANSB, problem.b)):
            self._set("MatmulDesc", description, attribute, c_int32(matrix.turned))
        if problem.bias or problem.activation:
            epilogue = EPILOGUES[problem.bias, problem.activation]
            self._set("MatmulDesc", description, EPILOGUE, c_uint32(epilogue))
        c = problem.c or problem.d
        matrices = {"a": problem.a, "b": problem.b, "c": c, "d": problem.d}
        kinds = {"a": problem.type, "b": problem.type, "c": problem.of_result, "d": problem.of_result}
        layouts = {name: self._layout(matrix, kinds[name], problem) for name, matrix in matrices.items()}
        preference = self._new("cublasLtMatmulPreferenceCreate")
        found, count = Heuristic(), c_int(0)
        try:
            self._set("MatmulPreference", preference, MAX_WORKSPACE, c_uint64(WORKSPACE))
            for i, matrix in enumerate(matrices.values()):
                self._set("MatmulPreference", preference, LEAST_ALIGNMENT + i, c_uint32(alignments[matrix.slot]))
            status = self._library.cublasLtMatmulAlgoGetHeuristic(
                self._handle, description, *layouts.values(), preference, 1, byref(found), byref(count)
            )
        finally:
            self._call("cublasLtMatmulPreferenceDestroy", preference)
        if status or not count.value or found.state or found.workspace > WORKSPACE:
            for layout in layouts.values():
                self._call("cublasLtMatrixLayoutDestroy", layout)
            self._call("cublasLtMatmulDescDestroy", description)
            return None
        return _Planned(problem, description, layouts, found)

    def run(self, piece: Piece, kernel: str, pointers: Sequence[int], workspace: int, stream: int) -> None:
        """Starts a piece of the product of a record in a stream, whose operands are made. `workspace`: the address of
        as many bytes as planned."""
        at = dict(zip(_SLOTS[kernel][0], pointers, strict=False))
        planned = piece.planned
        problem = planned.problem
        for slot, place in piece.made.items():
            at[slot] = workspace + place
        if piece.first:
            skipped = piece.first * BYTES[problem.of_result]
            at |= {slot: at[slot] + skipped for slot in ("y", "residual") if at[slot]}
        if problem.bias:
            self._set("MatmulDesc", planned.description, BIAS_POINTER, c_uint64(at["residual"]))
        description, alpha, beta, algorithm = planned.numbers
        a, b, c, d = planned.places
        to = at[problem.d.slot]
        status = self._matmul(
            self._handle.value, description, alpha, at[problem.a.slot], a, at[problem.b.slot], b, beta,
            to if problem.c is None else at[problem.c.slot], c, to, d, algorithm, workspace, planned.workspace, stream,
        )  # fmt: skip
        if status:
            raise KernelError(f"cublasLtMatmul answers with status {status}", where="cuBLASLt")


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def load() -> Any:
    """The library, from NVIDIA's package or the system, or the file that PYAPP_CUBLASLT names; None where there is
    none.
    """
    if own := os.environ.get("PYAPP_CUBLASLT"):
        return _library(own)
    try:
        found = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path
    except Exception:  # the finder has an error of its own for what it does not find
        found = "libcublasLt.so.13"
    return _library(found or "libcublasLt.so.13")


def _library(path: str) -> Any:
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None
