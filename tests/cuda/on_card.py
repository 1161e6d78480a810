"""The tests of other folders with a card as the default device:
python -m tests.cuda.on_card [--device cuda:0] [--limit 120] [--part 5/2] [--report FILE] [tests/models …]

Their models and tensors are made there, in the emulator by default. "mirror" is the CPU with memory that a program
cannot read in place: it finds tensors that are left on the host, at the CPU's speed.

The report has a line of JSON for each file of tests: what failed, what the host computed from copies, and which lines
of the library read tensors back, or wrote some, while a model computed. Files that a report has are not run again.

What a test itself mixes is moved: a call from its own lines with tensors of both devices has them on the card. So what
remains is what the library mixes.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import inspect
import json
import operator
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("nn", "models", "engine", "train", "keras", "tasks", "onnx", "adapters")
LIMIT = 150  # seconds of a file
SITES = 12  # of a file, told with the most calls first

_place: Any = None  # the card, while tests run
_depth = 0  # of calls of modules
_reads: collections.Counter[str] = collections.Counter()
_writes: collections.Counter[str] = collections.Counter()
_helped: collections.Counter[str] = collections.Counter()
_failed: dict[str, str] = {}
_counts: collections.Counter[str] = collections.Counter()


def _of_a_test() -> bool:
    """Whether the line that calls the engine is one of a test."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_ENGINE, __file__)) and name != "<string>":
            return name.startswith(_TESTS)
        frame = frame.f_back
    return False


_TESTS = str(ROOT / "tests") + os.sep
_LIBRARY = str(ROOT / "pyapp") + os.sep
_ENGINE = _LIBRARY + "engine" + os.sep
_MODULE = _LIBRARY + "nn" + os.sep + "module"
_COMPUTING = tuple(_LIBRARY + name + os.sep for name in ("models", "nn", "text", "keras", "onnx"))


def _site() -> str:
    """The line of the library, outside the engine, that has asked for something, while a model computes: is not made
    or read. "" for others."""
    found, frame = "", inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_TESTS) and name != __file__:
            return found
        if "loading" in name or frame.f_code.co_name in ("__init__", "load_state_dict", "from_checkpoint"):
            return ""
        if not found and name.startswith(_LIBRARY) and not name.startswith((_ENGINE, _MODULE)):
            if not name.startswith(_COMPUTING):
                return ""
            found = f"{name[len(_LIBRARY) :]}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return found


def _moved(value: Any) -> Any:
    """A tensor of the host on the card, and those in lists, tuples and dicts; leaves that want gradients stay."""
    from pyapp import Tensor

    if isinstance(value, Tensor):
        return value.to(_place) if value.device.type == "cpu" and not value.requires_grad else value
    if type(value) in (list, tuple):  # a list that a module fills stays itself
        found = [_moved(each) for each in value]
        return value if all(map(operator.is_, found, value)) else type(value)(found)
    return {key: _moved(each) for key, each in value.items()} if type(value) is dict and value else value


def _settle(module: Any) -> None:
    """A module that was read from a file is on the card."""
    if any(each.device.type == "cpu" for each in (*module.parameters(), *module.buffers())):
        module.to(_place)


def _patch(place: Any) -> None:
    """What tests make is on the card; what modules copy to and fro is counted."""
    global _place
    import pyapp
    from pyapp import Tensor, models, nn
    from pyapp.engine import buffers

    _place = place
    takers = [importlib.import_module(f"pyapp.engine.{name}") for name in ("op", "in_place", "operands")]
    at_home, from_numpy = takers[0].at_home, pyapp.from_numpy

    def home(args: tuple[Any, ...]) -> tuple[Any, ...]:
        found = at_home(args)
        if found is not args or not _of_a_test():
            return found
        if {x.device.type for x in args if isinstance(x, Tensor)} == {"cpu", place.type}:
            return tuple(x.to(place) if isinstance(x, Tensor) else x for x in args)
        return args

    for each in takers:
        setattr(each, "at_home", home)  # noqa: B010
    pyapp.from_numpy = lambda array: from_numpy(array).to(place) if _of_a_test() else from_numpy(array)
    int32_tensor = buffers.int32_tensor
    buffers.int32_tensor = lambda values, *device: int32_tensor(values, *(device or [place] * _of_a_test()))

    call = nn.Module.__call__

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _depth
        if not _depth:
            _settle(self)
            args, kwargs = _moved(args), _moved(kwargs)
        _depth += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            _depth -= 1

    nn.Module.__call__ = counted  # type: ignore[method-assign]

    def settling(name: str) -> None:
        before = getattr(nn.Module, name)

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = before(self, *args, **kwargs)
            _settle(self)
            return found

        setattr(nn.Module, name, run)

    for name in ("eval", "load_state_dict"):
        settling(name)
    for function in (models.load_model, models.load_speech_model):
        assert function.__kwdefaults__ and "device" in function.__kwdefaults__
        function.__kwdefaults__["device"] = place
    for name in ("llama2c", "whisper"):
        _read_to(place, *vars(importlib.import_module(f"pyapp.models.{name}")).values())
    _count(type(place.backend))


def _read_to(place: Any, *classes: Any) -> None:
    """Models of these classes that are read from a file are moved to a place."""
    for each in classes:
        if isinstance(each, type) and "from_checkpoint" in vars(each):
            read = each.from_checkpoint
            each.from_checkpoint = lambda *args, _read=read, **kwargs: _read(*args, **kwargs).to(place)


def _count(backend: Any) -> None:
    def counting(name: str, counter: collections.Counter[str]) -> None:
        before: Callable[..., Any] = getattr(backend, name)

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if site := _site():
                counter[site] += 1
            return before(self, *args, **kwargs)

        setattr(backend, name, run)

    counting("read", _reads)
    counting("write", _writes)


def pytest_configure(config: pytest.Config) -> None:
    import pyapp

    name = os.environ.get("PYAPP_ON_CARD", "emulated")
    importlib.import_module("tests.mirror.device" if name == "mirror" else "tests.cuda.emulated")  # registers it
    place = pyapp.device(name)
    place.backend  # noqa: B018 - opens it
    _patch(place)
    if os.environ.get("PYAPP_ON_CARD_MOVED"):
        _make_elsewhere(place)
        return
    pyapp.set_default_device(place)
    threads = type(importlib.import_module("pyapp.engine.device")._default)
    threads.device = place  # of those that tests start, as ranks are, too


def _make_elsewhere(place: Any) -> None:
    """The default device is the card in lines of tests, and the CPU in lines of the library."""
    module: Any = importlib.import_module("pyapp.engine.device")
    chosen: dict[int, Any] = {}  # by thread: what a `with` block says

    def get(_: Any) -> Any:
        return chosen.get(threading.get_ident()) or (place if _of_a_test() else module.cpu)

    def put(_: Any, device: Any) -> None:
        begins = sys._getframe(1).f_code.co_name == "__enter__"  # of a `with` block, else one ends
        chosen[threading.get_ident()] = device if begins else None

    type(module._default).device = property(get, put)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test of a file in its turn, if not all are asked for."""
    every, offset = (int(each) for each in os.environ.get("PYAPP_ON_CARD_PART", "1/0").split("/"))
    items[:] = items[offset::every]


@pytest.fixture(autouse=True)
def _on_the_card() -> Iterator[None]:
    import pyapp

    pyapp.set_default_device(_place)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    _helped.update(str(each.message) for each in told if "the host computes it" in str(each.message))
    pyapp.set_default_device(_place)
    check = getattr(getattr(_place.backend, "card", None), "check", None)
    if check is not None:
        check()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        _counts[report.outcome] += 1
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", [])
        found = [place for each in entries if (place := getattr(each, "reprfileloc", None))]
        places = [f"{place.path}:{place.lineno}" for place in found]
        ours = [each for each in places if each.startswith("pyapp/") and not each.startswith("pyapp/engine")]
        where = f" [{ours[-1]}]" if ours else ""
        _failed[report.nodeid] = str(getattr(crash, "message", report.longrepr))[:400] + where


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = os.environ.get("PYAPP_ON_CARD_FOUND")
    if not target:
        return
    found = {
        "counts": dict(_counts),
        "failed": _failed,
        "host": dict(_helped),
        "reads": dict(_reads.most_common(SITES)),
        "writes": dict(_writes.most_common(SITES)),
    }
    Path(target).write_text(json.dumps(found))


def run_file(path: str, device: str, limit: float, part: str, moved_models: bool) -> dict[str, Any]:
    """What the tests of a file show, run in a process of their own for at most `limit` seconds."""
    found = ROOT / "build" / f"on_card_{os.getpid()}.json"
    found.parent.mkdir(exist_ok=True)
    found.unlink(missing_ok=True)
    moved = {"PYAPP_ON_CARD_MOVED": "1"} if moved_models else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.cuda.on_card", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist"]
    environment = os.environ | moved | {"PYAPP_ON_CARD": device, "PYAPP_ON_CARD_FOUND": str(found)}
    environment["PYAPP_ON_CARD_PART"] = part
    start = time.monotonic()
    try:
        with subprocess.Popen(
            [*command, "--tb=short", path], cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                told = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                process.send_signal(2)  # pytest says what it has found so far
                try:
                    told = process.communicate(timeout=20)[0]
                except subprocess.TimeoutExpired:
                    process.kill()
                    told = process.communicate()[0]
    finally:
        seconds = round(time.monotonic() - start, 1)
    result = {
        "file": path,
        "device": device,
        "part": part,
        "seconds": seconds,
        "ended": process.returncode,
        "late": seconds >= limit,
    }
    if found.exists():
        return result | json.loads(found.read_text())
    return result | {"counts": {}, "failed": {path: told[-1500:]}}


def files_of(paths: list[str]) -> list[str]:
    """The files of tests in folders and files, the smallest first."""
    every: list[Path] = []
    for name in paths:
        place = ROOT / name
        every += sorted(place.glob("**/test_*.py")) if place.is_dir() else [place]
    return [str(each.relative_to(ROOT)) for each in sorted(every, key=lambda each: each.stat().st_size)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=[f"tests/{name}" for name in FOLDERS])
    parser.add_argument("--device", default="emulated", help="emulated, mirror, or a card, as cuda:0")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a file")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "on_card.jsonl")
    parser.add_argument("--moved", action="store_true",
                        help="what the library makes without naming a device is on the CPU, as in programs that move "
                             "their models")  # fmt: skip
    parser.add_argument("--part", default="1/0", help="5/2: of each five tests the third")
    options = parser.parse_args(arguments)
    report: Path = options.report
    report.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    done = {line["file"] for line in lines if line["device"] == options.device and line["part"] == options.part}
    failed = 0
    for path in files_of(options.paths):
        if path in done:
            continue
        found = run_file(path, options.device, options.limit, options.part, options.moved)
        with report.open("a") as file:
            file.write(json.dumps(found) + "\n")
        counts = ", ".join(f"{count} {name}" for name, count in sorted(found["counts"].items()))
        print(f"{path}: {counts or 'nothing'}, {found['seconds']} s{' (late)' * found['late']}", flush=True)
        for name, why in found["failed"].items():
            print(f"    {name.rpartition('::')[2]}: {why.splitlines()[0] if why else ''}", flush=True)
        failed += len(found["failed"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
