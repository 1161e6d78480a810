"""The command of the benches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only


def test_what_a_bench_started_ends_when_the_reader_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `python -m bench | head -1`: a browser that outlives the error keeps the process alive."""
    pytest.importorskip("playwright")
    from bench import __main__ as command
    from bench.report import Figure

    ended: list[bool] = []

    def figures() -> Iterator[Figure]:
        try:
            yield Figure("a case", "GB/s", {"pyapp": [1.0]}, {})
        finally:
            ended.append(True)

    def write(_: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(command, "cases", lambda *_: {"a case": figures})
    monkeypatch.setattr(sys, "argv", ["bench", "--out", str(tmp_path / "figures.jsonl")])

    with pytest.raises(BrokenPipeError) as caught:
        monkeypatch.setattr(sys.stdout, "write", write)
        command.main()
    monkeypatch.undo()
    assert ended == [True] and caught.tb is not None
