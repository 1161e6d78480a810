"""Makes golden/quantizers.json: how far llama.cpp's quantisers (libggml-base of the `llama_cpp` package) stay from the
numbers of `numbers_to_quantize`, with and without importance.

Run it from the repository's root with llama-cpp-python installed: python -m tests.formats.make_golden_quantizers
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import numpy as np

from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks
from tests.formats.test_ggml_quantizers import KINDS, error, numbers_to_quantize
from tests.goldens import write_json

GOLDEN = Path(__file__).parent / "golden" / "quantizers.json"


def load_library() -> ctypes.CDLL:
    found = importlib.util.find_spec("llama_cpp")
    assert found and found.origin, "llama-cpp-python is not installed"
    library = ctypes.CDLL(str(Path(found.origin).parent / "lib" / "libggml-base.so"))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    pointers, sizes = ctypes.c_void_p, ctypes.c_int64
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointers, pointers, sizes, sizes, sizes, pointers]
    return library


def quantize(library: ctypes.CDLL, x: np.ndarray, kind: str, importance: np.ndarray | None) -> bytes:
    rows, columns = x.shape
    out = np.zeros(x.size // BLOCK_TYPES[kind].values * BLOCK_TYPES[kind].nbytes, np.uint8)
    weights = None if importance is None else importance.ctypes.data
    wrote = library.ggml_quantize_chunk(
        BLOCK_TYPES[kind].code, x.ctypes.data, out.ctypes.data, 0, rows, columns, weights
    )
    assert wrote == out.nbytes
    return out.tobytes()


def main() -> None:
    library = load_library()
    found: dict[str, dict[str, list[float]]] = {}
    for name, (x, importance) in numbers_to_quantize().items():
        found[name] = {
            kind: [
                error(x, dequantize_blocks(quantize(library, x, kind, weights), kind), weights)
                for weights in (None, importance)
            ]
            for kind in KINDS
        }
    write_json(GOLDEN, found, indent=1)


if __name__ == "__main__":
    main()
