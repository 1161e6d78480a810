"""ONNX's own backend suite."""

from __future__ import annotations

import pytest

from tests.together import check_each, fewer_in_browser

from . import suite

# What is refused, and why; docs/onnx.md says so, too.
REFUSED = {
    "test_gradient_of_add": "ai.onnx.preview.training.Gradient",
    "test_gradient_of_add_and_mul": "ai.onnx.preview.training.Gradient",
}
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case(part: int) -> None:
    chosen = [
        case
        for at, case in enumerate(suite.cases())
        if at % PARTS == part and case.name not in REFUSED and possible(case)
    ]
    assert len(chosen) > 200
    check_each(lambda _, case: suite.run(case), fewer_in_browser((case.name, case) for case in chosen))


def possible(case: suite.Case) -> bool:
    """Pictures are decoded by Pillow, which not every installation has."""
    if "image_decoder" not in case.name:
        return True
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        return False
    return True


def test_refused_operators_are_named() -> None:
    for case in suite.cases():
        if case.name in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[case.name]):
                suite.run(case)


def test_operators_of_onnxruntime() -> None:
    """com.microsoft and ai.onnx.ml, compared with onnxruntime."""
    chosen = list(suite.cases(suite.GOLDEN.with_name("runtime.bin")))
    assert len(chosen) > 90
    check_each(lambda _, case: suite.run(case), [(case.name, case) for case in chosen])
