"""Builds our wheels, for the host, wasm32 and Windows, and the kernels of the page's threads; downloads the wheels that
the page and its tests load.

python -m scripts.wheels [host] [wasm] [windows] [--out build/wheels]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyproject_hooks import BuildBackendHookCaller

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheels"
DOWNLOADS = ROOT / "build" / "downloads"
NUMPY = ROOT / "third_party" / "numpy"
REQUIREMENTS = ROOT / "third_party" / "pyodide"


class BuildFailed(RuntimeError):
    """A wheel or source archive could not be built. The text is the output of the build."""


def backend(project: Path = ROOT, **environment: str) -> BuildBackendHookCaller:
    """The build backend that `project` names, run with the packages of this Python and with `environment` set.

    Its build_wheel(folder) and build_sdist(folder) return the file's name; BuildFailed when it fails.
    """

    def runner(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        everything = {**os.environ, **(extra_environ or {}), **environment}
        done = subprocess.run(cmd, cwd=cwd, env=everything, capture_output=True, text=True)
        sys.stderr.write("".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith("native:")))
        if done.returncode:
            raise BuildFailed(done.stdout + done.stderr)

    name = tomllib.loads((project / "pyproject.toml").read_text())["build-system"]["build-backend"]
    return BuildBackendHookCaller(str(project), name, runner=runner)


def build(target: str, out: Path = OUT) -> Path:
    """Builds our wheel for "host", "wasm" or "windows" into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    return out / backend(PYAPP_TARGET=target).build_wheel(str(out))


def pool() -> list[Path]:
    """The kernels for the page's threads (native/build.py pool); none, with a message, without tools for them."""
    spec = importlib.util.spec_from_file_location("pyapp_native_build", ROOT / "native" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        built: list[Path] = module.build_pool()
    except module.BuildError as error:
        raise BuildFailed(str(error)) from error
    return built


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def numpy() -> Path:
    """NumPy's wheel for Pyodide, which is in the repository, checked against its pinned hash."""
    expected, name = (NUMPY / "SHA256SUMS").read_text().split()
    wheel = NUMPY / name
    if sha256(wheel) != expected:
        sys.exit(f"{wheel.relative_to(ROOT)} does not have the SHA-256 that SHA256SUMS gives; restore it from git.")
    return wheel


def download(group: str, *options: str) -> list[Path]:
    """The wheels that third_party/pyodide/<group>.txt pins, from the package index; pip checks their hashes.
    `options` are of pip.
    """
    requirements = REQUIREMENTS / f"{group}.txt"
    folder = DOWNLOADS / f"{group}-{sha256(requirements)[:12]}"
    names = re.findall(r"^([\w.-]+)==", requirements.read_text(), re.MULTILINE)
    if len(list(folder.glob("*.whl"))) != len(names):
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--python-version", "3.14", "--only-binary", ":all:", "--require-hashes", *options]
        subprocess.run([*command, "-d", str(folder), "-r", str(requirements)], check=True, stdin=subprocess.DEVNULL)
    return sorted(folder.glob("*.whl"))


def pure(wheel: Path) -> Path:
    """A wheel without its compiled modules, for a package whose Python modules do the same."""
    if wheel.name.endswith("-none-any.whl"):
        return wheel
    name, version = wheel.name.split("-")[:2]
    target = wheel.parent / "pure" / f"{name}-{version}-py3-none-any.whl"
    target.parent.mkdir(exist_ok=True)
    record: list[str] = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in source.namelist():
            data = source.read(entry)
            if entry.endswith((".so", ".pyd", ".c", "/")):
                continue
            if entry.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"Root-Is-Purelib: \w+", b"Root-Is-Purelib: true", data)
                data = re.sub(rb"(Tag: .*\n)+", b"Tag: py3-none-any\n", data.replace(b"\r\n", b"\n"))
            if entry.endswith(".dist-info/RECORD"):
                data = "\n".join([*record, f"{entry},,", ""]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{entry},sha256={digest},{len(data)}")
            member = zipfile.ZipInfo(entry)  # without today's date: the same bytes each time
            member.external_attr = 0o644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Build pyapp's wheels.")
    parser.add_argument("targets", nargs="*", choices=["host", "wasm", "windows"], default=["host", "wasm"])
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    for target in arguments.targets:
        try:
            wheel = build(target, arguments.out)
        except BuildFailed as error:
            sys.exit(f"{error}\nThe {target} wheel was not built.")
        print(f"{wheel} ({wheel.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
