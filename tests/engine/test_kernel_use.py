"""A module of pyapp uses every kernel of native/kernels.h, and every operation of a kernel."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from pyapp.engine import claims, ops
from pyapp.engine.element_types import opcodes
from pyapp.engine.launch import KERNELS
from pyapp.engine.op import _CLAIMS, OPS

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


def test_every_claim_is_of_an_op() -> None:
    """A claim of another name would never run: its kernel would be shipped for nothing."""
    for package in (ops, claims):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    assert sorted(_CLAIMS.keys() - OPS.keys()) == []


@pytest.mark.parametrize("kernel", ["unary", "binary"])
def test_claims_use_every_operation_of_a_kernel(kernel: str) -> None:
    importlib.import_module("pyapp.engine.claims")
    within = {"gelu_tanh": "gelu", "clamp": "_clamp", "i0": "_bessel"}  # by the op's settings
    assert [name for name in opcodes(kernel) if within.get(name, name) not in _CLAIMS] == []
