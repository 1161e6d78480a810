"""The cases of ONNX's own backend suite, as `make_golden_suite` stored them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pyapp.formats.onnx_file import OnnxFile, tensor_of_message
from pyapp.formats.source import BytesSource
from pyapp.onnx import OnnxModule
from pyapp.onnx.values import array_of, element_of, from_stored

GOLDEN = Path(__file__).parent / "golden" / "suite.bin"
RANDOM = ("bernoulli", "multinomial", "random_normal", "random_uniform")  # only types and shapes are compared


@dataclass
class Case:
    """A model, and where pairs of inputs and outputs are stored."""

    kind: str
    name: str
    model: bytes
    pairs: list[Any]
    rtol: float
    atol: float
    found: Callable[[Any], Any]

    def sets(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Pairs of inputs and outputs, read now."""

        def read(places: list[Any]) -> list[Any]:
            return [read_value(self.found(place)) for place in places]

        for inputs, outputs in self.pairs:
            yield read(inputs), read(outputs)


def read_value(data: Any) -> Any:
    """A value of the bytes of a TensorProto, of a list of them, or None."""
    if data is None or isinstance(data, list):
        return data if data is None else [read_value(part) for part in data]
    return from_stored(tensor_of_message(BytesSource(data)))


@cache
def stored(golden: Path = GOLDEN) -> tuple[dict[str, Any], memoryview]:
    """The index of a golden file, and its bytes."""
    raw = zlib.decompress(golden.read_bytes())
    length = int.from_bytes(raw[:4], "little")
    return json.loads(raw[4 : 4 + length]), memoryview(raw)[4 + length :]


def cases(golden: Path = GOLDEN) -> Iterator[Case]:
    """The stored cases."""
    index, blob = stored(golden)

    def found(place: Any) -> Any:
        if place is None or isinstance(place, dict):
            return place if place is None else [found(part) for part in place["list"]]
        return bytes(blob[place[0] : place[0] + place[1]])

    for kind, name, model, sets, rtol, atol in index["cases"]:
        yield Case(kind, name, found(model), sets, rtol, atol, found)


def run(case: Case, repeats: int = 3) -> OnnxModule:
    """Runs a case, several times: later runs replay what the first ones have recorded. AssertionError where it
    differs."""
    module = OnnxModule(OnnxFile(BytesSource(case.model, case.name)))
    for inputs, outputs in case.sets():
        for _ in range(repeats):
            found = module.values(*inputs)
            assert len(found) == len(outputs), f"{len(found)} outputs, expected {len(outputs)}"
            for at, (own, wanted) in enumerate(zip(found, outputs, strict=True)):
                compare(own, wanted, case, f"output {at}")
    return module


def compare(own: Any, wanted: Any, case: Case, where: str) -> None:
    """As ONNX's runner: equal types and shapes, values within the tolerances. Half precision may differ by two units in
    the last place, which the runner grants to bfloat16."""
    if wanted is None or isinstance(wanted, list):
        assert type(own) is type(wanted), f"{where}: {type(own).__name__}, expected {type(wanted).__name__}"
        if isinstance(own, list) and isinstance(wanted, list):
            assert len(own) == len(wanted), f"{where}: {len(own)} elements, expected {len(wanted)}"
            for at, (part, other) in enumerate(zip(own, wanted, strict=True)):
                compare(part, other, case, f"{where}[{at}]")
        return
    assert element_of(own) == element_of(wanted), f"{where}: {element_of(own)}, expected {element_of(wanted)}"
    x, y = array_of(own), array_of(wanted)
    assert x.shape == y.shape, f"{where}: shape {x.shape}, expected {y.shape}"
    if any(name in case.name for name in RANDOM):
        return
    if y.dtype.kind in "fc":
        rtol = max(case.rtol, {"bfloat16": 2.0**-6, "float16": 2.0**-9}.get(element_of(wanted), 0.0))
        wide = np.complex128 if y.dtype.kind == "c" else np.float64
        # The stored transforms were computed in float32: what should be 0 is a rounding error of the largest element.
        atol = max(case.atol, 2.0**-24 * float(np.abs(y).max())) if "dft" in case.name else case.atol
        if " bits " in case.name and "exact" not in case.name:  # activations are int8
            atol = 0.01 * float(np.abs(y).max())
        np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol, atol, err_msg=where)
    elif case.name.startswith("q "):  # quantised from floating point, whose last bit decides ties
        np.testing.assert_allclose(x.astype(np.int64), y.astype(np.int64), rtol=0, atol=1, err_msg=where)
    else:
        np.testing.assert_array_equal(x, y, err_msg=where)
