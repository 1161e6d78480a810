"""Makes the golden files of NumPy and PyTorch; safetensors vouches for their content.

Run it from the repository's root with the `oracle` extra installed: python tests/formats/make_golden_pickles.py
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

GOLDEN = Path(__file__).parent / "golden"
TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"


def main() -> None:
    raw = torch.arange(48, dtype=torch.uint8)
    state = OrderedDict((n, raw.clone().view(getattr(torch, n))) for n in TYPES.split() if n != "bool")
    state["bool"] = raw % 2 == 0
    state["uint16"] = raw.clone().view(torch.uint16)
    state["complex64"] = raw.clone().view(torch.complex64)
    base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    state["base"], state["turned"], state["inner"] = base, base.permute(2, 0, 1), base[1:, ::2, 3]
    state["expanded"] = torch.tensor([7.0, 8.0]).expand(3, 2)
    state["scalar"], state["empty"] = torch.tensor(2.5), torch.zeros(0, 3)
    state["parameter"] = torch.nn.Parameter(torch.ones(2, 2))
    nested = {"model": {"a": state, "b": [torch.tensor([1, 2]), {"c": torch.tensor(3)}]}, "epoch": 3, "note": "é"}
    torch.save(nested, GOLDEN / "torch_zip.pt")
    torch.save(nested, GOLDEN / "torch_zip4.pt", pickle_protocol=4)
    for name in ("uint16",):  # the older format cannot name it
        del state[name]
    torch.save(nested, GOLDEN / "torch_legacy.pt", _use_new_zipfile_serialization=False)
    state["uint16"] = raw.clone().view(torch.uint16)
    flat = {f"a.{name}": tensor.detach().clone().contiguous() for name, tensor in state.items()}
    save_file(flat | {"b.0": torch.tensor([1, 2]), "b.1.c": torch.tensor(3)}, GOLDEN / "torch.expected.safetensors")
    arrays = {n: t.detach().numpy() for n, t in state.items() if n != "bfloat16"}
    arrays |= {"big": np.arange(6, dtype=">f4").reshape(2, 3), "fortran": np.asfortranarray(base.numpy())}
    np.savez(GOLDEN / "numpy.npz", **arrays)
    np.savez_compressed(GOLDEN / "numpy_packed.npz", **arrays)
    np.save(GOLDEN / "numpy.npy", np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)))
    expected = {n: torch.from_numpy(a.astype(a.dtype.newbyteorder("="), order="C")) for n, a in arrays.items()}
    save_file(expected, GOLDEN / "numpy.expected.safetensors")


if __name__ == "__main__":
    main()
