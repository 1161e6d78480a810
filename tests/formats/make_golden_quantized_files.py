"""Makes golden/quantized_files.json: SHA-256 of each matrix of the small model (tests/text/small_model.py), quantised
by the `gguf` package, for every type that it can write.

Run it from the repository's root with gguf installed: python -m tests.formats.make_golden_quantized_files
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import gguf

from pyapp.formats import open_checkpoint
from tests.formats.test_quantized_files import GOLDEN, SHAPE, is_matrix
from tests.goldens import write_json
from tests.text.small_model import write_model

WRITABLE = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "BF16", "F16")


def main() -> None:
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, open_checkpoint(write_model(Path(folder), **SHAPE)) as file:
        for kind in WRITABLE:
            quantize = {
                name: gguf.quants.quantize(file.read(name).numpy(), gguf.GGMLQuantizationType[kind])
                for name, info in file.tensors.items()
                if is_matrix(info)
            }
            found[kind] = {name: hashlib.sha256(blocks.tobytes()).hexdigest() for name, blocks in quantize.items()}
    write_json(GOLDEN, found, indent=1)


if __name__ == "__main__":
    main()
