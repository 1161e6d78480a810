"""Makes golden files of types that pyapp has no dtype for, with what torch makes of them, and of arrays in pickles.

Run it from the repository's root with the `oracle` extra installed:
PYTHONPATH=. python tests/formats/make_golden_foreign_dtypes.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from tests.formats.make_golden_pickles import write_torch

GOLDEN = Path(__file__).parent / "golden"
FLOATS = "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"


def arrays() -> dict[str, Any]:
    """Values that checkpoints contain beside tensors."""
    a = np.arange(6, dtype="float32").reshape(2, 3)
    return {
        "w": torch.ones(2), "a": a, "fortran": np.asfortranarray(a), "big": a.astype(">f8"), "bools": a > 2,
        "pairs": (a + 2j * a).astype("complex64"), "zero": np.zeros((0, 3)), "scalar": np.array(3, dtype="uint16"),
        "best": np.float64(2.5), "count": np.int32(-7), "objects": np.array([{}], object), "texts": np.array(["x"]),
    }  # fmt: skip


def complex_tensors() -> dict[str, Any]:
    first, second, third = (torch.tensor([1 + 2j, 3 - 1j]) for _ in range(3))
    return {
        "plain": first.requires_grad_(), "conjugated": second.conj(), "negated": third.conj().imag,
        "wide": torch.tensor([[1j]], dtype=torch.complex128),
    }  # fmt: skip


def main() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    foreign = {name: codes.clone().view(getattr(torch, name)) for name in FLOATS.split()}
    expected = {name: tensor.float() for name, tensor in foreign.items()}
    foreign["complex64"] = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(2, 3)
    expected["complex64"] = foreign["complex64"]
    foreign["float4_e2m1fn"] = codes.clone().reshape(16, 16).view(torch.float4_e2m1fn_x2)
    for name in ("uint16", "uint64"):
        foreign[name] = torch.from_numpy(np.array([[0, 1, 2], [3, 4, np.iinfo(name).max]], name))
    save_file(foreign, GOLDEN / "foreign.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, GOLDEN / "foreign.expected.safetensors")
    value = {"state_dict": {"net": arrays()}, "loss": np.float32(0.5), "note": "é"}
    write_torch(GOLDEN / "arrays_zip.pt", value)
    write_torch(GOLDEN / "complex.pt", complex_tensors())
    write_torch(GOLDEN / "arrays_zip5.pt", value, pickle_protocol=5)
    write_torch(GOLDEN / "arrays_legacy.pt", value, _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
