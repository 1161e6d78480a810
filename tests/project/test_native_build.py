"""native/build.py keeps the objects that it compiled."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.native_only

SOURCE = Path(__file__).resolve().parents[2] / "native" / "build.py"


def load_build() -> ModuleType:
    """native/build.py as a module."""
    spec = importlib.util.spec_from_file_location("native_build", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_change_concerns_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, compiled = load_build(), []
    real = build.run

    def run(command: list[str]) -> str:
        compiled.extend(Path(word).stem for word in command if word.endswith(".c"))
        return str(real(command))

    monkeypatch.setattr(build, "run", run)
    monkeypatch.setattr(build, "NATIVE", tmp_path)
    monkeypatch.setattr(build, "OBJECTS", tmp_path / "objects")
    monkeypatch.setattr(build, "slots_header", lambda: "enum { slots };\n")
    texts = {
        "one.c": '#include "outer.h"\nint one(void) { return INNER + slots; }\n',
        "two.c": '#include "slots.h"\nint two(void) { return slots; }\n',
        "outer.h": '# include "inner.h"\n#include "slots.h"\n',
        "inner.h": "#define INNER 1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    folder = tmp_path / "made"
    folder.mkdir()

    def objects(*flags: str) -> tuple[list[str], list[str]]:
        """(paths, the sources that were compiled)."""
        compiled.clear()
        jobs = [(tmp_path / f"{name}.c", name, []) for name in ("one", "two")]
        return build.compile_all(["cc"], flags, jobs, folder), sorted(compiled)

    first, made = objects()
    assert made == ["one", "two"] and all(Path(path).is_file() for path in first)
    assert objects() == (first, [])
    (tmp_path / "inner.h").write_text("#define INNER 2\n")  # a header of a header
    changed, made = objects()
    assert made == ["one"] and changed[0] != first[0] and changed[1] == first[1]
    assert objects("-DMORE=1")[1] == ["one", "two"]
    (tmp_path / "inner.h").write_text(texts["inner.h"])
    assert objects() == (first, [])
    monkeypatch.setattr(build, "slots_header", lambda: "enum { slots = 3 };\n")
    assert objects()[1] == ["one", "two"]
    monkeypatch.setattr(build, "identity", lambda *compiler: "another version")
    assert objects()[1] == ["one", "two"]
    long_ago = time.time() - (build.OBJECTS_DAYS + 1) * 86400
    os.utime(first[0], (long_ago, long_ago))
    objects()
    assert not Path(first[0]).exists() and Path(first[1]).exists()
    (tmp_path / "two.c").write_text("int two(void) { return missing; }\n")
    with pytest.raises(build.BuildError, match="missing"):
        objects()
