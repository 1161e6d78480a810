"""Divides the page's archives into parts: what the first story and the first transcript need, and what the page fetches
when it is idle, or when something needs it (web/modules/worker/python.js, pyapp/late_parts.py)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

LIBRARY_LATER = "python-later"
PYAPP_LATER = "pyapp-later"
NUMPY_LATER = "numpy-later"
# For voices of phonemes: how English words sound, and letters of those that are not among them.
DICTIONARY, ENGLISH = "misaki-english", "pyapp-english"
# `import numpy` reads none of them where pyapp.late_linalg stands in for numpy.linalg.
NUMPY_LATER_FOLDERS = tuple(f"numpy/{name}/" for name in ("fft", "linalg", "ma", "polynomial", "random", "testing"))


def is_late_numpy(name: str) -> bool:
    return name.startswith(NUMPY_LATER_FOLDERS)


def is_late_pyapp(name: str) -> bool:
    """compile_python.py has compiled exactly the modules that the start imports."""
    return not name.endswith(
        (".pyc", ".dist-info/METADATA", ".dist-info/WHEEL", "/declarations.h", "/kernels.signature")
    )


def is_dictionary(name: str) -> bool:
    """The English dictionaries in misaki's wheel, and what makes their folder a package."""
    return name.endswith(("_gold.json", "_silver.json", "misaki/__init__.py", "data/__init__.py"))


def is_english(name: str) -> bool:
    return name.startswith("pyapp/text/english/") and name.endswith(".txt")


def is_late_library(name: str) -> bool:
    """Pyodide's own modules stay in the first part: it needs them before it can fetch anything."""
    return name.endswith(".py") and not name.startswith(("pyodide/", "_pyodide/"))


PYAPP_PARTS = {
    # The kernels for one instruction set: a browser fetches those that it runs.
    "pyapp-relaxed": "pyapp/_native/libpyapp_relaxed.wasm".__eq__,
    "pyapp-simd": "pyapp/_native/libpyapp_simd.wasm".__eq__,
    ENGLISH: is_english,
    PYAPP_LATER: is_late_pyapp,
}


def split_wheel(wheel: Path, folder: Path, parts: Mapping[str, Callable[[str], bool]]) -> list[Path]:
    """Writes `wheel` into `folder` without the members that belong to one of `parts`, and each of these as a wheel of
    that name: a member goes to the first part that takes its name. A part without members is not written."""
    _, version, tags = wheel.name.split("-", 2)
    names = {package: package.replace("-", "_") for package in parts}
    paths = {package: folder / f"{name}-{version}-{tags}" for package, name in names.items()}
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(folder / wheel.name, "w") as first:
        archives = {package: zipfile.ZipFile(path, "w") for package, path in paths.items()}
        for member in source.infolist():
            taker = next((package for package, takes in parts.items() if takes(member.filename)), None)
            (first if taker is None else archives[taker]).writestr(member, source.read(member))
        for package, archive in archives.items():
            if not archive.namelist():
                archive.close()
                paths.pop(package).unlink()
                continue
            metadata = zipfile.ZipInfo(f"{names[package]}-{version}.dist-info/METADATA", source.infolist()[0].date_time)
            archive.writestr(metadata, f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
            archive.close()
    return [folder / wheel.name, *paths.values()]


def split_library(archive: Path, folder: Path, version: str) -> list[Path]:
    """Writes the standard library without what is late into `folder`, and the rest as an archive of its own, which the
    page appends to the first (addLibrary of web/modules/worker/unpack.js)."""
    first, later = folder / archive.name, folder / f"{LIBRARY_LATER.replace('-', '_')}-{version}-py3-none-any.zip"
    with (
        zipfile.ZipFile(archive) as source, zipfile.ZipFile(first, "w") as start, zipfile.ZipFile(later, "w") as rest,
    ):  # fmt: skip
        for member in source.infolist():
            (rest if is_late_library(member.filename) else start).writestr(member, source.read(member))
    return [first, later]


def modules_in(archive: Path) -> list[str]:
    """The names of the Python modules in an archive, sorted, without those in a package that is there as a whole: who
    imports them imports the package first."""
    with zipfile.ZipFile(archive) as members:
        files = [name.removesuffix("c") for name in members.namelist() if name.endswith((".py", ".pyc"))]
    names = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    return sorted(name for name in names if name.rpartition(".")[0] not in names)
