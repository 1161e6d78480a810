"""Names of models, and downloads from a hub that interrupts, stalls, sends wrong data and refuses."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import json
import os
import random
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from pyapp import hub
from pyapp.errors import Cancelled, DownloadError, ModelNotFoundError, PyappError, StorageFullError
from pyapp.events import Cancel, Event, Notice, Progress
from pyapp.hub import download, http
from tests import hub_server as server

pytestmark = pytest.mark.native_only
pytest.importorskip("huggingface_hub")

WEIGHTS = random.Random(0).randbytes(3 << 20)
TEXT = b'{"model": {"type": "BPE"}}' * 100
REPO = "someone/tiny"


Fault = server.Fault


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A local hub, an empty cache, and no waiting between attempts."""
    files = {REPO: {"model.bin": WEIGHTS, "tokenizer.json": TEXT, "README.md": b"# hello\n", "other/tok1.bin": b"x"}}
    running = server.Hub(files)
    running.start()
    running.use(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(http, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    yield running
    running.stop()


def partials(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").rglob("*.incomplete"))


# -- the registry


def test_the_registry_is_what_the_page_expects() -> None:
    data = json.loads((Path(hub.__file__).parents[1] / "registry.json").read_text(encoding="utf-8"))
    assert set(data) == {"models", "networks", "names"}
    assert hub.networks() == data["networks"] and set(data["networks"]) == {"silero", "speakers"}
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", name) for name in data["networks"].values())
    seen = set()
    for model in data["models"]:
        assert model["kind"] in ("embedded", "hub") and model["id"] not in seen
        seen.add(model["id"])
        roles = [file["role"] for file in model["files"]]
        assert len(set(roles)) == len(roles) and "model" in roles
        assert model["task"] in ("generate", "chat", "transcribe", "embed", "read")
        alone = model["files"][0]["path"].endswith(".gguf") or model["files"][0]["path"].startswith("ggml-")
        assert roles == ["model"] if alone else ("config" if model["task"] == "read" else "tokenizer") in roles
        if model["task"] == "transcribe" and not alone:
            assert {"config", "generation_config", "preprocessor_config"} <= set(roles)
        if model["kind"] == "hub":
            assert model["precision"].startswith("float") != alone
        for file in model["files"]:
            assert file["size"] is None or file["size"] > 0
            assert file["sha256"] is None or len(file["sha256"]) == 64
            if model["kind"] == "hub":
                assert "/" in file.get("repo", model["repo"])
                revision = file.get("revision", model["revision"])
                # a commit, so that it never changes; what may change has no known size, or a checksum too
                assert len(revision) == 40 or (revision == "main" and (file["size"] is None or file["sha256"]))
    assert data["models"][0]["kind"] == "embedded"


def test_sizes_of_the_registry_are_those_of_the_format() -> None:
    """stories*.bin are version 0 files, whose length follows from their configuration."""
    from pyapp.formats.llama2c import FIELDS, Header, layout

    shapes = {
        "stories260K": (64, 172, 5, 8, 4, 512, 512),
        "stories15M": (288, 768, 6, 6, 6, 32000, 256),
        "stories42M": (512, 1376, 8, 8, 8, 32000, 1024),
        "stories110M": (768, 2048, 12, 12, 12, 32000, 1024),
    }
    for entry in hub.models():
        if entry.id in shapes:
            model = entry.file("model")
            config = dict(zip(FIELDS, shapes[entry.id], strict=True))
            assert model is not None and model.size == layout(Header(0, config, True, 0, 28))[1]


def test_short_names_of_repositories(remote: Any) -> None:
    """Their files are those that the hub lists; the page does not know them."""
    data = json.loads((Path(hub.__file__).parents[1] / "registry.json").read_text(encoding="utf-8"))
    ids = [entry["id"] for entry in (*data["models"], *data["names"])]
    assert len({*ids}) == len(ids)
    for item in data["names"]:
        assert set(item) == {"id", "title", "description", "task", "license", "repo"}
        assert item["task"] in ("generate", "chat", "transcribe") and re.fullmatch(r"[\w.-]+/[\w.-]+", item["repo"])
        entry = hub.find_entry(item["id"])
        told = {name: value for name, value in item.items() if name != "repo"}
        assert entry and entry.to_dict() == told | {"kind": "hub", "bytes": None, "source": item["repo"]}
    entry = hub.find_entry("mamba-130m")
    assert entry
    repo = entry.repo
    remote.files[repo] = {"model.safetensors": b"weights", "config.json": b"{}"}
    for name in ("mamba-130m", repo):
        found = hub.resolve(name)
        assert found.entry and found.entry.id == "mamba-130m" and found.model.read_bytes() == b"weights"
        assert set(found.files) == {"model", "config"}


def test_models_as_json() -> None:
    listed = [entry.to_dict() for entry in hub.models()]
    assert json.loads(json.dumps(listed)) == listed
    by_id = {entry["id"]: entry for entry in listed}
    assert by_id["stories15M"]["bytes"] == 60_816_028 + 1_842_767
    assert by_id["stories15M"]["source"] == "karpathy/tinyllamas:stories15M.bin"
    assert by_id["stories"]["source"] is None


# -- names


def test_a_file_and_its_tokenizer(tmp_path: Path) -> None:
    model = tmp_path / "m.bin"
    model.touch()
    assert hub.resolve(str(model)).tokenizer is None
    for name in ("tok512.bin", "tokenizer.bin", "tokenizer.json", "m.tokenizer.bin", "m.tokenizer.json"):
        (tmp_path / name).touch()
        found = hub.resolve(model)
        assert (found.model, found.tokenizer) == (model, tmp_path / name)  # the later, the closer


def test_two_possible_tokenizers_are_none(tmp_path: Path) -> None:
    for name in ("m.bin", "tok512.bin", "tok4096.bin"):
        (tmp_path / name).touch()
    assert hub.resolve(tmp_path / "m.bin").tokenizer is None


def test_a_folder(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "training_args.bin", "tokenizer.bin", "README.md"):
        (tmp_path / name).touch()
    with pytest.raises(ModelNotFoundError, match=r"no file of weights \(.safetensors, .gguf, .bin, .pt, .pth, .ckpt\)"):
        hub.resolve(str(tmp_path))
    (tmp_path / "a.bin").touch()
    assert hub.resolve(str(tmp_path)).model == tmp_path / "a.bin"
    (tmp_path / "b.safetensors").touch()
    with pytest.raises(ModelNotFoundError, match=r"several models: a.bin, b.safetensors\. Name one"):
        hub.resolve(str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    found = hub.resolve(str(tmp_path))
    assert (found.model.name, found.tokenizer) == ("model.safetensors", tmp_path / "tokenizer.json")


def test_real_files(tmp_path: Path) -> None:
    shared = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not (shared / "stories260K.bin").is_file():
        pytest.skip("the public files are not here")
    found = hub.resolve(shared / "stories260K.bin")
    assert found.tokenizer == shared / "tok512.bin"


def test_names_of_the_registry_come_before_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stories260K").touch()
    assert hub.resolve("./stories260K").model == Path("stories260K")
    with pytest.raises(ModelNotFoundError, match="does not exist, or is private"):
        hub.resolve("stories260K")  # asks the hub, which knows nothing here


@pytest.mark.parametrize(
    "name,message",
    [
        (
            "storys15M",
            r"no model has this name\. Did you mean stories15M\? `pyapp models` lists the names",
        ),
        ("no/such/file.bin", "no such file or folder. Give a file, a folder or owner/repo:file"),
        ("./absent", "no such file or folder"),
        ("", "no model has this name"),
        ("a/b:c:d", "no model has this name|no such file"),
        ("model.bin", "no such file or folder"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(ModelNotFoundError, match=message):
        hub.resolve(name)


def test_the_embedded_model_or_its_absence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pyapp.hub import registry

    monkeypatch.setattr(registry, "PACKAGE", tmp_path / "pyapp")
    with pytest.raises(ModelNotFoundError, match="embedded model is not installed"):
        hub.resolve("stories")
    entry = hub.models()[0]
    for file in entry.files:
        place = tmp_path / "web" / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"12345")
    found = hub.resolve("stories")
    assert found.entry is entry and found.model.is_file() and found.tokenizer and entry.to_dict()["bytes"] > 0


# -- downloads


def test_a_model_of_the_hub(remote: Any, tmp_path: Path) -> None:
    found = hub.resolve(f"{REPO}:model.bin")
    assert found.model.read_bytes() == WEIGHTS
    assert found.tokenizer is not None and found.tokenizer.read_bytes() == TEXT
    assert hub.resolve(REPO).model == found.model  # one file of weights: no need to name it
    assert len(remote.downloads()) == 1  # the tokenizer is small: no redirection
    assert not partials(tmp_path)


def test_the_cache_is_huggingface_hubs(remote: Any, tmp_path: Path) -> None:
    from huggingface_hub import scan_cache_dir, try_to_load_from_cache

    path = hub.fetch(REPO, "model.bin")
    assert try_to_load_from_cache(REPO, "model.bin", cache_dir=tmp_path / "cache") == str(path)
    info = scan_cache_dir(tmp_path / "cache")
    assert [(repo.repo_id, repo.size_on_disk) for repo in info.repos] == [(REPO, len(WEIGHTS))]
    (revision,) = next(iter(info.repos)).revisions
    assert (revision.commit_hash, revision.refs) == (server.COMMIT, frozenset({"main"}))
    assert not info.warnings
    # conversely, files that the library has cached are not fetched again
    from huggingface_hub import hf_hub_download

    theirs = hf_hub_download(REPO, "README.md", cache_dir=tmp_path / "cache", endpoint=remote.address)
    before = len(remote.log)
    assert hub.fetch(REPO, "README.md", server.COMMIT) == Path(theirs)
    assert len(remote.log) == before


def test_a_folder_in_place_of_the_cache(remote: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    models = [hub.resolve(hub.NameIn(REPO, folder)).model for _ in range(2)]
    assert models[0].is_relative_to(folder) and models[1].read_bytes() == WEIGHTS and len(remote.downloads()) == 1
    (folder / "small").mkdir()
    for name, file in (("tiny", "tiny.pt"), ("small", "small/model.safetensors")):
        (folder / file).touch()
        assert hub.resolve(hub.NameIn(name, folder)).model == folder / file


def test_progress_in_bytes(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REPORT_EVERY", 0.0)
    events: list[Event] = []
    hub.fetch(REPO, "model.bin", report=events.append)
    assert all(isinstance(event, Progress) and event.unit == "bytes" for event in events)
    steps = [(event.done, event.total) for event in events if isinstance(event, Progress)]
    assert steps[0] == (0, len(WEIGHTS)) and steps[-1] == (len(WEIGHTS), len(WEIGHTS))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps) and len(steps) > 5


def test_an_interrupted_download_goes_on_where_it_was(remote: Any, tmp_path: Path) -> None:
    remote.faults = [Fault("cut", 1_000_000), Fault("cut", 500_000), Fault("status", status=503)]
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS
    starts = [request.start for request in remote.downloads()]
    assert starts[0] == 0 and starts == sorted(starts) and len(starts) == 4
    assert 0 < starts[1] <= 1_000_000 and starts[2] == starts[3] > starts[1]


def test_a_download_that_stays_broken_is_kept_and_continued_later(remote: Any, tmp_path: Path) -> None:
    remote.faults = [Fault("cut", 1_000_000)] + [Fault("status", status=502)] * 20
    with pytest.raises(
        DownloadError, match=r"broke off at [\d,]+ of 3,145,728 bytes.*502.*The downloaded part is stored"
    ):
        hub.fetch(REPO, "model.bin")
    (partial,) = partials(tmp_path)
    kept = partial.stat().st_size
    assert 0 < kept <= 1_000_000 and partial.read_bytes() == WEIGHTS[:kept]
    remote.faults.clear()
    remote.log.clear()
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS
    assert [request.start for request in remote.downloads()] == [kept]
    assert not partials(tmp_path)


def test_a_busy_hub_is_asked_again_when_it_says_so(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata, lists and downloads: after Retry-After (seconds or a date) or the hub's RateLimit; never a minute."""
    waits: list[float] = []
    monkeypatch.setattr(http, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(http, "pause", lambda seconds, cancel: waits.append(round(seconds, 1)))
    monkeypatch.setattr(download, "pause", http.pause)
    told: list[Event] = []
    later = formatdate(time.time() + 30, usegmt=True)
    busy = [{"Retry-After": "7"}, {"RateLimit": '"api";r=0;t=55'}, {"Retry-After": later}, {"Retry-After": "soon"}]
    remote.busy = [Fault("status", status=429, headers=headers) for headers in busy]
    remote.faults = [Fault("status", status=429, headers={"Retry-After": "9"}), Fault("status", status=503)]
    assert hub.fetch(REPO, "model.bin", report=told.append).read_bytes() == WEIGHTS
    assert waits[:2] == [7, 55] and 25 < waits[2] <= 30 and waits[3:] == [4, 9, 1]
    assert [event.what for event in told if isinstance(event, Notice)][0].endswith("asked again in 7 seconds")
    remote.busy = [Fault("status", status=503)]
    assert "model.bin" in download.list_files(REPO) and waits[6:] == [0.5]
    for many, path in (([Fault("status", status=429)] * 9, "tokenizer.json"),
                       ([Fault("status", status=429, headers={"Retry-After": "3600"})], "tokenizer.json")):  # fmt: skip
        remote.busy, before = list(many), len(waits)
        with pytest.raises(DownloadError, match="asked too often"):
            hub.fetch(REPO, path)
        assert len(waits) - before == min(4, len(many) - 1)
    remote.busy = [Fault("status", status=429)]  # what is in the cache is taken at once
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS and len(waits) == before
    remote.busy, remote.faults = [], [Fault("status", status=429, headers={"Retry-After": "3600"})]
    remote.files[REPO]["other.bin"] = WEIGHTS[::-1]
    with pytest.raises(DownloadError, match="start it again after 3,600 seconds"):
        hub.fetch(REPO, "other.bin")


def test_a_server_that_ignores_ranges(remote: Any) -> None:
    remote.faults = [Fault("cut", 1_000_000), Fault("no range")]
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS


@pytest.mark.parametrize("junk", [b"junk", b"x" * len(WEIGHTS), b"y" * (len(WEIGHTS) + 5)])
def test_a_damaged_beginning_heals(remote: Any, tmp_path: Path, junk: bytes) -> None:
    import hashlib

    blobs = tmp_path / "cache" / "models--someone--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(WEIGHTS).hexdigest()}.pyapp.incomplete").write_bytes(junk)
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS


def test_cancelling_keeps_what_has_arrived(remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REPORT_EVERY", 0.0)
    remote.faults = [Fault("stall", 1_000_000)]
    cancel = Cancel()
    seen = threading.Event()

    def report(event: Event) -> None:
        if isinstance(event, Progress) and event.done > 0:
            seen.set()

    moments: list[float] = []

    def stop() -> None:
        seen.wait(10)
        moments.append(time.perf_counter())
        cancel.set()

    threading.Thread(target=stop).start()
    with pytest.raises(Cancelled):
        hub.fetch(REPO, "model.bin", report=report, cancel=cancel)
    assert time.perf_counter() - moments[0] < 1.0  # though the server says nothing
    remote.release.set()
    (partial,) = partials(tmp_path)
    assert partial.stat().st_size > 0
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS
    assert remote.downloads()[-1].start > 0


def test_cancelled_before_it_begins(remote: Any) -> None:
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        hub.resolve(REPO, cancel=cancel)


def test_two_at_once_download_once(remote: Any) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(hub.fetch(REPO, "model.bin"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(found)) == 1 and len(found) == 3 and len(remote.downloads()) == 1


# -- what must not be believed


@pytest.mark.parametrize("kind", ["flip", "more", "less"])
def test_wrong_content_is_never_kept(remote: Any, tmp_path: Path, kind: str) -> None:
    remote.faults = [Fault(kind)] * 20
    message = {"flip": "arrived damaged: its checksum", "more": "more than the 3,145,728 bytes", "less": "broke off"}
    with pytest.raises(DownloadError, match=message[kind]):
        hub.fetch(REPO, "model.bin")
    assert not (tmp_path / "cache" / "models--someone--tiny" / "snapshots").exists()
    remote.faults.clear()
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS


def test_small_files_are_verified_too(remote: Any) -> None:
    remote.faults = [Fault("flip")]
    with pytest.raises(DownloadError, match="arrived damaged"):
        hub.fetch(REPO, "tokenizer.json")


def test_the_registrys_size_and_checksum_count(remote: Any) -> None:
    with pytest.raises(DownloadError, match="3,145,728 bytes on the hub, expected 5"):
        hub.fetch(REPO, "model.bin", size=5)
    with pytest.raises(DownloadError, match="arrived damaged"):
        hub.fetch(REPO, "model.bin", sha256="0" * 64)


def test_a_hub_with_wrong_sizes(remote: Any) -> None:
    remote.wrong_size = 100
    with pytest.raises(DownloadError, match="broke off at 3,145,728 of 3,145,828 bytes"):
        hub.fetch(REPO, "model.bin")


def test_a_damaged_cache_heals(remote: Any) -> None:
    path = hub.fetch(REPO, "model.bin", server.COMMIT, size=len(WEIGHTS))
    path.resolve().write_bytes(b"cut")
    again = hub.fetch(REPO, "model.bin", server.COMMIT, size=len(WEIGHTS))
    assert again == path and again.read_bytes() == WEIGHTS


def test_a_cut_file_in_the_cache_heals(remote: Any) -> None:
    """The hub says how long the file is, where the registry does not."""
    for name, data in (("model.bin", WEIGHTS), ("tokenizer.json", TEXT)):
        blob = hub.fetch(REPO, name).resolve()
        blob.write_bytes(data[:7])
        assert hub.fetch(REPO, name).read_bytes() == data
    cut = hub.fetch(REPO, "model.bin", server.COMMIT)
    cut.resolve().write_bytes(b"cut")  # of a commit nobody asks the hub
    assert hub.fetch(REPO, "model.bin", server.COMMIT) == cut


def test_redirects_without_an_end(remote: Any) -> None:
    remote.answers["/storage/"] = (302, {"Location": f"http://localhost:{remote.port}/storage/x/model.bin"}, [])
    with pytest.raises(DownloadError, match="the server redirects again and again. Check HF_ENDPOINT"):
        hub.fetch(REPO, "model.bin")


def test_a_web_server_that_is_no_hub(remote: Any) -> None:
    remote.plain = True
    with pytest.raises(DownloadError, match="does not answer like a Hugging Face hub.*HF_ENDPOINT"):
        hub.fetch(REPO, "tokenizer.json")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a//b", "..", "a/./b", "a\\b"])
def test_paths_out_of_the_repository(path: str, remote: Any) -> None:
    with pytest.raises(ModelNotFoundError, match="not the path of a file"):
        hub.fetch(REPO, path)
    assert not remote.log


def test_files_that_are_not_the_caches_stay(remote: Any, tmp_path: Path) -> None:
    """A link of the cache may lead to a file of the user's, which is neither deleted nor written to."""
    own = tmp_path / "own.bin"
    own.write_bytes(b"precious")
    place = hub.fetch(REPO, "model.bin")
    blob = place.resolve()
    place.unlink()
    place.symlink_to(own)
    assert hub.fetch(REPO, "model.bin", server.COMMIT, size=len(WEIGHTS)).read_bytes() == WEIGHTS
    blob.unlink()
    blob.with_name(f"{blob.name}.pyapp.incomplete").symlink_to(own)
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS and own.read_bytes() == b"precious"
    remote.faults = [Fault("status", status=404)]
    with pytest.raises((DownloadError, ModelNotFoundError)):
        hub.download_url_to_file(f"{remote.address}/{REPO}/resolve/main/absent.bin", own)
    assert own.read_bytes() == b"precious"


@pytest.mark.parametrize("ref", [b"\xff\xfe", b"", b"../../..", b"x" * 5000, b"a\0b"])
def test_damaged_refs(remote: Any, tmp_path: Path, ref: bytes) -> None:
    place = hub.fetch(REPO, "README.md")
    noted = tmp_path / "cache" / f"models--{REPO.replace('/', '--')}" / "refs" / "main"
    noted.write_bytes(ref)
    for work in (hub.fetch, lambda *_, **more: download.list_files(REPO, **more)):
        with pytest.raises(DownloadError, match="is in the cache|is not in the cache"):
            work(REPO, "README.md", offline=True)
    assert hub.fetch(REPO, "README.md") == place and noted.read_bytes() == server.COMMIT.encode()


@pytest.mark.parametrize("part", ["blob", "partial", "place"])
def test_folders_where_the_cache_has_files(remote: Any, part: str) -> None:
    place = hub.fetch(REPO, "model.bin")
    blob = place.resolve()
    taken = {"blob": blob, "partial": blob.with_name(f"{blob.name}.pyapp.incomplete"), "place": place}[part]
    place.unlink()
    blob.unlink()
    taken.mkdir()
    with pytest.raises(DownloadError, match="the cache cannot be written to .* Set HF_HUB_CACHE"):
        hub.fetch(REPO, "model.bin")


def test_names_that_are_no_paths_below_a_folder() -> None:
    both = ("a/b.bin", "ä/ü.json", "n" * 255, "console", "a.b.c")
    wrong = (
        "",
        "/a",
        "a//b",
        "../a",
        "a/..",
        "a\\b",
        "C:a",
        "a\0b",
        "\ud800",
        "n" * 256,
        "ü" * 128,
        "a/" * 600 + "a",
        "\x1b[2J",
    )
    for windows in (False, True):
        assert all(download.is_path(name, windows) for name in both)
        assert not any(download.is_path(name, windows) for name in wrong)
    for name in ("CON", "a/nul.txt", "com1.bin", "ab:c", "a.bin:hidden", "a?", "end.", "end "):
        assert download.is_path(name, windows=False) and not download.is_path(name, windows=True)


# -- refusals and no network


def test_what_does_not_exist(remote: Any) -> None:
    for name, message in (
        ("someone/else:model.bin", r"does not exist, or is private.*hf auth login"),
        (f"{REPO}:modle.bin", "no file 'modle.bin'; it has model.bin. Did you mean model.bin?"),
        (f"{REPO}@v9:model.bin", "no revision 'v9'"),
        (f"{REPO}@../../v9:model.bin", "'../../v9' is not the name of a revision"),
    ):
        with pytest.raises(ModelNotFoundError) as caught:
            hub.resolve(name)
        assert re.search(message, str(caught.value)), str(caught.value)
    with pytest.raises(ModelNotFoundError, match="no file 'absent.bin'"):
        hub.fetch(REPO, "absent.bin")


def test_tokens(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.token = "hf_secret"
    with pytest.raises((DownloadError, ModelNotFoundError), match="HF_TOKEN"):
        hub.fetch(REPO, "model.bin")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS
    assert [request.authorization for request in remote.downloads()] == [None]  # another origin never sees it


def test_tokens_stay_with_the_hub(remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another server gets the token, nor the same one without encryption."""
    import httpx2

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.download_url_to_file(f"{remote.address}/{REPO}/resolve/main/model.bin", tmp_path / "own.bin")
    assert (tmp_path / "own.bin").read_bytes() == WEIGHTS  # its size is not that of the redirect's answer
    assert {request.authorization for request in remote.log} == {None}
    sent = []

    def answer(request: Any) -> Any:
        sent.append((request.url.scheme, request.headers.get("Authorization")))
        return httpx2.Response(302, headers={"Location": str(request.url.copy_with(scheme="http"))})

    monkeypatch.setattr("huggingface_hub.get_session", lambda: httpx2.Client(transport=httpx2.MockTransport(answer)))
    assert http.ask_head("https://hub.example/model.bin", 1).is_redirect
    assert sent == [("https", "Bearer hf_secret")]


def test_gated_repositories(remote: Any) -> None:
    remote.gated.add(REPO)
    with pytest.raises(DownloadError, match="people who accepted its conditions.*Accept its conditions at"):
        hub.fetch(REPO, "model.bin")


def test_no_network(monkeypatch: pytest.MonkeyPatch, remote: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    for action in (lambda: hub.fetch(REPO, "model.bin"), lambda: hub.resolve(REPO), lambda: hub.resolve("stories15M")):
        with pytest.raises(DownloadError) as caught:
            action()
        for word in ("cannot be reached", f"127.0.0.1:{port}", "HTTPS_PROXY", "HF_ENDPOINT", "give its path"):
            assert word in str(caught.value)
        assert "Errno" not in str(caught.value)


def test_the_cache_serves_without_the_network(remote: Any) -> None:
    first = hub.resolve(f"{REPO}:model.bin")
    remote.stop()
    remote._server.server_close()
    assert hub.resolve(f"{REPO}:model.bin") == first
    assert hub.resolve(f"{REPO}:model.bin", offline=True) == first
    assert hub.fetch(REPO, "model.bin", server.COMMIT) == first.model
    with pytest.raises(DownloadError, match="README.md is not in the cache"):
        hub.fetch(REPO, "README.md", offline=True)
    remote.start()


def test_offline_mode(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: True)
    monkeypatch.setattr("huggingface_hub.is_offline_mode", lambda: True, raising=False)
    with pytest.raises(DownloadError, match="not in the cache, and offline mode is on.*HF_HUB_OFFLINE"):
        hub.fetch(REPO, "model.bin")
    assert not remote.log


def test_a_full_disk(remote: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(StorageFullError, match="3,145,728 bytes are needed.*HF_HUB_CACHE"):
        hub.fetch(REPO, "model.bin")


def test_a_disk_that_fills_up_on_the_way(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(http.os, "replace", fail)
    with pytest.raises(StorageFullError, match="the disk is full.*HF_HUB_CACHE"):
        hub.fetch(REPO, "model.bin")


@pytest.mark.parametrize("address", ["nonsense", "ftp://127.0.0.1", "http://127.0.0.1:99999999"])
def test_a_wrong_address_of_the_hub(remote: Any, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(DownloadError) as caught:
        hub.fetch(REPO, "model.bin")
    assert caught.value.where == address and "HF_ENDPOINT" in str(caught.value)


def test_an_empty_file(remote: Any) -> None:
    remote.files[REPO]["empty.txt"] = b""
    assert hub.fetch(REPO, "empty.txt").read_bytes() == b""


def test_a_branch_that_moves(remote: Any) -> None:
    old = hub.fetch(REPO, "model.bin")
    remote.commit, remote.files[REPO]["model.bin"] = "f" * 40, WEIGHTS[::-1]
    new = hub.fetch(REPO, "model.bin")
    assert new.read_bytes() == WEIGHTS[::-1] and old.read_bytes() == WEIGHTS


def test_the_registrys_models_come_from_their_repositories(remote: Any) -> None:
    """Files of the right names with other contents are noticed."""
    entry = next(entry for entry in hub.models() if entry.id == "stories260K")
    model, tokenizer = entry.file("model"), entry.file("tokenizer")
    assert model and tokenizer and model.size and tokenizer.size
    remote.commit = model.revision
    remote.files[model.repo] = {model.path: bytes(model.size), tokenizer.path: bytes(tokenizer.size)}
    for name in ("stories260K", "karpathy/tinyllamas:stories260K.bin", f"{model.repo}:{model.path}"):
        with pytest.raises(DownloadError, match="tok512.bin arrived damaged"):
            hub.resolve(name)


# -- answers that a hub does not give

INFO = f"/api/models/{REPO}/"


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


JSON_BODIES = {
    "a web page": b"<html><body>Please log in</body></html>",
    "another object": b'{"x": 1}',
    "null": b"null",
    "a list": b"[]",
    "names that are none": b'{"siblings": [{"rfilename": 7}]}',
    "no names": b'{"siblings": [{}]}',
    "siblings that are none": b'{"siblings": 5}',
    "deep": b'{"siblings": ' + b"[" * 100_000,
    "not UTF-8": b'{"siblings": "\xff"}',
    "nothing": b"",
}


@pytest.mark.parametrize("name", JSON_BODIES)
def test_a_list_of_files_that_is_none(remote: Any, name: str) -> None:
    remote.answers[INFO] = (200, {"Content-Type": "application/json"}, [JSON_BODIES[name]])
    with pytest.raises(DownloadError, match="does not answer like a Hugging Face hub") as caught:
        hub.resolve(REPO)
    assert "HF_ENDPOINT" in str(caught.value) and "unexpected" not in str(caught.value)


@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_answer_without_end(remote: Any, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_LIMIT", 1 << 20)
    remote.answers["/api/"] = (status, {"Content-Type": "application/json"}, endless(b" " * 65536))
    with pytest.raises((DownloadError, ModelNotFoundError)) as caught:
        hub.resolve(REPO)
    assert status != 200 or "its answer has more than 1,048,576 bytes" in str(caught.value)
    assert remote.sent < 64 << 20  # what fits into the buffers of the system


def test_an_answer_that_trickles_without_end(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly() -> Iterator[bytes]:
        while not remote.release.wait(0.02):
            yield b" "

    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.2)
    remote.answers[INFO] = (200, {}, slowly())
    with pytest.raises(DownloadError, match="its answer is not complete after 0 seconds"):
        hub.resolve(REPO)


@pytest.mark.parametrize("piece", [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"X"])
def test_a_head_without_end(remote: Any, piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins the time limit of a connection again."""

    class Slowly:
        def __iter__(self) -> Iterator[bytes]:
            while not remote.release.wait(0.02):
                yield piece

    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.3)
    remote.answers[INFO] = (0, {}, Slowly())
    with pytest.raises(DownloadError, match="its answer is not complete after 0 seconds"):
        hub.resolve(REPO)
    monkeypatch.setattr(http, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(http, "STALL_SECONDS", 0.1)
    remote.answers["/storage/"] = (0, {}, Slowly())
    with pytest.raises(DownloadError, match="broke off at 0 of 3,145,728 bytes: nothing of the file came for 0 sec"):
        hub.fetch(REPO, "model.bin")


def test_signs_of_any_kind_in_an_answers_head(remote: Any) -> None:
    remote.busy = [Fault("status", status=503, headers={"Content-Disposition": 'filename="\xe4.bin"'})]
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS


def test_a_compressed_answer_is_not_inflated(remote: Any, peak_memory: Any) -> None:
    import gzip

    bomb = gzip.compress(b'{"siblings": []}' + bytes(200 << 20), 1)
    remote.answers[INFO] = (200, {"Content-Encoding": "gzip"}, [bomb])
    with peak_memory(16 << 20), pytest.raises(DownloadError, match="its answer is compressed"):
        hub.resolve(REPO)
    remote.answers = {"/storage/": (200, {"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}, [bomb])}
    with peak_memory(16 << 20), pytest.raises(DownloadError, match="it compresses the file"):
        hub.fetch(REPO, "model.bin")


@pytest.fixture
def peak_memory() -> Any:
    from tests import hostile

    return hostile.peak_memory


def test_nothing_else_is_asked(remote: Any, tmp_path: Path) -> None:
    remote.answers["/api/agent"] = (200, {}, endless(b"{" * 65536))
    hub.fetch(REPO, "model.bin")
    assert {request.path.split("/")[1] for request in remote.log} == {"someone", "storage"}
    assert all(request.authorization is None for request in remote.log) and remote.sent == 0


def test_a_file_of_unknown_size(remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "UNSIZED_LIMIT", 1 << 20)
    monkeypatch.setattr("pyapp.hub.download.ask_head", without_size("pyapp.hub.http"))
    remote.answers["/storage/"] = (200, {}, [WEIGHTS[:1000]])
    with pytest.raises(DownloadError, match="arrived damaged"):
        hub.fetch(REPO, "model.bin")
    remote.answers["/storage/"] = (200, {}, endless(bytes(65536)))
    with pytest.raises(DownloadError, match="more than the 1,048,576 bytes that a file of unknown size may have"):
        hub.fetch(REPO, "model.bin")
    assert partials(tmp_path) == []
    remote.answers = {}  # the answer to GET says it
    assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS


def without_size(module: str) -> Any:
    ask_head = importlib.import_module(module).ask_head

    def head(url: str, timeout: float) -> Any:
        answer = ask_head(url, timeout)
        answer.headers.pop("X-Linked-Size", None)
        answer.headers.pop("Content-Length", None)
        return answer

    return head


def test_more_bytes_than_were_said_leave_no_partial_file(remote: Any, tmp_path: Path) -> None:
    remote.answers["/storage/"] = (200, {}, endless(bytes(65536)))
    with pytest.raises(DownloadError, match="sends more than the 3,145,728 bytes"):
        hub.fetch(REPO, "model.bin")
    assert partials(tmp_path) == []


def test_names_with_signs_that_cannot_be_shown(remote: Any) -> None:
    names = [{"rfilename": name} for name in ("model\ud800.bin", "a\n.bin", "model.bin")]
    remote.answers[INFO] = (200, {}, [json.dumps({"siblings": names}).encode()])
    assert hub.resolve(REPO).model.name == "model.bin"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written_to(remote: Any, tmp_path: Path) -> None:
    hub.fetch(REPO, "model.bin")
    os.chmod(tmp_path / "cache", 0o500)
    for folder in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        if folder.is_dir():
            folder.chmod(0o500)
    try:
        assert hub.fetch(REPO, "model.bin").read_bytes() == WEIGHTS
        with pytest.raises(DownloadError, match="the cache cannot be written to .* Set HF_HUB_CACHE"):
            hub.fetch(REPO, "tokenizer.json")
    finally:
        for folder in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
            if folder.is_dir():
                folder.chmod(0o700)


def test_a_cache_that_is_a_file(remote: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(DownloadError, match="the cache cannot be written to .* Set HF_HUB_CACHE"):
        hub.fetch(REPO, "model.bin")


def test_weights_of_another_architecture_are_not_downloaded(remote: Any) -> None:
    from pyapp.errors import ModelError
    from pyapp.models import load_model

    remote.files["owner/unheard"] = {"config.json": b'{"model_type": "unheard"}', "model.safetensors": WEIGHTS}
    with pytest.raises(ModelError, match="the architecture 'unheard' is not known"):
        load_model("owner/unheard")
    assert [request.path for request in remote.downloads() if "model.safetensors" in request.path] == []


@pytest.mark.parametrize(
    "variable,value,message",
    [
        ("HF_TOKEN", "hf_ä", "the token has characters that no token has"),
        ("HF_ENDPOINT", "http://\udc80", "this is not the address of a server"),
        ("HF_ENDPOINT", "localhost", "it cannot be reached"),
        ("HTTP_PROXY", "nonsense://x", "the proxy settings are not usable"),
    ],
)
def test_variables_with_odd_values(
    remote: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    from huggingface_hub.utils import close_session

    monkeypatch.setenv(variable, value)
    close_session()  # a new one reads the proxies
    try:
        with pytest.raises(DownloadError, match=message) as caught:
            hub.resolve(REPO)
    finally:
        close_session()
    assert "unexpected" not in str(caught.value)


# -- networks beside speech models


def test_networks_of_a_hub(remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyapp.audio.networks import find_network

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    remote.files["someone/vad"] = {"README.md": b"#", "onnx/model.onnx": b"A" * 99, "onnx/model_q4.onnx": b"B" * 50}
    remote.files["someone/vad"]["onnx/model.onnx_data"] = b"C" * 70
    found = find_network("someone/vad")
    assert found.read_bytes() == b"A" * 99 and found.with_name("model.onnx_data").read_bytes() == b"C" * 70
    assert find_network("someone/vad@main:onnx/model_q4.onnx").read_bytes() == b"B" * 50
    place = "someone/vad/resolve/main/onnx/model_q4.onnx"
    assert find_network(f"https://huggingface.co/{place}?download=true").read_bytes() == b"B" * 50
    told: list[Event] = []
    elsewhere = find_network(f"{remote.address}/{place}", told.append)
    assert elsewhere.read_bytes() == b"B" * 50 and elsewhere.is_relative_to(tmp_path / "own" / "pyapp" / "networks")
    assert told and elsewhere.name == "model_q4.onnx"
    asked = len(remote.log)
    assert find_network(f"{remote.address}/{place}") == elsewhere and len(remote.log) == asked
    for name, says in (
        ("someone/vad:model.onnx", "no file 'model.onnx'; its networks are onnx/model.onnx"),
        ("someone/model:", "no such file"), (REPO, "there is no .onnx file"), ("someone/nothing", "someone/nothing"),
    ):  # fmt: skip
        with pytest.raises(PyappError, match=re.escape(says)):
            find_network(name)
    with pytest.raises(DownloadError):
        find_network(f"{remote.address}/someone/vad/resolve/main/none.onnx")


# -- torch.hub's names


def test_weights_at_an_address(remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyapp

    file = io.BytesIO()
    pyapp.save({"w": pyapp.arange(3)}, file)
    data = file.getvalue()
    name = f"net-{hashlib.sha256(data).hexdigest()[:8]}.pth"
    remote.files[REPO] |= {name: data, "net-00000000.pth": data}
    address = f"{remote.address}/{REPO}/resolve/main/"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    state = hub.load_state_dict_from_url(address + name, check_hash=True)
    assert state["w"].tolist() == [0, 1, 2] and (tmp_path / "torch" / "hub" / "checkpoints" / name).is_file()
    requests = len(remote.log)
    assert pyapp.utils.model_zoo.load_url(address + name)["w"].tolist() == [0, 1, 2] and len(remote.log) == requests
    with pytest.raises(DownloadError, match="not the file that was expected"):
        hub.load_state_dict_from_url(address + "net-00000000.pth", tmp_path, check_hash=True)
    hub.download_url_to_file(address + name, tmp_path / "own.bin")
    assert (tmp_path / "own.bin").read_bytes() == data and not (tmp_path / "net-00000000.pth").exists()
