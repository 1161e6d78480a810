"""Installs the missing tools and packages for a target of the Makefile. Uses Python's standard library only.

python3 scripts/setup.py system build browser lint arm windows
                                                       Debian packages, only those whose command is missing
python3 scripts/setup.py ready                         .venv with the locked development packages and pyapp itself,
                                                       its kernels, and node_modules, as package-lock.json says
python3 scripts/setup.py cuda                          the extra "cuda": NVIDIA's bindings and compiler
python3 scripts/setup.py cublas                        "cublas" beside it: NVIDIA's products of matrices
python3 scripts/setup.py windows                       "windows": a compiler for Windows
python3 scripts/setup.py bench                         bench/node_modules: the peers that benches run beside us
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PIP = (str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")

# Command -> the Debian packages that install it.
SYSTEM = {
    "build": {
        "cc": ["gcc", "libc6-dev"],
        "emcc": ["emscripten"],
        "clang-19": ["clang-19"],
        "wasm-ld-19": ["lld-19"],
        "node": ["nodejs"],
        "npm": ["npm"],
    },
    "browser": {"chromium": ["chromium"], "firefox-esr": ["firefox-esr"]},
    "lint": {"clang-format-19": ["clang-format-19"]},
    "arm": {
        "aarch64-linux-gnu-gcc": ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        "qemu-aarch64": ["qemu-user"],
    },
    "windows": {"wine": ["wine", "wine64"]},
}


def run(*command: str, **options: object) -> None:
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]


def system(groups: list[str]) -> None:
    """Installs the Debian packages of `groups` whose commands are missing, with sudo when not root."""
    packages = [
        package
        for group in groups
        for command, names in SYSTEM[group].items()
        if shutil.which(command) is None
        for package in names
    ]
    if "build" in groups and subprocess.run([sys.executable, "-c", "import ensurepip, venv"]).returncode:
        packages.append("python3-venv")
    if not packages:
        return
    apt = shutil.which("apt-get")
    if apt is None:
        sys.exit(f"Please install, by your system's own means: {' '.join(packages)}")
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    if prefix and shutil.which("sudo") is None:
        sys.exit(f"As root, please run: apt-get install {' '.join(packages)}")
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    install = [*prefix, *environment, apt, "install", "-y", "-q", "--no-install-recommends", *packages]
    try:
        run(*install)
    except subprocess.CalledProcessError:
        run(*prefix, *environment, apt, "update", "-q")  # the package lists are missing or old
        run(*install)


def stamp_of(*names: str) -> str:
    """A hash of files and of the version of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for name in names:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def up_to_date(stamp: Path, value: str) -> bool:
    """Whether an earlier run left this stamp."""
    return stamp.is_file() and stamp.read_text() == value


def ready() -> None:
    """The kernels are compiled while packages arrive: they need none of them."""
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(f"pyapp needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]} (make PYTHON=...)")
    with ThreadPoolExecutor() as pool:
        build = [sys.executable, "native/build.py", "host"]
        kernels = pool.submit(subprocess.run, build, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        for step in (pool.submit(node, "."), kernels, pool.submit(packages)):
            step.result()
    stamp, value = python_stamp()
    if not up_to_date(stamp, value):
        run(*PIP, "install", "-q", "--no-deps", "--no-build-isolation", "-e", ".")
        stamp.write_text(value)


def python_stamp() -> tuple[Path, str]:
    return VENV / ".ready", stamp_of("requirements-dev.txt", "pyproject.toml", "hatch_build.py")


def packages() -> None:
    """Makes .venv from requirements-dev.txt (exact versions with hashes)."""
    if up_to_date(*python_stamp()):
        return
    run(sys.executable, "-m", "venv", str(VENV))
    # Python compiles what it imports; compiling the rest too takes ten seconds.
    run(*PIP, "install", "-q", "--no-compile", "--require-hashes", "-r", "requirements-dev.txt")


def node(folder: str) -> None:
    """Makes folder/node_modules from its package-lock.json, whose integrity hashes npm checks."""
    stamp = ROOT / folder / "node_modules" / ".ready"
    value = stamp_of(f"{folder}/package.json", f"{folder}/package-lock.json")
    if up_to_date(stamp, value):
        return
    run("npm", "ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    stamp.write_text(value)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["system", *groups] if groups and set(groups) <= set(SYSTEM):
            system(groups)
        case ["ready"]:
            ready()
        case ["cuda"]:
            run(*PIP, "install", "-q", "--no-build-isolation", "-e", ".[cuda]")
        case ["cublas"]:
            run(*PIP, "install", "-q", "--no-build-isolation", "-e", ".[cuda,cublas]")
        case ["windows"]:
            run(*PIP, "install", "-q", "--no-build-isolation", "-e", ".[windows]")
        case ["bench"]:
            node("bench")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
