"""A module of pyapp uses every kernel of native/kernels.h."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyapp.engine.launch import KERNELS

pytestmark = pytest.mark.native_only

PACKAGE = Path(__file__).resolve().parents[2] / "pyapp"
# Names that are put together where they are used: KERNELS[name + "_f32"], KERNELS["unpack_" + name].
JOINED = re.compile(r'(?:K|KERNELS)(?:\[|\.get\()(?:"(\w+)" \+ [\w.]+|\w+ \+ "(\w+)")[\])]')


def test_every_kernel_is_named() -> None:
    text = "\n".join(path.read_text() for path in sorted((PACKAGE / "engine").rglob("*.py")))
    words = set(re.findall(r"\w+", " ".join(re.findall(r'"([\w ]*)"', text))))
    joins = set(JOINED.findall(text))
    assert joins, "the pattern no longer finds how names are put together"

    def is_named(kernel: str) -> bool:
        return kernel in words or any(
            kernel.startswith(start) and kernel.endswith(end) and kernel[len(start) : len(kernel) - len(end)] in words
            for start, end in joins
        )

    assert [kernel for kernel in KERNELS if not is_named(kernel)] == []
