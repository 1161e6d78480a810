"""JSON that is nested so deeply that json.loads would overflow a browser's stack."""

from __future__ import annotations

import json

import pytest

from pyapp.formats.safe_json import check_nesting


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"a":[', b"[[],", b'["[",', b" [ "])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        check_nesting(opening * 10_000)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}},
        {"vocab": {"[" * n: n for n in range(1000)}},  # brackets in strings do not nest
        {"text": '\\"[' * 1000 + "{" * 1000},
        [[[[i]]] for i in range(10_000)],
    ],
)
def test_ordinary_documents_pass(value: object) -> None:
    check_nesting(json.dumps(value).encode())


def test_the_deepest_that_passes_can_be_read() -> None:
    depth = 200
    text = "[" * depth + "]" * depth
    check_nesting(text.encode())
    assert json.loads(text) is not None


def test_bytes_that_are_no_json_pass() -> None:
    check_nesting(bytes(range(256)) * 3)
