"""Builds NumPy's wheel for Pyodide 314 (pyemscripten_2026_0_wasm32) with Debian 12's Emscripten: about ten minutes.

    python third_party/numpy/build.py [work folder] [folder for the wheel]      JOBS=2 in the environment: compile jobs

Needs emcc, ninja, node, npm, apt-get and dpkg. Sources come from the package index (NumPy, by hash), npm (Pyodide, for
its sysconfig data and for the last check) and Debian sid (CPython 3.14's headers, unpacked only).

What the cross compilation has to know: Pyodide's main module has a 64-bit time_t, Emscripten 3.1.6 a 32-bit one; it
lacks the out-of-line vector helpers of the old libc++; exceptions and longjmp are WebAssembly's own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

KIT = Path(__file__).resolve().parent / "kit"
NUMPY, NUMPY_SHA256 = "2.4.6", "f3a3570c4a2a16746ac2c31a7c7c7b0c186b95ce902e33db6f28094ed7387dda"
CYTHON, PYODIDE, PYTHON = "3.3.1", "314.0.7", "3.14"
TAG = "cp314-cp314-pyemscripten_2026_0_wasm32"
TOOLS = {"emcc": "emscripten", "ninja": "ninja-build", "node": "nodejs", "npm": "npm", "dpkg": "dpkg"}
DATE = (2026, 1, 1, 0, 0, 0)
# Not needed at run time: the Fortran compiler's front end, headers, type stubs, examples.
LEFT_OUT = re.compile(
    r"^numpy/(f2py|_core/include|_core/lib|random/lib|random/_examples|_pyinstaller)/|\.(pyi|pxd|a|pyc)$"
)
CROSS = """[binaries]
c = '{kit}/emcc'
cpp = '{kit}/em++'
ar = 'emar'
ranlib = 'emranlib'
strip = 'true'
python = '{kit}/target-python'
[host_machine]
system = 'emscripten'
cpu_family = 'wasm32'
cpu = 'wasm32'
endian = 'little'
[properties]
needs_exe_wrapper = true
skip_sanity_check = true
longdouble_format = 'IEEE_QUAD_LE'
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env={**os.environ, **environment})


def fetch_sources(work: Path) -> Path:
    """NumPy's source release, checked, unpacked; a virtual environment with Cython; Pyodide."""
    run(sys.executable, "-m", "venv", work / "venv", cwd=work)
    pip = work / "venv" / "bin" / "pip"
    run(pip, "-q", "install", f"cython=={CYTHON}", cwd=work)
    download = ["download", "-q", "--no-deps", "--no-binary", "numpy", "--no-build-isolation", f"numpy=={NUMPY}"]
    run(pip, *download, cwd=work, PYTHONPATH=str(KIT))  # kit/mesonpy.py answers for the build backend
    archive = work / f"numpy-{NUMPY}.tar.gz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != NUMPY_SHA256:
        sys.exit(f"{archive.name} is not the release that was pinned")
    shutil.unpack_archive(archive, work)
    (work / "package.json").write_text('{"private": true}\n')
    run("npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", f"pyodide@{PYODIDE}", cwd=work)
    return work / f"numpy-{NUMPY}"


def debian_mirror() -> str:
    """The mirror that this machine's apt uses."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    lines = "\n".join(path.read_text() for path in files if path.is_file())
    found = re.search(r"^[^#\n]*?(https?://\S+/debian/?)(?:\s|$)", lines, re.MULTILINE)
    if not found:
        sys.exit("apt's sources name no Debian mirror")
    return found.group(1)


def fetch_headers(work: Path) -> Path:
    """The folder with CPython's headers, from Debian sid; nothing is installed."""
    apt = work / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keyring}] {debian_mirror()} sid main\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *options, "-qq", "update", cwd=apt)
    run("apt-get", *options, "-qq", "download", f"libpython{PYTHON}-dev", cwd=apt)
    [package] = apt.glob(f"libpython{PYTHON}-dev_*.deb")
    run("dpkg", "-x", package, apt / "unpacked", cwd=apt)
    return apt / "unpacked" / "usr" / "include"


def write_headers(work: Path, debian: Path) -> None:
    """include/ with pyconfig.h rewritten to the values that Pyodide's Python was built with."""
    with zipfile.ZipFile(work / "node_modules" / "pyodide" / "python_stdlib.zip") as stdlib:
        [name] = [name for name in stdlib.namelist() if name.startswith("_sysconfigdata_")]
        (work / "sysconfigdata.py").write_bytes(stdlib.read(name))
    namespace: dict[str, dict[str, object]] = {}
    exec((work / "sysconfigdata.py").read_text(), namespace)
    values, changed = namespace["build_time_vars"], 0

    def define(match: re.Match[str]) -> str:
        nonlocal changed
        name = match.group(1) or match.group(2)
        if name not in values:
            return match.group(0)
        changed += 1
        # sysconfig gives 0 for what is not defined, but sizes are sizes.
        if values[name] in (0, "") and not name.startswith(("SIZEOF", "ALIGNOF")):
            return f"/* #undef {name} */"
        return f"#define {name} {values[name]}"

    include = work / "include" / f"python{PYTHON}"
    shutil.copytree(debian / f"python{PYTHON}", include, dirs_exist_ok=True)
    [config] = debian.glob(f"*-linux-gnu/python{PYTHON}/pyconfig.h")
    pattern = re.compile(
        r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[ \t].*)?$|^/\*[ \t]*#undef[ \t]+(\w+)[ \t]*\*/[ \t]*$", re.MULTILINE
    )
    (include / "pyconfig.h").write_text(pattern.sub(define, config.read_text()))
    if changed < 500:
        sys.exit(f"pyconfig.h: only {changed} values were found")


def compile_numpy(work: Path, source: Path) -> Path:
    """Configures, compiles and installs; the site-packages folder with the result."""
    kit = work / "kit"
    shutil.copytree(KIT, kit, dirs_exist_ok=True)
    for name in ("emcc", "em++"):
        (kit / name).symlink_to("compiler.py")
    (kit / "target-python").symlink_to("target_python.py")
    (work / "cross.ini").write_text(CROSS.format(kit=kit))
    environment = {
        "NUMPY_BUILD": str(work),
        "BUILD_PYTHON": str(work / "venv" / "bin" / "python"),
        "PATH": f"{work}/venv/bin:{os.environ['PATH']}",
    }
    meson = [sys.executable, source / "vendored-meson" / "meson" / "meson.py"]
    options = ["-Dallow-noblas=true", "-Dblas=none", "-Dlapack=none", "-Dbuildtype=release", "-Doptimization=3"]
    setup = ["setup", work / "build", source, "--cross-file", work / "cross.ini", *options]
    run(*meson, *setup, "-Db_ndebug=if-release", "--prefix=/usr", cwd=work, **environment)
    run("ninja", "-C", work / "build", f"-j{os.environ.get('JOBS', '2')}", "--quiet", cwd=work, **environment)
    install = ["install", "-C", work / "build", "--no-rebuild", "--quiet", "--tags", "runtime,python-runtime"]
    run(*meson, *install, cwd=work, **environment, DESTDIR=str(work / "installed"))
    return work / "installed" / "usr" / "lib" / f"python{PYTHON}" / "site-packages"


def wheel_members(packages: Path, source: Path) -> dict[str, bytes]:
    info = f"numpy-{NUMPY}.dist-info"
    metadata = (source / "PKG-INFO").read_text(encoding="utf8")
    files = {path.relative_to(packages).as_posix(): path for path in (packages / "numpy").rglob("*") if path.is_file()}
    members = {name: path.read_bytes() for name, path in files.items() if not LEFT_OUT.search(name)}
    members[f"{info}/METADATA"] = metadata.encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: pyapp third_party/numpy\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    members[f"{info}/WHEEL"] = wheel.encode()
    for license_file in re.findall(r"^License-File: (.*)$", metadata, re.MULTILINE):
        members[f"{info}/licenses/{license_file}"] = (source / license_file).read_bytes()
    record = []
    for name, data in sorted(members.items()):
        digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    members[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    return members


def write_wheel(members: dict[str, bytes], out: Path) -> Path:
    wheel = out / f"numpy-{NUMPY}-{TAG}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, DATE)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, members[name], compresslevel=9)
    return wheel


def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "build/numpy").resolve()
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "build/numpy-wheel").resolve()
    if missing := [package for command, package in TOOLS.items() if shutil.which(command) is None]:
        sys.exit(f"missing: apt-get install {' '.join(missing)}")
    shutil.rmtree(work, ignore_errors=True)
    for folder in (work, out):
        folder.mkdir(parents=True, exist_ok=True)
    source = fetch_sources(work)
    write_headers(work, fetch_headers(work))
    packages = compile_numpy(work, source)
    main_module = work / "node_modules" / "pyodide" / "pyodide.asm.wasm"
    run("node", KIT / "check_imports.mjs", main_module, packages, cwd=work)
    wheel = write_wheel(wheel_members(packages, source), out)
    print(f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}")


if __name__ == "__main__":
    main()
