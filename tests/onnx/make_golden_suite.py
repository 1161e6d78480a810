"""Writes golden/suite.bin: the cases of ONNX's own backend suite, and what they must give.

    python -m tests.onnx.make_golden_suite        (needs the onnx package: pip install onnx onnxruntime pillow)

Equal tensors are stored once. Cases with more than 100 kB of tensors have only their names here; the test in
tests/oracle runs them from the onnx package.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import model as model_cases
from onnx.backend.test.case import node as node_cases

GOLDEN = Path(__file__).parent / "golden" / "suite.bin"
LARGEST = 100_000  # bytes of the tensors of a case
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def encoded(value: Any) -> Any:
    """A value as nested lists of the bytes of TensorProtos; None for an empty optional."""
    if value is None:
        return None
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    if isinstance(value, (list, tuple)):
        return [encoded(part) for part in value]
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


def read_value(path: Path, kind: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if kind.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(data)
        return encoded(numpy_helper.to_list(sequence))
    if kind.HasField("optional_type"):
        optional = onnx.OptionalProto()
        optional.ParseFromString(data)
        return encoded(numpy_helper.to_optional(optional))
    tensor = TensorProto()
    tensor.ParseFromString(data)
    return tensor.SerializeToString()


def collected() -> list[dict[str, Any]]:
    """All cases: kind, name, model, sets of (inputs, outputs), tolerances."""
    np.random.seed(0)
    found = []
    every = node_cases.collect_testcases(None)
    nodes = len(every)
    for at, case in enumerate([*every, *model_cases.collect_testcases()]):
        if case.model is None:
            continue
        sets = [(encoded(list(inputs)), encoded(list(outputs))) for inputs, outputs in case.data_sets]
        found.append(
            {"kind": "node" if at < nodes else "simple", "name": case.name, "model": case.model.SerializeToString(),
             "sets": sets, "rtol": case.rtol, "atol": case.atol}
        )  # fmt: skip
    for kind in ("simple", "pytorch-converted", "pytorch-operator", "light"):
        for folder in sorted(path for path in (DATA / kind).iterdir() if (path / "model.onnx").exists()):
            if any(case["name"] == folder.name for case in found):
                continue
            model = onnx.load(folder / "model.onnx")
            weights = {tensor.name for tensor in model.graph.initializer}
            inputs = [info.type for info in model.graph.input if info.name not in weights]
            sets = []
            for data in sorted(folder.glob("test_data_set_*")):
                sets.append(
                    tuple(
                        [read_value(data / f"{side}_{at}.pb", kind) for at, kind in enumerate(kinds)]
                        for side, kinds in (("input", inputs), ("output", [info.type for info in model.graph.output]))
                    )
                )
            found.append(
                {"kind": kind, "name": folder.name, "model": (folder / "model.onnx").read_bytes(), "sets": sets,
                 "rtol": 1e-3, "atol": 1e-7}
            )  # fmt: skip
    return found


def operators() -> dict[str, dict[str, list[int]]]:
    """The opsets in which operators appeared or changed, by domain and name."""
    found: dict[str, dict[str, list[int]]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema.since_version)
    return {domain: {name: sorted(own[name]) for name in sorted(own)} for domain, own in sorted(found.items())}


def pack(cases: list[dict[str, Any]], path: Path, largest: int = LARGEST) -> None:
    """Writes cases as tests/onnx/suite.py reads them."""
    blob, places = bytearray(), {}

    def place(data: bytes) -> list[int]:
        if data not in places:
            places[data] = [len(blob), len(data)]
            blob.extend(data)
        return places[data]

    def placed(value: Any) -> Any:
        if isinstance(value, bytes):
            return place(value)
        return value if value is None else {"list": [placed(part) for part in value]}

    def size(value: Any) -> int:
        if isinstance(value, bytes):
            return len(value)
        return sum(size(part) for part in value or ())

    kept, left_out = [], []
    for case in cases:
        total = size([part for pair in case["sets"] for part in pair]) + len(case["model"])
        if total > largest:
            left_out.append([case["kind"], case["name"]])
            continue
        sets = [[[placed(value) for value in side] for side in pair] for pair in case["sets"]]
        kept.append([case["kind"], case["name"], place(case["model"]), sets, case["rtol"], case["atol"]])
    index = json.dumps(
        {"onnx": onnx.__version__, "operators": operators(), "cases": kept, "left_out": left_out}, separators=(",", ":")
    ).encode()
    packed = zlib.compress(len(index).to_bytes(4, "little") + index + bytes(blob), 9)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    print(f"{len(kept)} cases, {len(left_out)} left out; {len(blob):,} bytes, {len(packed):,} packed", file=sys.stderr)


if __name__ == "__main__":
    pack(collected(), GOLDEN)
