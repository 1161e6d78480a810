"""The wheels, the source archive and the site contain the files that they should, and no others."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest

from pyapp import tasks
from scripts import wheels
from scripts.bundle import entries
from scripts.compile_python import without_private_notes
from scripts.serve import SiteServer

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- our wheels


@pytest.fixture(scope="module")
def host_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build("host", tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="module")
def wasm_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build("wasm", tmp_path_factory.mktemp("wasm"))


def test_the_host_wheel_fits_every_python_of_the_platform(host_wheel: Path) -> None:
    assert re.fullmatch(r"pyapp-[\d.]+-py3-none-(linux|macosx|win)\w+\.whl", host_wheel.name)
    with zipfile.ZipFile(host_wheel) as archive:
        native = {name.split("/_native/")[1] for name in archive.namelist() if "/_native/" in name}
        assert {name for name in native if not name.startswith("cuda/")} == {"libpyapp.so", "kernels.h"}
        cuda = {f"cuda/{path.name}" for path in (ROOT / "native" / "cuda").iterdir()}
        assert cuda | {"cuda/kernels.h", "cuda/slots.h"} <= native
        [wheel] = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        assert b"Root-Is-Purelib: false" in archive.read(wheel)
        embedded = {name.split("/embedded/")[1] for name in archive.namelist() if "/embedded/" in name}
        expected = {path.relative_to(ROOT / "web").as_posix() for path in load_hook().embedded_models(ROOT)}
        assert embedded == expected and "models/stories/model.bin" in embedded
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pyapp").rglob("*.py")}
        assert {name for name in archive.namelist() if name.endswith(".py")} == sources


def test_the_host_wheel_works_alone(host_wheel: Path, tmp_path: Path) -> None:
    """In a fresh process, far from the repository, from the wheel's files only."""
    with zipfile.ZipFile(host_wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = "import pyapp; print(pyapp.__file__); print((pyapp.ones((2, 3)) @ pyapp.ones((3, 1))).tolist())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    environment.pop("PYAPP_LIBRARY", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, answer = done.stdout.split("\n", 1)
    assert Path(place).is_relative_to(tmp_path)
    assert answer.strip() == "[[3.0], [3.0]]"


def test_the_wasm_wheel_holds_both_builds(wasm_wheel: Path) -> None:
    assert wasm_wheel.name.endswith("-py3-none-pyemscripten_2026_0_wasm32.whl")
    with zipfile.ZipFile(wasm_wheel) as archive:
        native = {Path(name).name: archive.read(name) for name in archive.namelist() if "/_native/" in name}
        modules = {name for name in archive.namelist() if name.endswith(".py")}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pyapp").rglob("*.py")}
    others = {name for name in sources if name.startswith(("pyapp/recipes/", "pyapp/serve/"))}
    assert others and modules == sources - others  # the page does not train the embedded models, and is not a server
    shaders = {path.name: path.read_bytes() for path in (ROOT / "native" / "webgpu").iterdir()}
    assert shaders and shaders == {name: data for name, data in native.items() if name.endswith(".wgsl")}
    libraries = {name: data for name, data in native.items() if name.endswith(".wasm")}
    assert set(libraries) == {"libpyapp_simd.wasm", "libpyapp_relaxed.wasm"}
    for name, data in libraries.items():
        assert data[:4] == b"\0asm", name
        assert len(data) <= 408_000, f"{name} has {len(data):,} bytes"


def test_another_pyodide_installs_the_wheel(wasm_wheel: Path, site: Path) -> None:
    """docs/javascript.md: in a Pyodide as npm has it micropip installs it; it trains, and writes as natively."""
    [micropip] = [wheel for wheel in wheels.download("page") if wheel.name.startswith("micropip")]
    story = [ROOT / "web/models/stories" / name for name in ("model.bin", "tokenizer.bin")]
    script = Path(__file__).with_name("install_in_pyodide.mjs")
    command = ["node", *map(str, [script, site, micropip, wheels.numpy(), wasm_wheel, *story])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Failed" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert found["instruction_set"] in ("simd128", "relaxed")
    assert found["losses"][-1] < 0.1 * found["losses"][0]
    assert found["eigen"] == [1, 1, 1]

    async def native() -> str:
        events = tasks.generate(None, "Once upon a time", {"temperature": 0, "max_new_tokens": 20})
        return "".join([event.text async for event in events if isinstance(event, tasks.Token)])

    assert found["text"] == asyncio.run(native())


def test_wheels_are_made_alike(wasm_wheel: Path, tmp_path: Path) -> None:
    assert wheels.build("wasm", tmp_path).read_bytes() == wasm_wheel.read_bytes()


def test_the_source_archive_can_build_a_wheel(tmp_path: Path) -> None:
    archive_path = tmp_path / wheels.backend().build_sdist(str(tmp_path))
    with tarfile.open(archive_path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        assert {"native/build.py", "native/kernels.h", "hatch_build.py", "pyapp/__init__.py", "LICENSE"} <= names
        assert not [name for name in names if "_native/" in name or "node_modules" in name or "__pycache__" in name]
        archive.extractall(tmp_path, filter="data")
    source = next(path for path in tmp_path.iterdir() if path.is_dir())
    (tmp_path / "built").mkdir()
    # The library is taken over if the archive has the very sources that it was built from (build.up_to_date).
    shutil.copytree(ROOT / "pyapp" / "_native", source / "pyapp" / "_native")
    wheel = tmp_path / "built" / wheels.backend(source).build_wheel(str(tmp_path / "built"))
    with zipfile.ZipFile(wheel) as archive:
        assert "pyapp/_native/libpyapp.so" in archive.namelist()


def load_hook() -> Any:
    """hatch_build.py as a module."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pyodide_build_gets_the_wasm_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyodide-build is recognised by the variable PYODIDE and by sysconfig's platform."""
    hook = load_hook()
    monkeypatch.delenv("PYAPP_TARGET", raising=False)
    monkeypatch.delenv("PYODIDE", raising=False)
    assert hook.target_and_platform()[0] == "host"
    monkeypatch.setenv("PYODIDE", "1")
    monkeypatch.setattr("sysconfig.get_platform", lambda: "emscripten-5.0.3-wasm32")
    assert hook.target_and_platform() == ("wasm", "emscripten_5_0_3_wasm32")


def test_windows_is_a_target_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make wheel-windows`: with the compiler of ziglang, for x86-64 alone."""
    monkeypatch.delenv("PYODIDE", raising=False)
    monkeypatch.setenv("PYAPP_TARGET", "windows")
    assert load_hook().target_and_platform() == ("windows", "win_amd64")


# -- the site


@pytest.fixture(scope="module")
def site() -> Path:
    if not (DIST / "manifest.json").is_file():
        pytest.skip("there is no dist/: run `make site`")
    return DIST


def test_the_manifest_lists_every_file_as_it_is(site: Path) -> None:
    listed = {file["path"]: file for file in json.loads((site / "manifest.json").read_text())["files"]}
    found = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    copies = {name for name in found if name.endswith((".br", ".gz"))}
    assert found - copies - {"manifest.json"} == set(listed)
    for name, file in listed.items():
        data = (site / name).read_bytes()
        assert (len(data), digest(data)) == (file["bytes"], file["sha256"]), name


def test_the_lock_file_has_the_hashes_of_its_packages(site: Path) -> None:
    lock = json.loads((site / "pyodide" / "pyodide-lock.json").read_text())
    names = "jinja2 markupsafe micropip numpy numpy-later pyapp pyapp-later pyapp-relaxed pyapp-simd python-later"
    assert set(lock["packages"]) == {*names.split(), "misaki-english", "pyapp-english"}
    for package in lock["packages"].values():
        assert digest((site / "pyodide" / package["file_name"]).read_bytes()) == package["sha256"]


def test_numpy_comes_in_two_parts(site: Path) -> None:
    packages = json.loads((site / "pyodide" / "pyodide-lock.json").read_text())["packages"]
    assert packages["numpy"]["depends"] == ["numpy-later"]
    first, later = (
        zipfile.ZipFile(site / "pyodide" / packages[name]["file_name"]) for name in ("numpy", "numpy-later")
    )
    with first, later:
        names, others = set(first.namelist()), set(later.namelist())
        listed = first.read(f"numpy-{packages['numpy']['version']}.dist-info/RECORD").decode().splitlines()
    assert {"numpy/__init__.pyc", "numpy/lib/__init__.pyc"} < names and not names & others
    assert {"numpy/linalg/__init__.pyc", "numpy/random/__init__.pyc", "numpy/fft/__init__.pyc"} < others
    wanted = {line.split(",")[0].replace(".py", ".pyc") if ".py," in line else line.split(",")[0] for line in listed}
    assert wanted <= names | others


def test_the_first_story_fetches_what_it_imports_and_no_more(site: Path) -> None:
    lock = json.loads((site / "pyodide" / "pyodide-lock.json").read_text())
    packages = lock["packages"]
    assert set(packages["pyapp"]["depends"]) == {"pyapp-relaxed", "pyapp-simd", "pyapp-later"}

    def members(package: str) -> set[str]:
        with zipfile.ZipFile(site / "pyodide" / packages[package]["file_name"]) as archive:
            return {name for name in archive.namelist() if not name.startswith(package.replace("-", "_") + "-")}

    first, later = members("pyapp"), members("pyapp-later")
    assert not first & later
    assert {"pyapp/tasks/__init__.pyc", "pyapp/models/llama2c.pyc", "pyapp/audio/transcribe.pyc"} < first
    assert {name.rpartition(".")[2] for name in first} <= {"pyc", "h", "signature"}
    elsewhere = "keras onnx lab train tasks/texts tasks/pictures vision formats/gguf text/gguf"
    for others in (*elsewhere.split(), "text/tokenization/sentencepiece", "text/tokenization/vocabulary_files"):
        assert not [name for name in first if name.startswith(f"pyapp/{others}")], others
        assert [name for name in later if name.startswith(f"pyapp/{others}")], others
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pyapp").rglob("*.py")}
    absent = {name for name in sources if name.startswith(("pyapp/recipes/", "pyapp/serve/"))}
    assert {name.removesuffix("c") for name in first | later if name.endswith((".py", ".pyc"))} == sources - absent
    assert members("pyapp-english") == {f"pyapp/text/english/{dialect}_letters.txt" for dialect in ("us", "gb")}
    assert {"misaki/data/us_gold.json", "misaki/data/gb_silver.json"} < members("misaki-english")
    for kernels in ("relaxed", "simd"):
        assert members(f"pyapp-{kernels}") == {f"pyapp/_native/libpyapp_{kernels}.wasm"}
    modules = {part: set(names.split()) for part, names in lock["info"]["later"].items()}
    assert {"unittest", "encodings.koi8_r"} < modules["python-later"] and "pyapp.keras" in modules["pyapp-later"]
    assert modules["numpy"] == {"numpy"} and {"numpy.fft", "numpy.linalg", "numpy.random"} < modules["numpy-later"]
    listed = set().union(*modules.values())
    assert not {"pyapp", "pyapp.browser", "json", "pyodide.ffi", "encodings.utf_8", "pyapp.keras.models"} & listed


def test_the_parts_of_the_library_join(site: Path, tmp_path: Path) -> None:
    """As the page does it: what zipfile reads from the joined archive is what the two parts have."""
    lock = json.loads((site / "pyodide" / "pyodide-lock.json").read_text())
    parts = [site / "pyodide" / "python_stdlib.zip", site / "pyodide" / lock["packages"]["python-later"]["file_name"]]
    script = (
        f"import {{ joined }} from {json.dumps(str(ROOT / 'web/modules/worker/unpack.js'))};"
        "import { readFileSync, writeFileSync } from 'node:fs';"
        f"const [first, later] = {json.dumps([str(path) for path in parts])}.map((path) => readFileSync(path));"
        f"writeFileSync({json.dumps(str(tmp_path / 'joined.zip'))}, joined(first, later));"
    )
    (tmp_path / "join.mjs").write_text(script)
    subprocess.run(["node", str(tmp_path / "join.mjs")], check=True, timeout=60, stdin=subprocess.DEVNULL)
    expected: dict[str, int] = {}
    for path in parts:
        with zipfile.ZipFile(path) as archive:
            expected |= {member.filename: member.CRC for member in archive.infolist()}
    with zipfile.ZipFile(tmp_path / "joined.zip") as archive:
        assert {member.filename: member.CRC for member in archive.infolist()} == expected
        assert archive.testzip() is None


def test_private_functions_are_compiled_without_notes() -> None:
    """The Lab shows docstrings and type hints of the others; lines of errors stay, and a body that was a docstring."""
    source = b'''"""Module."""
def _private(x: int, *more: int, y: int = 2, **rest: int) -> int:
    """Private."""
    return 1 // x + y
def public(x: int) -> int:
    """Public."""
    return _private(x)
class Made:
    """Class."""
    def __init__(self, x: int) -> None:
        """Begin."""
    def _nothing(self) -> None:
        """Nothing."""
'''
    code, names = compile(without_private_notes(source), "module.py", "exec", dont_inherit=True), {}
    exec(code, names)
    private, public, made = names["_private"], names["public"], names["Made"]
    assert (names["__doc__"], private.__doc__, private.__annotations__) == ("Module.", None, {})
    assert (public.__doc__, public.__annotations__) == ("Public.", {"x": int, "return": int})
    assert (made.__doc__, made.__init__.__doc__, made._nothing.__doc__) == ("Class.", "Begin.", None)
    assert "x" in made.__init__.__annotations__ and made(1)._nothing() is None and public(1) == 3
    with pytest.raises(ZeroDivisionError) as failed:
        public(0)
    assert [entry.lineno for entry in failed.traceback[-2:]] == [6, 3]  # from 0


# Bytes of a first visit to a story, compressed; a bound, a few percent above today's. At the quality of a quick build a
# change of a few bytes can add or take 12 kB; from 10 on, the number follows what is in the file.
FIRST_PARTS = {"pyapp": 907_000, "python_stdlib.zip": 1_125_000, "pyapp-relaxed": 118_000, "worker.js": 18_000}
FIRST_QUALITY = 10


def test_the_first_parts_stay_small(site: Path) -> None:
    """What is imported at the start is fetched before the first word: see pyapp.browser.import_tasks."""
    packages = json.loads((site / "pyodide" / "pyodide-lock.json").read_text())["packages"]
    sizes = {}
    for name in FIRST_PARTS:
        places = {"python_stdlib.zip": "pyodide/python_stdlib.zip", "worker.js": "worker.js"}
        path = site / (places.get(name) or f"pyodide/{packages[name]['file_name']}")
        sizes[name] = len(brotli.compress(path.read_bytes(), quality=FIRST_QUALITY, lgwin=24))
    too_large = {name: size for name, size in sizes.items() if size > FIRST_PARTS[name]}
    assert not too_large, f"larger than {FIRST_PARTS}"


def test_precompressed_copies_hold_the_same_bytes(site: Path) -> None:
    copies = 0
    for path in site.rglob("*"):
        if path.suffix == ".br":
            assert brotli.decompress(path.read_bytes()) == path.with_suffix("").read_bytes(), path
            copies += 1
        elif path.suffix == ".gz":
            assert gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes(), path
    assert (site / "pyodide" / "pyodide.asm.wasm.br").is_file() and copies > 10


def test_nothing_is_fetched_from_another_origin(site: Path) -> None:
    """Our own files contain no addresses of other sites, except links and the hub of models."""
    allowed = re.compile(r"https?://(huggingface\.co|www\.w3\.org|localhost)")
    address = re.compile(r"""(?:src|href)=["'](https?:[^"']+)|(?:fetch|import|importScripts)\(["'`](https?:[^"'`]+)""")
    for path in site.rglob("*"):
        assert path.suffix != ".mjs", "many hosts send it with a type that browsers do not run"
        if path.suffix in {".js", ".html", ".css"} and path.parent.name != "pyodide":
            text = path.read_text()
            foreign = [match.group(0) for match in address.finditer(text) if not allowed.search(match.group(0))]
            assert not foreign, f"{path.relative_to(site)}: {foreign}"


def test_the_pinned_numpy_wheel_is_the_pinned_one() -> None:
    assert wheels.numpy().name == "numpy-2.4.6-cp314-cp314-pyemscripten_2026_0_wasm32.whl"


def test_a_changed_numpy_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = wheels.numpy()
    (tmp_path / "SHA256SUMS").write_text((wheels.NUMPY / "SHA256SUMS").read_text())
    (tmp_path / original.name).write_bytes(original.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(wheels, "NUMPY", tmp_path)
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="SHA-256"):
        wheels.numpy()


# -- the local server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SiteServer]:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (site / "index.html").write_text("<p>page")
    (site / "code.mjs").write_text("export const one = 1;\n")
    (site / "code.mjs.br").write_bytes(b"brotli copy")
    (site / "code.mjs.gz").write_bytes(b"gzip copy")
    (site / "data.bin").write_bytes(bytes(range(100)))
    with SiteServer(site, prefix="/deep/path", isolated=True) as running:
        yield running


def get(server: SiteServer, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(server.origin + path, headers=fields)) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_server_serves_under_a_path(server: SiteServer) -> None:
    assert get(server, "/deep/path/")[2] == b"<p>page"
    assert get(server, "/deep/path")[2] == b"<p>page"  # after a redirect
    assert get(server, "/index.html")[0] == 404
    assert get(server, "/deep/path/absent")[0] == 404
    assert server.requests[0] == "/deep/path/"


def test_server_stays_in_its_folder(server: SiteServer) -> None:
    for path in ("/deep/path/../secret.txt", "/deep/path/%2e%2e/secret.txt", "/deep/path//../../secret.txt"):
        assert get(server, path)[0] == 404


def test_server_negotiates_the_encoding(server: SiteServer) -> None:
    status, headers, body = get(server, "/deep/path/code.mjs", Accept_Encoding="gzip, deflate, br")
    assert (status, headers["Content-Encoding"], body) == (200, "br", b"brotli copy")
    assert headers["Content-Type"].startswith("text/javascript") and headers["Vary"] == "Accept-Encoding"
    assert get(server, "/deep/path/code.mjs", Accept_Encoding="gzip")[2] == b"gzip copy"
    assert get(server, "/deep/path/code.mjs")[2].startswith(b"export")


def test_server_says_nothing_of_browsers_that_leave(server: SiteServer, capfd: pytest.CaptureFixture[str]) -> None:
    handled = threading.Event()
    server.shutdown_request = lambda request: handled.set()  # type: ignore[method-assign, assignment]
    with socket.create_connection(("localhost", server.server_address[1])) as connection:
        connection.sendall(b"GET /deep/path/data.bin HTTP/1.1\r\nHost: x\r\n\r\n")
        # Closing at once with unread data resets the connection.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.recv(1)
    assert handled.wait(10)
    assert capfd.readouterr().err == ""


def test_server_isolates(server: SiteServer) -> None:
    headers = get(server, "/deep/path/")[1]
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_server_answers_ranges_and_tags(server: SiteServer) -> None:
    status, headers, body = get(server, "/deep/path/data.bin", Range="bytes=10-19")
    assert (status, body, headers["Content-Range"]) == (206, bytes(range(10, 20)), "bytes 10-19/100")
    assert get(server, "/deep/path/data.bin", Range="bytes=95-")[2] == bytes(range(95, 100))
    assert get(server, "/deep/path/data.bin", Range="bytes=-5")[2] == bytes(range(95, 100))
    assert get(server, "/deep/path/data.bin", Range="bytes=100-")[0] == 416
    tag = headers["ETag"]
    assert get(server, "/deep/path/data.bin", If_None_Match=tag)[0] == 304
    assert get(server, "/deep/path/data.bin", Range="bytes=10-19", If_Range='"other"')[0] == 200


def test_what_the_page_loads_by_its_address_is_bundled(tmp_path: Path) -> None:
    """What pages start with, scripts, styles and workers that they fetch; not other projects' libraries."""
    files = {
        "index.html": '<script src="boot.js"></script><link rel="icon" href="icon.svg"><link href="css/page.css">',
        "boot.js": 'new Worker("nothing.js")',
        "modules/page/views.js": 'importPart("modules/views/new-view.js"); loadStyle("css/new.css")',
        "modules/views/new-view.js": 'importPart("pdfjs/pdf.min.js")',
        "modules/worker/python.js": 'import(siteUrl("modules/worker/card.js")); `${siteUrl("lab-worker.js")}?hosts=`',
        "modules/audio/microphone.js": 'addModule(siteUrl("modules/audio/capture-worklet.js"))',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert entries(tmp_path) == [
        "boot.js", "css/new.css", "css/page.css", "lab-worker.js", "modules/views/new-view.js",
        "modules/worker/card.js",
    ]  # fmt: skip
    assert all((ROOT / "web" / name).is_file() for name in entries(ROOT / "web"))


def test_the_extras_that_messages_name_are_those_of_the_package() -> None:
    """They are named as who has a wheel installs them: '.[audio]' works in a checkout only."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for path in (ROOT / "pyapp").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named = {name for group in re.findall(r"pyapp\[([\w,]+)\]", text) for name in group.split(",")}
        assert named <= extras, f"{path}: {named - extras}"
        assert not re.search(r"pip install '?\.", text), path
