"""A double of cuBLASLt for tests: the functions that pyapp calls, with the signatures and values of cublasLt.h, over
the memory of an emulated card. It computes with NumPy, and refuses what the library would refuse.

Reference: the cuBLAS documentation (https://docs.nvidia.com/cuda/cublas).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from pyapp.engine.gpu.cublas import Products
from tests.native.kernels import from_bf16, to_bf16

from . import emulated

SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 0, 7, 15  # cublasStatus_t
HANDLE, OUT = c_void_p, POINTER(c_void_p)
ATTRIBUTES = {  # of each kind of object: number, name and type
    "MatmulDesc": {3: ("turn_a", c_int32), 4: ("turn_b", c_int32), 7: ("epilogue", c_uint32), 8: ("bias", c_uint64)},
    "MatrixLayout": {5: ("batch", c_int32), 6: ("offset", c_int64)},
    "MatmulPreference": {
        1: ("workspace", c_uint64), 5: ("a", c_uint32), 6: ("b", c_uint32), 7: ("c", c_uint32), 8: ("d", c_uint32)
    },
}  # fmt: skip
R_32F, R_16F, R_16BF = 0, 2, 14
DTYPES: dict[int, Any] = {R_32F: np.float32, R_16F: np.float16, R_16BF: np.uint16}
EPILOGUE_DEFAULT = 1
BIASED = (4, 6, 36)  # CUBLASLT_EPILOGUE_BIAS, RELU_BIAS, GELU_BIAS
ACTIVATIONS: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # without and with bias
    **dict.fromkeys((1, 4), lambda x: x),
    **dict.fromkeys((2, 6), lambda x: np.maximum(x, 0)),
    **dict.fromkeys((32, 36), lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))),
}
WORKSPACE = 4096  # bytes that its algorithm needs
STREAM = 77


class Double:
    """The library. `calls`: the names of the functions that were called; `objects`: those that are alive; `computed`:
    (type of computation, m, n, k) of each product."""

    def __init__(self, card: Any) -> None:
        self.card = card
        self.calls: list[str] = []
        self.objects: dict[int, dict[str, Any]] = {}
        self.computed: list[tuple[int, int, int, int]] = []
        self.refuses = False  # whether it has no algorithm
        self.refuses_activations = False
        self._numbers = itertools.count(1000)
        self._kept: list[Any] = []  # ctypes does not keep callbacks
        made = self._export
        made("cublasLtCreate", lambda to: self._create(to, "handle"), OUT)
        for kind in ATTRIBUTES:
            made(f"cublasLt{kind}SetAttribute", self._setter(kind), HANDLE, c_int, c_void_p, c_size_t)
            made(f"cublasLt{kind}Destroy", self._destroy, HANDLE)
        made("cublasLtMatmulDescCreate", self._describe, OUT, c_int, c_int)
        made("cublasLtMatrixLayoutCreate", self._lay_out, OUT, c_int, c_uint64, c_uint64, c_int64)
        made("cublasLtMatmulPreferenceCreate", lambda to: self._create(to, "MatmulPreference"), OUT)
        made("cublasLtMatmulAlgoGetHeuristic", self._heuristic, *[HANDLE] * 7, c_int, c_void_p, POINTER(c_int))
        made(
            "cublasLtMatmul", self._matmul, HANDLE, HANDLE, c_void_p, c_void_p, HANDLE, c_void_p, HANDLE, c_void_p,
            c_void_p, HANDLE, c_void_p, HANDLE, c_void_p, c_void_p, c_size_t, c_void_p,
        )  # fmt: skip

    def _export(self, name: str, function: Callable[..., int], *types: Any) -> None:
        def called(*arguments: Any) -> int:
            self.calls.append(name)
            return function(*arguments)

        exported = CFUNCTYPE(c_int, *types)(called)
        self._kept.append(exported)
        setattr(self, name, exported)

    def _create(self, to: Any, kind: str, **values: Any) -> int:
        number = next(self._numbers)
        self.objects[number] = {"kind": kind, **values}
        to[0] = number
        return SUCCESS

    def _destroy(self, handle: int) -> int:
        return SUCCESS if self.objects.pop(handle, None) else INVALID_VALUE

    def _describe(self, to: Any, compute: int, scale: int) -> int:
        if compute not in (68, 77) or scale != R_32F:  # CUBLAS_COMPUTE_32F, _FAST_TF32
            return NOT_SUPPORTED
        start = {"turn_a": 0, "turn_b": 0, "epilogue": EPILOGUE_DEFAULT, "bias": 0}
        return self._create(to, "MatmulDesc", compute=compute, **start)

    def _lay_out(self, to: Any, kind: int, rows: int, columns: int, stride: int) -> int:
        if kind not in DTYPES or stride < rows or not rows or not columns:
            return INVALID_VALUE
        sizes = {"rows": rows, "columns": columns, "stride": stride, "batch": 1, "offset": 0}
        return self._create(to, "MatrixLayout", type=kind, **sizes)

    def _setter(self, kind: str) -> Callable[[int, int, int, int], int]:
        def set_attribute(handle: int, attribute: int, value: int, size: int) -> int:
            found = self.objects.get(handle)
            name, c_type = ATTRIBUTES[kind].get(attribute, ("", None))
            if found is None or found["kind"] != kind or c_type is None or size != ctypes.sizeof(c_type):
                return INVALID_VALUE
            found[name] = c_type.from_address(value).value
            return SUCCESS

        return set_attribute

    def _sizes(self, description: int, *layouts: int) -> tuple[int, int, int] | None:
        """m, n, k; None where the matrices do not fit."""
        d, (a, b, c, result) = self.objects[description], [self.objects[layout] for layout in layouts]
        m, k = (a["columns"], a["rows"]) if d["turn_a"] else (a["rows"], a["columns"])
        inner, n = (b["columns"], b["rows"]) if d["turn_b"] else (b["rows"], b["columns"])
        fits = inner == k and all((x["rows"], x["columns"]) == (m, n) for x in (c, result))
        kinds = a["type"], b["type"], c["type"], result["type"]
        same = len({x["batch"] for x in (a, b, c, result)}) == 1 and kinds[0] == kinds[1] and kinds[2] == kinds[3]
        same = same and kinds[2] in (kinds[0], R_32F)
        return (m, n, k) if fits and same else None

    def _heuristic(self, *arguments: Any) -> int:
        _, description, a, b, c, d, preference, wanted, results, count = arguments
        allowed = self.objects[preference]
        if self._sizes(description, a, b, c, d) is None:
            return INVALID_VALUE
        assert wanted == 1 and all(allowed[name] in (1, 2, 4, 8, 16, 32, 64, 128, 256) for name in "abcd")
        activates = self.objects[description]["epilogue"] not in (1, 4)
        refused = self.refuses or (self.refuses_activations and activates)
        count[0] = 0 if refused or allowed["workspace"] < WORKSPACE else 1
        if count[0]:
            ctypes.memset(results, 0, 96)  # sizeof(cublasLtMatmulHeuristicResult_t)
            ctypes.memmove(results, b"chosen".ljust(64, b"!"), 64)
            c_size_t.from_address(results + 64).value = WORKSPACE
        return SUCCESS

    def _matrix(self, at: int, layout: int) -> np.ndarray:
        """(batch, rows, columns), a view of the card's memory, in the type of the layout."""
        own = self.objects[layout]
        dtype = np.dtype(DTYPES[own["type"]])
        size = dtype.itemsize
        last = (own["batch"] - 1) * own["offset"] + (own["columns"] - 1) * own["stride"] + own["rows"]
        memory = (ctypes.c_ubyte * (last * size)).from_address(self.card._inside(at, last * size))
        return np.lib.stride_tricks.as_strided(
            np.frombuffer(memory, dtype), (own["batch"], own["rows"], own["columns"]),
            (own["offset"] * size, size, own["stride"] * size),
        )  # fmt: skip

    def _matmul(self, *arguments: Any) -> int:
        handle, description, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, space, size, stream = arguments
        assert self.objects[handle]["kind"] == "handle" and stream == STREAM and size == WORKSPACE
        assert ctypes.string_at(algorithm, 64) == b"chosen".ljust(64, b"!")
        self.card._inside(space, size)
        sizes = self._sizes(description, of_a, of_b, of_c, of_d)
        if sizes is None:
            return INVALID_VALUE
        own = dict(self.objects[description])
        numbers = [c_float.from_address(x).value for x in (alpha, beta)]
        self.card._do(self._multiply, own, sizes, numbers, (a, of_a), (b, of_b), (c, of_c), (d, of_d))
        return SUCCESS

    def _multiply(self, own: dict[str, Any], sizes: tuple[int, int, int], numbers: Any, *places: Any) -> None:
        self.computed.append((own["compute"], *sizes))
        self.card.launched.append("cublasLtMatmul")
        kind, own_kind = self.objects[places[3][1]]["type"], self.objects[places[0][1]]["type"]
        read = from_bf16 if kind == R_16BF else lambda x: x.astype(np.float32)
        read_factor = from_bf16 if own_kind == R_16BF else lambda x: x.astype(np.float32)
        a, b = (read_factor(self._matrix(*place)) for place in places[:2])
        a, b = (a.swapaxes(1, 2) if own["turn_a"] else a), (b.swapaxes(1, 2) if own["turn_b"] else b)
        result = numbers[0] * (a @ b)
        if numbers[1]:
            result = result + numbers[1] * read(self._matrix(*places[2]))
        if own["epilogue"] in BIASED:
            m = sizes[0]
            dtype = np.dtype(DTYPES[kind])
            memory = (ctypes.c_ubyte * (m * dtype.itemsize)).from_address(
                self.card._inside(own["bias"], m * dtype.itemsize)
            )
            result = result + read(np.frombuffer(memory, dtype))[:, None]
        result = ACTIVATIONS[own["epilogue"]](result)
        to = self._matrix(*places[3])
        to[...] = to_bf16(result) if kind == R_16BF else result


class CardWithDouble(emulated.EmulatedCard):
    """An emulated card with the library."""

    def __init__(self, limit: int = 1 << 30) -> None:
        super().__init__(limit)
        self.double = Double(self)

    def products(self) -> Products:
        return Products(self.double)

    def start_product(self, products: Any, piece: Any, kernel: str, pointers: Any, workspace: int) -> None:
        products.run(piece, kernel, pointers, workspace, STREAM)
