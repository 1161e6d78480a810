"""Runs the tests inside Pyodide in headless Chromium, against the files of dist/ (see worker.mjs, in_pyodide.py)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from pyapp import extension
from pyapp.errors import KernelError
from scripts import wheels
from scripts.serve import SiteServer

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "build" / "pyodide-tests"
SHARED = ROOT.parent / "shared" / "data"
LEFT_OUT = {"pyodide", "output", "__pycache__"}
# A run that finds no test, before every other: a status that is not 0 must arrive here.
NOTHING = ["tests/test_tiny.py", "-q", "-k", "nothing_has_this_name"]
NO_TESTS = 5  # pytest's status of it
YIELDING_BROWSER = Path(__file__).with_name("yielding-browser")
# WebGPU by SwiftShader, on the processor, which other programs may keep busy: a watchdog would take that for a hang.
WEBGPU = ["--enable-unsafe-webgpu", "--disable-gpu-watchdog"]
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", *WEBGPU]


@dataclass
class Result:
    """What pytest answered inside the browser: 0 when tests ran and all passed."""

    status: int
    summary: str


def build_side_modules() -> None:
    """The examples' own kernels for the page; where the tools are missing, their tests skip."""
    for source in (ROOT / "examples").rglob("*.c"):
        try:
            extension.build_side_module(source)
        except KernelError as error:
            print(f"left out: {error}", file=sys.stderr)


def project_files() -> Iterator[tuple[Path, str]]:
    """(file, name in the archive) of what the tests read: themselves, the kernels' sources, the embedded models, and
    the packages that the page's wheel leaves out.
    """
    yield ROOT / "pyproject.toml", "project/pyproject.toml"
    for package in ("recipes", "serve"):
        for path in sorted((ROOT / "pyapp" / package).rglob("*.py")):
            yield path, f"project/outside_the_wheel/{path.relative_to(ROOT / 'pyapp').as_posix()}"
    build_side_modules()
    for folder in ("tests", "native", "web/models", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            if path.is_file() and not LEFT_OUT.intersection(name.parts):
                yield path, f"project/{name.as_posix()}"
    # Public files that a developer may keep beside the project; the tests that read them skip without.
    for path in sorted(SHARED.glob("*")) if SHARED.is_dir() else []:
        if path.stat().st_size < 4_000_000:
            yield path, f"shared/data/{path.name}"


def write_job(files: Path, arguments: Sequence[str], kernels: str) -> dict[str, str]:
    """Writes job.json and the archive of tests into a folder; the folders to serve for them."""
    packages = wheels.download("tests")
    with zipfile.ZipFile(files / "files.zip", "w") as archive:
        for path, name in project_files():
            archive.write(path, name)
    job = {
        "runs": [NOTHING, list(arguments)],
        "kernels": kernels,
        "files": "files/files.zip",
        "wheels": [f"packages/{path.name}" for path in packages],
    }
    (files / "job.json").write_text(json.dumps(job))
    modules = ROOT / "web" / "modules"
    folders = {"files": files, "packages": packages[0].parent, "suite": Path(__file__).parent, "modules": modules}
    return {f"/{name}/": str(folder) for name, folder in folders.items()}


def run_suite(
    arguments: Sequence[str] = (),
    kernels: str = "relaxed",
    seconds: float = 1800,
    echo: Callable[[str], None] = print,
    yielding: bool = False,
) -> Result:
    """Runs pytest with `arguments` inside Pyodide, on the "relaxed" or the "simd" build of the kernels.

    `echo` gets every line that pytest prints. `yielding`: other programs go before it. Raises FileNotFoundError without
    dist/ or Chromium.
    """
    if not (ROOT / "dist" / "manifest.json").is_file():
        raise FileNotFoundError("dist/ is missing: run `make site` first")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise FileNotFoundError("Chromium is missing: run `make browser-ready`")
    results: list[Result] = []
    arrived = threading.Event()

    def report(message: dict[str, object]) -> None:
        if "line" in message:
            echo(str(message["line"]))
        if "exit" in message:
            results.append(Result(int(str(message["exit"])), str(message.get("summary", ""))))
            if len(results) > 1 or results[0].status != NO_TESTS:
                arrived.set()

    FILES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = Path(stack.enter_context(TemporaryDirectory(dir=FILES)))  # other runs may be under way
        mounts = write_job(files, arguments, kernels)
        server = stack.enter_context(SiteServer(ROOT / "dist", isolated=True, mounts=mounts))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=YIELDING_BROWSER if yielding else chromium,
            args=CHROMIUM_ARGUMENTS,
            env={**os.environ, "PYAPP_BROWSER": chromium},
        )
        page = browser.new_page()
        page.on("pageerror", lambda error: report({"line": f"page: {error}", "exit": 3}))
        page.on("crash", lambda: report({"line": "the page crashed", "exit": 3}))
        page.expose_function("report", report)
        page.goto(f"{server.url}suite/suite.html")
        for _ in range(int(seconds * 10)):
            if arrived.is_set():
                break
            page.wait_for_timeout(100)
        browser.close()
    if results and results[0].status == 0:
        return Result(3, "a run without a test was told to have passed")
    return results[-1] if arrived.is_set() else Result(3, f"no answer within {seconds:.0f} s")


def main() -> int:
    arguments = sys.argv[1:]
    yielding = arguments[:1] == ["--yielding"] and bool(arguments.pop(0))
    kernels = "relaxed"
    if arguments and arguments[0] in ("relaxed", "simd"):
        kernels = arguments.pop(0)
    result = run_suite(arguments or ["tests"], kernels, yielding=yielding)
    print(f"Inside Pyodide, {kernels} kernels: {result.summary}")
    return result.status
