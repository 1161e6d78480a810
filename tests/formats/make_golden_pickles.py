"""Makes the golden files of NumPy and PyTorch; safetensors vouches for their content.

Run it from the repository's root with the `oracle` extra installed:
PYTHONPATH=. python tests/formats/make_golden_pickles.py
"""

from __future__ import annotations

import io
import warnings
import zipfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

import numpy as np
import torch
from safetensors.torch import save_file

from tests.goldens import write_bytes, write_npz

GOLDEN = Path(__file__).parent / "golden"
TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"


class Program(torch.nn.Module):
    """Modules in lists, shared weights, a buffer, and attributes of all kinds that a TorchScript pickle writes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 2)
        self.rest = torch.nn.ModuleList([torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2, bias=False)])
        self.register_buffer("order", torch.tensor([2, 1]))
        self.scales, self.sizes, self.flags, self.names = [1.5], [1, 2], [True], {"a": 1}
        self.kept = torch.jit.Attribute([torch.ones(2)], list[torch.Tensor])
        self.none = torch.jit.Attribute(None, int | None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for module in self.rest:
            y = module(y) * self.scales[0]
        return y


def saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def write_torch(path: Path, value: Any, **options: Any) -> None:
    """torch.save, unless the file says the same: in the older format the names of storages are addresses."""

    def same(*files: bytes) -> bool:
        old, new = (saved(torch.load(io.BytesIO(file), weights_only=False)) for file in files)
        return old == new

    write_bytes(path, saved(value, **options), same)


def write_program(path: Path, program: Any) -> None:
    """torch.jit.save, unless the file says the same: each has another number, other places in sources, and an order of
    its own in the code of torch's layers.
    """

    def contents(file: bytes) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(file)) as members:
            found = {name.partition("/")[2]: members.read(name) for name in members.namelist()}
        other = ("code/__torch__/torch/", ".data/serialization_id")
        return {name: data for name, data in found.items() if not name.startswith(other) and "debug_pkl" not in name}

    file = io.BytesIO()
    torch.jit.save(program, file)
    write_bytes(path, file.getvalue(), lambda old, new: contents(old) == contents(new))


def programs() -> None:
    torch.manual_seed(0)
    program = Program().eval()
    scripted = torch.jit.script(program)
    write_program(GOLDEN / "script.pt", scripted)
    save_file(dict(program.state_dict()) | {"kept.0": torch.ones(2)}, GOLDEN / "script.expected.safetensors")
    write_program(GOLDEN / "frozen.pt", torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 2).eval())))


def models() -> None:
    """Whole models beside other objects, in both forms of files."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    with torch.no_grad():
        model[0].weight.copy_(torch.arange(6.0).reshape(2, 3))
        model[0].bias.copy_(torch.arange(2.0))
    # The old form has the source text of classes, and where it lies: without a source the file has neither.
    with mock.patch("torch.serialization.get_source_lines_and_file", side_effect=OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        write_torch(GOLDEN / "model_legacy.pt", model[0], _use_new_zipfile_serialization=False)
    found = {"model": model, "args": Namespace(rate=0.1, path=PurePosixPath("a")), "epoch": 3}
    write_torch(GOLDEN / "model_zip.pt", found)


def sparse() -> None:
    """Sparse tensors in each layout, and a parameter."""
    coo = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    whole = {"coo": coo.coalesce(), "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc()}
    write_torch(GOLDEN / "sparse.pt", {**whole, "parameter": torch.nn.Parameter(coo)})


def main() -> None:
    models()
    programs()
    sparse()
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
    write_torch(GOLDEN / "torch_zip.pt", nested)
    write_torch(GOLDEN / "torch_zip4.pt", nested, pickle_protocol=4)
    for name in ("uint16",):  # the older format cannot name it
        del state[name]
    write_torch(GOLDEN / "torch_legacy.pt", nested, _use_new_zipfile_serialization=False)
    state["uint16"] = raw.clone().view(torch.uint16)
    flat = {f"a.{name}": tensor.detach().clone().contiguous() for name, tensor in state.items()}
    save_file(flat | {"b.0": torch.tensor([1, 2]), "b.1.c": torch.tensor(3)}, GOLDEN / "torch.expected.safetensors")
    arrays = {n: t.detach().numpy() for n, t in state.items() if n != "bfloat16"}
    arrays |= {"big": np.arange(6, dtype=">f4").reshape(2, 3), "fortran": np.asfortranarray(base.numpy())}
    np.savez(GOLDEN / "numpy.npz", **arrays)
    write_npz(GOLDEN / "numpy_packed.npz", arrays)
    np.save(GOLDEN / "numpy.npy", np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)))
    expected = {n: torch.from_numpy(a.astype(a.dtype.newbyteorder("="), order="C")) for n, a in arrays.items()}
    save_file(expected, GOLDEN / "numpy.expected.safetensors")


if __name__ == "__main__":
    main()
