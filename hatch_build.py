"""Hatchling's build hook: compiles native/ for the target of the build and puts the libraries into the wheel.

The host's wheel also gets the embedded models, pyapp/recipes, which trains them, pyapp/serve, and what type checkers
read; the page does not train them, is no server, and checks no types.

The target is wasm32 when PYAPP_TARGET=wasm is set (`make wheel`, with the Emscripten found on the machine) or when
`pyodide build` drives the build; it is Windows when PYAPP_TARGET=windows is set (`make wheel-windows`, on Linux);
otherwise it is the machine itself. The library is loaded by ctypes, so a wheel fits every Python of its platform:
py3-none-<platform>.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = "pyapp/_native"
EMBEDDED = "pyapp/embedded"
HOST_PACKAGES = ("pyapp/recipes", "pyapp/serve")


def target_and_platform() -> tuple[str, str]:
    """The argument for native/build.py and the wheel's platform tag (PEP 783 names the wasm one)."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if os.environ.get("PYAPP_TARGET") == "wasm":
        return "wasm", os.environ.get("PYAPP_PLATFORM_TAG", "pyemscripten_2026_0_wasm32")
    if "emscripten" in platform or os.environ.get("PYODIDE"):
        # pyodide-build replaces this tag by that of its ABI.
        return "wasm", platform if "emscripten" in platform else "emscripten_wasm32"
    if os.environ.get("PYAPP_TARGET") == "windows":
        return "windows", "win_amd64"
    return "host", platform


def compile_native(root: Path, target: str) -> list[Path]:
    """Runs native/build.py of the source tree, which the build's Python does not have on its path."""
    spec = importlib.util.spec_from_file_location("pyapp_native_build", root / "native" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        return build(module, root, target)
    except module.BuildError as error:  # pip shows what it says, without the frames that lead here
        raise SystemExit(f"error: {error}") from None


def build(module: ModuleType, root: Path, target: str) -> list[Path]:
    """The files that native/build.py makes for a target."""
    if target == "windows":
        built: list[Path] = module.build_host(root / "build" / "windows", machine="x86_64", system="windows")
    else:
        built = module.build_wasm() if target == "wasm" else module.build_host()
    return built


def embedded_models(root: Path) -> list[Path]:
    """The files of the models that come with the package, as its registry names them."""
    entries = json.loads((root / "pyapp" / "registry.json").read_text("utf-8"))["models"]
    files = [root / "web" / file["path"] for entry in entries if entry["kind"] == "embedded" for file in entry["files"]]
    return [path for path in files if path.is_file()]


def only_on_the_host(root: Path) -> dict[str, str]:
    """Where the files that the page's wheel leaves out lie, and their place in the wheel."""
    models = {path: f"{EMBEDDED}/{path.relative_to(root / 'web').as_posix()}" for path in embedded_models(root)}
    sources = [path for package in HOST_PACKAGES for path in sorted((root / package).rglob("*.py"))]
    sources += [root / "pyapp" / "py.typed", *sorted((root / "pyapp").rglob("*.pyi"))]
    packages = {path: path.relative_to(root).as_posix() for path in sources}
    return {str(path): place for path, place in {**models, **packages}.items()}


class NativeBuildHook(BuildHookInterface):
    """Compiles before a wheel or an editable install is made; an sdist only carries the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        target, platform = target_and_platform()
        built = compile_native(Path(self.root), target)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            places = {str(path): f"{LIBRARIES}/{path.relative_to(built[0].parent).as_posix()}" for path in built}
            build_data["force_include"].update(places)
            if target != "wasm":
                build_data["force_include"].update(only_on_the_host(Path(self.root)))
