"""Makes golden/quantized_bits.json: the checksums of the blocks of `checksums`, by the definition in NumPy.

Natively a kernel writes the blocks, in a browser the definition does; the file shows that they do not depend on the
machine. Run it from the repository's root: python -m tests.formats.make_golden_quantized_bits
"""

from __future__ import annotations

import json

from pyapp.engine.blocks import writing
from tests.formats.test_ggml_quantizers import BITS, checksums


def main() -> None:
    writing.IN_BROWSER = True  # there is no kernel there
    BITS.write_text(json.dumps({kind: checksums(kind) for kind in writing.QUANTIZABLE}, indent=1) + "\n")


if __name__ == "__main__":
    main()
