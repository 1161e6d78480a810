"""The bench of cards, on the emulated card with small sizes; and the command for NVIDIA's sanitizer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import cuda, cuda_count, cuda_tables
from pyapp.models.llama2c import Config
from scripts import cuda_sanitize
from scripts.sanitize import files_for, sources_to_check

from . import emulated

pytestmark = [pytest.mark.native_only, pytest.mark.skipif(emulated.REAL, reason="the bench itself runs there")]
SMALL = Config(32, 32, n_layers=1, n_heads=2, n_kv_heads=1, vocab_size=64, max_seq_len=320)


def _milliseconds(library: Any, call: cuda.Call) -> float:
    began = time.perf_counter()
    call()
    return max(time.perf_counter() - began, 1e-9) * 1e3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {
        "DEVICE": emulated.DEVICE, "SIDE": 32, "LINEAR": (64, 32), "COPIED": 64, "LLAMAS": {"1B": SMALL},
        "BATCHES": (1,), "CHECKED": 2, "PROMPTS": (4,), "BITS": {"bfloat16": 16.0}, "ATTENTION": (16,),
        "_torch": lambda: None, "_milliseconds": _milliseconds,
    }  # fmt: skip
    for name, value in changed.items():
        monkeypatch.setattr(cuda, name, value)


def test_figures_go_to_one_file_and_failures_with_them(small: None, tmp_path: Path) -> None:
    out = tmp_path / "figures" / "cuda.json"
    cases = {name: case for name, case in cuda.cases(2, True, True).items() if "whisper" not in name}

    def broken() -> Any:
        raise RuntimeError("no  such\nthing")
        yield

    chosen = "broken|stream|linear/bfloat16/rows1$|decode"
    found = cuda.result_of({"cuda/broken": broken, **cases}, chosen, out, {"card": "none"})
    assert json.loads(out.read_text()) == found and list(out.parent.iterdir()) == [out]
    assert found["problems"] == {"cuda/broken": "RuntimeError: no such thing"}
    names = [row["name"] for row in found["rows"]]
    assert names == [
        "cuda/stream", "cuda/linear/bfloat16/rows1", "cuda/decode/1B/bfloat16/batch1", "cuda/prompt/1B/bfloat16/4",
    ]  # fmt: skip
    assert all(len(row["samples"]["pyapp"]) == 2 and row["median"] > 0 for row in found["rows"])
    assert list(found["rows"][2]["peers"]) == ["overlapped"] and found["rows"][2]["GB/s"] > 0


def test_peers_that_fail_are_noted_and_the_others_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(name="torch")
    monkeypatch.setattr(cuda, "_torch", lambda: torch)
    times = iter(range(1, 100))
    monkeypatch.setattr(cuda, "_milliseconds", lambda library, call: (2.0 if library is torch else 1.0) + call() * 0)

    def late() -> int:
        if next(times) > 3:
            raise MemoryError("none left")
        return 0

    def missing() -> cuda.Call:
        raise ImportError("no such module")

    peers: cuda.Peers = {
        "torch": lambda: lambda: 0, "torch.compile": missing, "late": lambda: late, "absent": None,
    }  # fmt: skip
    figure = cuda._figure("cuda/x", "ms", 5, lambda: 0, peers, more=3)
    row = cuda.row_of(figure)
    assert row["peers"] == {"torch": {"median": 2.0, "ratio": 2.0}} and row["more"] == 3
    assert row["problems"] == {"torch.compile": "ImportError: no such module", "late": "MemoryError: none left"}
    rate = cuda.row_of(cuda._figure("cuda/y", "tok/s", 5, lambda: 0, {"torch": lambda: lambda: 0}, 10.0))
    assert rate["median"] == 10_000 and rate["peers"]["torch"]["ratio"] == 2.0
    result = {"about": {"card": "C"}, "rows": [row, rate], "problems": {"cuda/z": "OSError: x"}}
    table = cuda_tables.table_of(result).splitlines()
    assert table[:4] == ["card C", "", "| | pyapp | torch | torch.compile | late |", "| --- | --- | --- | --- | --- |"]
    assert table[4:6] == ["| x | 1 ms | 2 (2.00) | failed | failed |", "| y | 10,000 tok/s | 5,000 (2.00) |  |  |"]
    assert "- cuda/z: OSError: x" in table and "- cuda/x, late: MemoryError: none left" in table
    page = f"before\n{cuda_tables.BEGIN}\nold\n{cuda_tables.END}\nafter"
    assert cuda_tables.written(page, "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="has no lines"):
        cuda_tables.written("nothing", "new")


def test_launches_are_counted_without_a_card() -> None:
    """Of the shape of Llama 3.2 1B: five for a layer, and three."""
    launches = cuda_count.launches_of(cuda.LLAMAS["1B"], "bfloat16", 1024)
    found = cuda_count.together(launches)
    assert len(launches) == 5 * 16 + 3 and found["rms_norm_linear_rotate", 384, 256] == 16
    assert next(iter(found)) == ("linear_bf16", 256, 256)


def test_without_a_card_or_its_figures_one_line_says_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut.json").write_text('{"about": {')
    (tmp_path / "other.json").write_text("[1]")
    runs = {
        "There is no card": lambda: cuda.main([]),
        "is not there: `make bench-cuda`": lambda: cuda_tables.main(["--write", str(tmp_path / "none.json")]),
        "is not what `make bench-cuda` writes": lambda: cuda_tables.main(["--write", str(tmp_path / "cut.json")]),
        "other.json is not what": lambda: cuda_tables.main([str(tmp_path / "other.json")]),
    }
    for told, run in runs.items():
        assert run() == 2
        found = capfd.readouterr()
        assert told in found.err and found.err.count("\n") == 1 and not found.out


def test_the_sanitizer_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And its errors end the run with 1; a program that counts its calls stands for it."""
    monkeypatch.setenv("PYAPP_COMPUTE_SANITIZER", str(tmp_path / "none"))
    assert cuda_sanitize.main([]) == 2 and "There is no card" in capfd.readouterr().err
    monkeypatch.setattr(cuda_sanitize, "missing", lambda: None)
    assert cuda_sanitize.main([]) == 2 and "compute-sanitizer is not installed" in capfd.readouterr().err
    program = tmp_path / "sanitizer"
    program.write_text(f'#!/bin/sh\necho "$2 $7 $PYAPP_TEST_CUDA" >> {tmp_path}/calls\n[ $2 = memcheck ] || exit 86\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYAPP_COMPUTE_SANITIZER", str(program))
    assert cuda_sanitize.main(["memcheck"]) == 0
    assert cuda_sanitize.main(["--", "tests/cuda", "-k", "x"]) == 1
    assert "racecheck: tests/cuda -k x: the tool found errors" in capfd.readouterr().out
    calls = (tmp_path / "calls").read_text().split("\n")
    assert len(calls) == len(sources_to_check()) + 3 and calls[0] == "memcheck pytest 1"


def test_the_sanitizers_see_every_source_whose_threads_work_together() -> None:
    found = sources_to_check()
    assert {"attention", "attention_pairs", "scan", "grid_sample", "distances"} <= {
        *found
    } and "matmul_exact" not in found
    assert all(files_for(source) for source in found), [source for source in found if not files_for(source)]
    assert "tests/native/test_sort.py" in files_for("sort")
