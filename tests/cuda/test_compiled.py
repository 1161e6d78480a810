"""The CUDA sources are compiled for every architecture before they land: tests/cuda/compiled.json records it."""

from __future__ import annotations

import pytest

from scripts import cuda_compile

pytestmark = pytest.mark.native_only


def test_every_source_is_recorded_as_it_is() -> None:
    record = cuda_compile.read_record()
    assert list(record) == cuda_compile.names_of_sources()
    changed = cuda_compile.missing(record, cuda_compile.ARCHITECTURES)
    assert not changed, f"`make test-cuda-compile` compiles {changed} and writes tests/cuda/compiled.json: commit it"


@pytest.mark.parametrize("source", cuda_compile.names_of_sources())
def test_what_was_found_is_within_bounds(source: str) -> None:
    for found in cuda_compile.read_record()[source].values():
        assert found["kernels"] > 0 and 0 < found["registers"] <= 255
        assert found["spilled"] <= cuda_compile.MORE_SPILLS.get(source, cuda_compile.SPILLS)
        assert found["shared"] <= 48 << 10


LISTING = """
.text.waits:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   UBLKPF [UR4], UR6 ;
        /*0020*/                   PREEXIT ;
        /*0030*/                   ACQBULK ;
        /*0040*/               @P0 LDG.E.128 R12, desc[UR8][R2.64] ;
.text.reads:
        /*0000*/              @!P1 LDG.E.CONSTANT R12, desc[UR8][R2.64] ;
        /*0010*/                   ACQBULK ;
.text.never:
        /*0000*/                   EXIT ;
"""


def test_kernels_that_touch_memory_before_they_wait_are_found() -> None:
    assert cuda_compile.hasty_kernels(LISTING) == ["reads", "never"]


def test_a_comment_changes_nothing_and_a_constant_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before, text = cuda_compile.digest_of("rope"), cuda_compile.sources.text_of("rope")
    monkeypatch.setattr(cuda_compile.sources, "text_of", lambda source: f"/* more\n 2 */  {text} // of it\n")
    assert cuda_compile.digest_of("rope") == before
    monkeypatch.setattr(cuda_compile.sources, "text_of", lambda source: text.replace("128", "256"))
    assert cuda_compile.digest_of("rope") != before
    record = {"rope": {"sm_80": {"digest": before}}}
    assert ("rope", "sm_80") in cuda_compile.missing(record, ["sm_80"])
