"""The device "webgpu" where there is no card: what it says. And its sources, as far as Python reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyapp
from pyapp.engine.gpu import wgsl
from pyapp.engine.native import SIGNATURES

pytestmark = pytest.mark.native_only
SOURCES = Path(__file__).parents[2] / "native" / "webgpu"


def test_without_a_browser_there_is_none() -> None:
    assert not pyapp.webgpu.is_available()
    for use in (lambda: pyapp.ones(2).to("webgpu"), lambda: pyapp.zeros(2, device="webgpu")):
        with pytest.raises(ValueError, match="no device 'webgpu': WebGPU belongs to browsers.*does not run in one"):
            use()
    assert "does not run in one" in pyapp.webgpu.reason()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> dict[str, wgsl.Program]:
    monkeypatch.setattr(wgsl, "SOURCES", SOURCES)
    wgsl.programs.cache_clear()
    return wgsl.programs()


def test_every_source_is_read(programs: dict[str, wgsl.Program]) -> None:
    line = re.compile(r"^(?:KERNEL|ALSO)\((\w+)", re.MULTILINE)
    named = {name for path in SOURCES.glob("*.wgsl") for name in line.findall(path.read_text())}
    assert set(programs) == named and len(named) > 60
    for name, kernel in programs.items():
        sizes = [1] * len(SIGNATURES[name].split("|")[1].split())
        for program in (*kernel.steps, kernel):
            assert any(program.written), name
            assert program.groups(sizes) >= 0 and program.threads <= 256, name
            constants = [int(number(sizes)) for number in program.constants.values()]
            slots = len(program.slots)
            text = wgsl.text_of(program, constants, range(slots), "w" * slots, False, True)
            assert text.count("{") == text.count("}") and "MAIN" not in text and "TYPE_" not in text, name
            left = set(re.findall(r"\b(?:FOR_EACH|DENSE|SIX|OP_\w+|TAKES|ATOMIC|BETWEEN|USES)\b", text))
            assert not left, f"{name}: {left}"
    for kernel in programs.values():  # what steps leave for those after them
        uses = [wgsl.BETWEEN in program.slots for program in (*kernel.steps, kernel)]
        assert any(uses) == (kernel.between is not None) and not any(step.between for step in kernel.steps), (
            kernel.kernel
        )


def test_what_a_record_does_not_fit_has_no_program(programs: dict[str, wgsl.Program]) -> None:
    types = {"float32": 13, "float64": 14, "int64": 8}
    takes = programs["binary"].takes
    assert takes is not None
    assert takes([0, types["float32"], 1]) and takes([0, types["int64"], 1]) and not takes([0, types["float64"], 1])


def test_lines_that_fit_nothing_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wgsl, "SOURCES", tmp_path)
    exp = "KERNEL(exp_f32, count, 64)\nMAIN {\n}\n"
    for text, problem in (
        ("KERNEL(no_such_kernel, 1, 64)\n", "no_such_kernel"),
        (exp.replace("count", "counts"), "'counts' is not a dim"),
        (f"{exp}ALSO(log_f32, exp_f32, exp( => log)\n", "does not end"),
        (f"{exp}ALSO(sqrt_f32, abs_f32, abs => sqrt)\n", "'abs_f32' has no 'abs'"),
    ):  # fmt: skip
        (tmp_path / "wrong.wgsl").write_text(text)
        wgsl.programs.cache_clear()
        with pytest.raises(pyapp.errors.KernelError, match=problem):
            wgsl.programs()
    wgsl.programs.cache_clear()
