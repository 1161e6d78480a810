"""Writes golden_torch.json: torch's dtype promotion, casts and repr.

Run: python -m tests.engine.make_golden_torch (needs the extra `oracle`).
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from tests.goldens import write_json

from .float8_values import FLOAT8
from .test_tensor import FLOATS, INTS, REPRS

VALUES = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 65504.0, 65520.0, 1e-8, 3.4e38, -1.9, 2.5, float("inf")]


def unsigned(own: str) -> dict[str, str]:
    """torch's promotion of an unsigned type with other types; "error" if torch refuses."""
    found = {}
    for name in ("bool", *INTS, *FLOATS, "uint16", "uint32", "uint64"):
        try:
            kind = torch.promote_types(getattr(torch, own), getattr(torch, name))
            found[name] = str(kind).removeprefix("torch.")
        except RuntimeError:
            found[name] = "error"
    return found


def main() -> None:
    names = ["bool", *INTS, *FLOATS]
    kinds = {n: getattr(torch, n) for n in names}
    promotion = {}
    for a in names:
        for b in names:
            found = {}
            for x in (1, 2):
                for y in (1, 2):
                    left, right = (torch.ones((1,) if d == 2 else (), dtype=kinds[n]) for d, n in ((x, a), (y, b)))
                    found[f"{x}{y}"] = str((left + right).dtype).removeprefix("torch.")
            promotion[f"{a} {b}"] = found
    numbers = {
        f"{n} {type(v).__name__}": str((torch.ones(2, dtype=k) + v).dtype).removeprefix("torch.")
        for n, k in kinds.items()
        for v in (2, 2.0, True)
    }
    x = torch.tensor(VALUES)
    golden = {
        "promotion": promotion,
        "numbers": numbers,
        "cast": {n: x.to(kinds[n]).double().tolist() for n in ("float16", "bfloat16")},
        "float8": {
            n: [float(v) for v in torch.tensor(FLOAT8).to(getattr(torch, n)).view(torch.uint8)]
            for n in ("float8_e4m3fn", "float8_e5m2")
        },
        "float8_values": {
            n: [repr(float(v)) for v in torch.arange(256, dtype=torch.uint8).view(getattr(torch, n)).float()]
            for n in ("float8_e4m3fn", "float8_e5m2")
        },
        **{name: unsigned(name) for name in ("uint16", "uint32", "uint64")},
        "repr": {name: repr(make(torch)).replace("torch.", "pyapp.") for name, make in REPRS.items()},
    }
    path = Path(__file__).with_name("golden_torch.json")
    write_json(path, golden, indent=1)
    print(path.name, path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
