"""Assembles dist/: plain files for any static host, under any path, that fetch nothing from another origin.

    python -m scripts.site [--out dist] [--plain-host] [--quality 11]

    dist/                      web/, its modules and styles in one file each (scripts/bundle.py)
    dist/pool_*.wasm           the kernels of the page's threads
    dist/pyodide/              Pyodide, the wheels and their lock file (pyodide-lock.json) with SHA-256 hashes
    dist/tokenizers/           Hugging Face's tokenizers in JavaScript
    dist/mediabunny/           a library that reads containers of recordings
    dist/pdfjs/                a library that draws the pages of PDFs
    dist/model-tasks.json      the task of each architecture
    dist/lessons/lessons.json  the titles of the Lab's lessons, and their files
    dist/manifest.json         {"version", "files": [{"path", "bytes", "sha256"}]}: what the service worker stores,
                               at once or, with "on_demand", when it was used
    dist/*.br, dist/*.gz       precompressed copies

The members of archives are stored without compression: the copy of the whole archive then compresses better.
--plain-host deflates them, for hosts that do not send precompressed copies.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import brotli

from pyapp.browser_tasks import MODEL_TASKS
from pyapp.models._index import GGUF_ARCHITECTURES, MODEL_TYPES, TASKS

from . import wheels
from .archive_parts import (
    DICTIONARY,
    ENGLISH,
    LIBRARY_LATER,
    NUMPY_LATER,
    PYAPP_LATER,
    PYAPP_PARTS,
    is_dictionary,
    is_late_numpy,
    modules_in,
    split_library,
    split_wheel,
)
from .bundle import PUBLIC, copy_bundled

ROOT = wheels.ROOT
WEB = ROOT / "web"
NODE_MODULES = ROOT / "node_modules"
CACHE = ROOT / "build" / "site"
# Scripts that end in .mjs are named .js in the site: many hosts send the former with a type that browsers do not run.
PYODIDE_FILES = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm"]
LOCK_FILE = "pyodide-lock.json"
NUMPY = "numpy"
LIBRARY = "python_stdlib.zip"
# Folders of the site, and what of npm's packages they have.
LIBRARIES = {
    "tokenizers": ["@huggingface/tokenizers/dist/tokenizers.min.mjs"],
    "mediabunny": ["mediabunny/dist/bundles/mediabunny.min.mjs"],
    "pdfjs": ["pdfjs-dist/legacy/build/pdf.min.mjs", "pdfjs-dist/legacy/build/pdf.worker.min.mjs"],
    "pdfjs/wasm": ["pdfjs-dist/wasm/*.wasm", "pdfjs-dist/wasm/LICENSE*"],  # decoders of pictures in PDFs
    "pdfjs/standard_fonts": ["pdfjs-dist/standard_fonts/*"],  # for PDFs without fonts of their own
    # For Chinese, Japanese and Korean PDFs. ISO 32000 names no CMaps for UTF-8 and UTF-32.
    "pdfjs/cmaps": [f"pdfjs-dist/cmaps/{name}" for name in ("[!U]*", "Uni*-UCS2-*", "Uni*-UTF16-*")],
}
# Files that a browser stores when it has used them: those of PDFs in few languages, and of voices of phonemes.
ON_DEMAND = ("pdfjs/cmaps/", "pyodide/misaki_english-", "pyodide/pyapp_english-")
# What a package of the lock file needs besides itself.
DEPENDS = {
    "pyapp": [part for part in PYAPP_PARTS if part != ENGLISH],
    NUMPY: [NUMPY_LATER],
    "jinja2": ["markupsafe"],
    DICTIONARY: [ENGLISH],
}
SMALLEST_COMPRESSED = 1024  # below this a copy saves nothing
INCOMPRESSIBLE = {".png", ".woff2", ".jpg", ".gif"}

# Statements whose imports become byte code: what the page runs before its first token, and NumPy.
START_IMPORTS = """
import asyncio, base64, codecs, collections.abc, contextlib, ctypes, dataclasses, enum, functools, hashlib, inspect, io
import encodings.utf_8_sig, importlib.metadata, itertools, json, math, operator, pathlib, random, re, string, struct
import time, traceback, types, typing, unicodedata, weakref, zipfile
import pyodide.ffi, pyodide.code, pyodide.http
import numpy
import pyapp
import pyapp.browser; pyapp.browser.import_tasks()
""".strip()


def script_name(name: str) -> str:
    """The name in the site of a file of another project."""
    return name.removesuffix(".mjs") + ".js" if name.endswith(".mjs") else name


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiled_archives(ours: Path, numpy: Path, plain_host: bool) -> dict[str, Path]:
    """The standard library, NumPy and our wheel with byte code for Pyodide's Python; made anew after a change."""
    stdlib = NODE_MODULES / "pyodide" / LIBRARY
    scripts = [Path(__file__).with_name("compile_python.py"), Path(__file__).with_name("compile_python.mjs")]
    key = hashlib.sha256(f"{START_IMPORTS}{plain_host}".encode())
    for path in [stdlib, numpy, ours, *scripts, NODE_MODULES / "pyodide" / "package.json"]:
        key.update(bytes.fromhex(file_sha256(path)))
    folder = CACHE / "compiled" / key.hexdigest()[:16]
    archives = {path.name: folder / path.name for path in (stdlib, numpy, ours)}
    if all(path.is_file() for path in archives.values()):
        return archives
    shutil.rmtree(CACHE / "compiled", ignore_errors=True)
    folder.mkdir(parents=True)
    places = {stdlib: "/lib/python314.zip", numpy: "{site-packages}", ours: "{site-packages}"}
    job = {
        "imports": START_IMPORTS,
        "install": [str(numpy), str(ours)],
        "stored": not plain_host,
        "archives": [
            {
                "source": str(path),
                "target": str(folder / path.name),
                "place": place,
                "optimize": 2 if path == numpy else 0,  # who asks NumPy for help() in a tab has none
                "bare": path == ours,
            }
            for path, place in places.items()
        ],
    }
    (folder / "job.json").write_text(json.dumps(job))
    command = ["node", str(scripts[1]), str(folder / "job.json")]
    subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL)
    return archives


def pyodide_version() -> str:
    version: str = json.loads((NODE_MODULES / "pyodide" / "package.json").read_text())["version"]
    return version


def lock_entry(wheel: Path) -> dict[str, Any]:
    """One package of a pyodide-lock.json. The page itself decides when it needs NumPy, and the later parts."""
    name, version = wheel.name.split("-")[:2]
    return {
        "name": name.replace("_", "-"),
        "version": version,
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": file_sha256(wheel),
        "package_type": "package",
        "imports": [name],
        "depends": DEPENDS.get(name, []),
        "unvendored_tests": False,
    }


def lock_file(packages: list[Path]) -> dict[str, Any]:
    """Our own lock file: Pyodide's ABI from its own lock file, and exactly `packages`, which are in the same folder."""
    info = json.loads((NODE_MODULES / "pyodide" / LOCK_FILE).read_text())["info"]
    entries = [lock_entry(wheel) for wheel in sorted(packages, key=lambda path: path.name)]
    names = {entry["name"] for entry in entries}
    for entry in entries:  # without tools for relaxed SIMD there are no kernels for it
        entry["depends"] = [name for name in entry["depends"] if name in names]
    return {"info": info, "packages": {entry["name"]: entry for entry in entries}}


def manifest(out: Path) -> dict[str, Any]:
    """Every file of the site with its size and hash; the version changes with any of them."""
    paths = sorted(path for path in out.rglob("*") if path.is_file())
    files: list[dict[str, Any]] = [
        {"path": path.relative_to(out).as_posix(), "bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in paths
    ]
    for file in files:
        # Those of PUBLIC and the types are not of this page.
        if file["path"].startswith(ON_DEMAND) or file["path"] in PUBLIC or file["path"].endswith(".d.ts"):
            file["on_demand"] = True
    version = hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]
    return {"version": version, "files": files}


def kept_copy(digest: str, suffix: str, quality: int) -> Path | None:
    """A copy in the cache that was compressed at `quality` or better."""
    paths = (CACHE / "compressed" / f"{digest}.{level}{suffix}" for level in range(11, quality - 1, -1))
    return next((path for path in paths if path.is_file()), None)


def compressed_copies(path: Path, quality: int) -> None:
    """Writes path.br and path.gz, from the cache when the same bytes were compressed before."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    for suffix in (".br", ".gz"):
        kept = kept_copy(digest, suffix, quality)
        if kept is None:
            kept = CACHE / "compressed" / f"{digest}.{quality}{suffix}"
            staged = kept.with_suffix(f"{suffix}.{os.getpid()}")
            small = (
                brotli.compress(data, quality=quality, lgwin=24)
                if suffix == ".br"
                else gzip.compress(data, min(quality, 9), mtime=0)
            )
            staged.write_bytes(small)
            staged.replace(kept)
        if kept.stat().st_size < len(data):
            shutil.copyfile(kept, path.with_name(path.name + suffix))


def compress(out: Path, quality: int) -> None:
    """Writes precompressed copies of all files for which they are smaller; the largest first, on all cores."""
    (CACHE / "compressed").mkdir(parents=True, exist_ok=True)
    sizes = {
        path: path.stat().st_size for path in out.rglob("*") if path.is_file() and path.suffix not in INCOMPRESSIBLE
    }
    large = sorted((path for path in sizes if sizes[path] >= SMALLEST_COMPRESSED), key=lambda path: -sizes[path])
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(compressed_copies, large, [quality] * len(large)):
            pass


def model_tasks() -> dict[str, dict[str, str]]:
    """The page's task of each architecture, by `model_type` and by GGUF's name: for files that are dropped on it."""

    def task_of(module: str) -> str | None:
        return next((page for page, tasks in MODEL_TASKS.items() if set(tasks) & set(TASKS[module])), None)

    indexes = {"model_types": MODEL_TYPES, "gguf": GGUF_ARCHITECTURES}
    found = {
        index: {name: task for name, module in names.items() if (task := task_of(module))}
        for index, names in indexes.items()
    }
    found["model_types"]["whisper"] = "transcribe"  # a loader of its own, not in the index
    found["model_types"]["vision-encoder-decoder"] = "read"  # the page knows those that caption
    return found


def lessons(folder: Path) -> list[dict[str, Any]]:
    """The Lab's lessons: their files, and the title and the first sentence of their first cell. A folder with the name
    of a lesson has the files that its cells read.
    """
    found = []
    for path in sorted(folder.glob("*.py")):
        lines = [line.removeprefix("#").strip() for line in path.read_text().splitlines()]
        title = next(line for line in lines if line.startswith("# ")).removeprefix("# ")
        about = next(line for line in lines[lines.index(f"# {title}") + 1 :] if line).replace("`", "")
        files = sorted(file.relative_to(folder).as_posix() for file in (folder / path.stem).glob("*.*"))
        found.append({"file": path.name, "title": title, "about": about, "files": files})
    return found


def assemble(out: Path, plain_host: bool = False, quality: int = 11) -> None:
    """Writes the whole site into `out`, in place of what was there. Quality 0: without precompressed copies."""
    staged = out.with_name(f"{out.name}.new")
    shutil.rmtree(staged, ignore_errors=True)
    ours, numpy = wheels.build("wasm"), wheels.numpy()
    with ThreadPoolExecutor(1) as other:
        pool = other.submit(wheels.pool)  # meanwhile: byte code and bundles are made on one core
        archives = compiled_archives(ours, numpy, plain_host)
        copy_bundled(WEB, staged, NODE_MODULES)
    for path in pool.result():
        shutil.copyfile(path, staged / path.name)
    pyodide = staged / "pyodide"
    pyodide.mkdir()
    files = [NODE_MODULES / "pyodide" / name for name in PYODIDE_FILES]
    packages = list(map(wheels.pure, wheels.download("page")))
    for path in [*files, *packages]:
        shutil.copyfile(path, pyodide / script_name(path.name))
    # misaki's code is not for Python 3.14, but the page takes its dictionaries only.
    [words] = wheels.download("voices", "--ignore-requires-python")
    rest, dictionary = split_wheel(words, pyodide, {DICTIONARY: is_dictionary})
    rest.unlink()
    packages.append(dictionary)
    packages += split_wheel(archives[numpy.name], pyodide, {NUMPY_LATER: is_late_numpy})
    packages += split_wheel(archives[ours.name], pyodide, PYAPP_PARTS)
    _, library_later = split_library(archives[LIBRARY], pyodide, pyodide_version())
    lock = lock_file([*packages, library_later])
    # An import of one of these modules waits for the part that has it (pyapp/late_parts.py).
    lock["info"]["later"] = {
        name: " ".join(modules_in(pyodide / lock["packages"][name]["file_name"]))
        for name in (LIBRARY_LATER, PYAPP_LATER, NUMPY, NUMPY_LATER)
    }
    # A memory snapshot of Python remembers where modules lie in this archive: the page keeps one per archive.
    lock["info"]["stdlib_sha256"] = file_sha256(pyodide / LIBRARY)
    # For the progress of a first visit: the bytes that arrive, decompressed.
    lock["info"]["sizes"] = {path.name: path.stat().st_size for path in sorted(pyodide.iterdir())}
    (pyodide / LOCK_FILE).write_text(json.dumps(lock, indent=1) + "\n")
    for folder, patterns in LIBRARIES.items():
        (staged / folder).mkdir()
        for path in (path for pattern in patterns for path in sorted(NODE_MODULES.glob(pattern))):
            shutil.copyfile(path, staged / folder / script_name(path.name))
    registry = json.loads((ROOT / "pyapp" / "registry.json").read_text())
    del registry["names"]  # the page lists the models whose files are named
    (staged / "registry.json").write_text(json.dumps(registry, indent=2, ensure_ascii=False) + "\n")
    (staged / "model-tasks.json").write_text(json.dumps(model_tasks()) + "\n")
    (staged / "lessons" / "lessons.json").write_text(json.dumps(lessons(WEB / "lessons"), indent=1) + "\n")
    shutil.copyfile(ROOT / "third_party" / "README.md", staged / "THIRD-PARTY.md")
    (staged / "manifest.json").write_text(json.dumps(manifest(staged), indent=1) + "\n")
    if quality:
        compress(staged, quality)
    shutil.rmtree(out, ignore_errors=True)
    staged.rename(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Assemble the static site.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--plain-host", action="store_true", help="for hosts that do not send precompressed copies")
    parser.add_argument(
        "--quality",
        type=int,
        choices=range(12),
        default=11,
        help="of the precompressed copies: 11 takes a minute, 0: none",
    )
    arguments = parser.parse_args()
    if not WEB.is_dir() or not (NODE_MODULES / "pyodide").is_dir():
        sys.exit("node_modules is missing: run `make site`, which installs it first.")
    start = time.perf_counter()
    try:
        assemble(arguments.out.resolve(), arguments.plain_host, arguments.quality)
    except wheels.BuildFailed as error:
        sys.exit(f"{error}\nThe wheel for the page was not built.")
    listed = json.loads((arguments.out / "manifest.json").read_text())["files"]
    raw = sum(file["bytes"] for file in listed)
    on_the_wire = sum(
        min(p.stat().st_size for p in (arguments.out / (f["path"] + s) for s in ("", ".br")) if p.is_file())
        for f in listed
    )
    print(
        f"{arguments.out}: {len(listed)} files, {raw / 1e6:.1f} MB, {on_the_wire / 1e6:.1f} MB with brotli, "
        f"in {time.perf_counter() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
