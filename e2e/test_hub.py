"""Downloads from a hub: stored, resumed, verified, cancelled, by two tabs at the same time, and when storage is
full."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import ChangeableSite, forget, shared, watched
from e2e.fake_hub import FakeHub, HubFile
from e2e.model_files import write_pair
from e2e.page import StoryPage
from pyapp import tasks
from scripts.serve import SiteServer
from tests.formats.gguf_parts import in_parts
from tests.text.chat_model import write_chat_model

MODEL, TOKENIZER = "tests/foxes/resolve/main/foxes.bin", "tests/foxes/resolve/main/tokenizer.bin"
# Deletes the models in the browser's storage, but not the snapshot of Python.
EMPTY = """async () => {
  const { app } = pyappPage;
  const { kept } = await app.engine.call("storage.list");
  await app.engine.call("storage.remove", { keys: kept.map(({ key }) => key) });
  await app.afterStorageChange();
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A checkpoint of 11 MB, so that its journal is written on the way, and its tokenizer."""
    model, tokenizer = write_pair(tmp_path_factory.mktemp("hub"), dim=256, layers=5)
    return model.read_bytes(), tokenizer.read_bytes()


def file_entry(role: str, path: str, data: bytes, **other: Any) -> dict[str, Any]:
    return {"role": role, "path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **other}


@pytest.fixture(scope="module")
def hub_site(dist: Path, changeable_site: ChangeableSite, files: tuple[bytes, bytes]) -> Iterator[SiteServer]:
    """The site, with models of the fake hub in its registry."""
    model, tokenizer = files
    registry = json.loads((dist / "registry.json").read_text())
    common = {
        "kind": "hub",
        "task": "generate",
        "license": "MIT",
        "repo": "tests/foxes",
        "revision": "main",
        "description": "For tests.",
    }
    pair = [file_entry("model", "foxes.bin", model), file_entry("tokenizer", "tokenizer.bin", tokenizer)]
    damaged = [{**pair[0], "sha256": "0" * 64}, pair[1]]
    registry["models"] = [
        registry["models"][0],
        {"id": "foxes", "title": "Foxes", "files": pair, **common},
        {"id": "damaged", "title": "Damaged", "files": damaged, **common, "revision": "bad"},
    ]
    with changeable_site.changed({"registry.json": json.dumps(registry).encode()}):
        yield changeable_site


@pytest.fixture
def foxes(hub: FakeHub, files: tuple[bytes, bytes]) -> HubFile:
    """The checkpoint on the hub."""
    hub.add("tests/foxes", "tokenizer.bin", files[1])
    return hub.add("tests/foxes", "foxes.bin", files[0])


@pytest.fixture(scope="module")
def hub_tab(plain_browser: BrowserContext, hub_site: SiteServer) -> Iterator[StoryPage]:
    yield (page := StoryPage(plain_browser.new_page()).open(hub_site.url))
    page.page.close()
    forget(plain_browser, hub_site)


@pytest.fixture
def visit(
    hub_tab: StoryPage, hub_site: SiteServer, hub: FakeHub, request: pytest.FixtureRequest
) -> Iterator[StoryPage]:
    """The page with the fake hub and empty storage."""
    with shared(hub_tab, hub_site.url, request):
        hub_tab.expected_errors = ["net::ERR_", "Failed to load resource"]  # the browser's own words about the hub
        hub_tab.page.evaluate(EMPTY)
        hub_tab.set_hub(hub.url)
        yield hub_tab


def press(story: StoryPage, label: str | re.Pattern[str], title: str = "Foxes") -> None:
    if not story.page.locator("#model-dialog").is_visible():
        story.open_models()
    story.model_row(title).get_by_role("button", name=label).click()


def wait_chosen(story: StoryPage) -> None:
    expect(story.page.locator("#model-name")).to_have_text("Foxes", timeout=30_000)
    if story.page.locator("#model-dialog").is_visible():
        story.close_dialog()


def kept(story: StoryPage) -> dict[str, Any]:
    """What the storage panel shows, by file name."""
    done = story.page.evaluate("pyappPage.app.engine.call('storage.list')")
    return {file["name"].split("/")[-1]: file for file in done["kept"]}


def test_download_use_keep_and_delete(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    visit.open_models()
    expect(visit.model_row("Foxes")).to_contain_text("MB")
    press(visit, "Download")
    expect(visit.model_row("Foxes").locator("progress")).to_be_visible()
    wait_chosen(visit)
    visit.settings(temperature=0, max_new_tokens=16)
    visit.write("the fox")
    assert len(visit.ids()) == 16
    assert kept(visit)["foxes.bin"]["complete"]
    asked = len(hub.requests)
    visit.page.reload()
    visit.wait_ready()
    expect(visit.page.locator("#model-name")).to_have_text("Foxes")  # chosen at the last visit
    visit.write("the fox")
    assert len(hub.requests) == asked, "downloaded again"
    visit.page.locator("#open-storage").click()
    row = visit.page.locator(".kept-row")
    everything = visit.page.locator("#storage-clear")
    everything.click()  # once is no wish to lose gigabytes
    expect(everything).to_have_text("Delete all these files? Press again")
    row.get_by_role("button", name="Delete foxes").focus()
    expect(everything).to_have_text("Delete all")
    expect(row).to_have_count(1)
    for _ in range(2):
        everything.click()
    expect(row).to_have_count(0)
    visit.close_dialog()
    expect(visit.page.locator("#model-name")).to_have_text("Little stories")
    visit.write("One day")


def test_a_press_counts_while_the_list_is_read_again(visit: StoryPage, foxes: HubFile) -> None:
    """The list is shown anew between the two halves of a click, as right after it was opened."""
    visit.open_models()
    visit.model_row("Foxes").get_by_role("button", name="Download").hover()
    visit.page.mouse.down()
    visit.page.evaluate("pyappPage.app.refresh()")
    visit.page.mouse.up()
    wait_chosen(visit)


def test_a_dropped_connection_heals_by_itself(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    """The small file comes compressed, of another length: then it is asked for as a range, which is not."""
    foxes.drop_after = [3_000_000, 0, 2_000_000]
    hub.files[f"/{TOKENIZER}"].compressed = True
    press(visit, "Download")
    wait_chosen(visit)
    ranges = [request.range for request in hub.asked("foxes.bin")]
    assert len(ranges) == 4 and ranges[0] is None
    assert [request.range for request in hub.asked("tokenizer.bin")] == [None, "bytes=0-"]
    assert all(int(part.removeprefix("bytes=").removesuffix("-")) > 1_000_000 for part in ranges[1:] if part)
    visit.settings(max_new_tokens=8)
    visit.write("the fox")


def test_a_closed_tab_resumes_where_it_was(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    foxes.pause = 0.02
    press(visit, "Download")
    visit.until("pyappPage.models.downloads.get('foxes')?.progress?.done > 6e6")
    visit.page.reload()
    visit.wait_ready()
    visit.set_hub(hub.url)
    foxes.pause = 0
    visit.open_models()
    expect(visit.model_row("Foxes")).to_contain_text(" of ")
    press(visit, "Resume")
    wait_chosen(visit)
    resumed = hub.asked("foxes.bin")[-1].range
    assert resumed is not None and int(resumed[6:-1]) >= 4 << 20
    visit.write("the fox")


def test_cancel_and_resume(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    foxes.pause = 0.02
    press(visit, "Download")
    visit.until("pyappPage.models.downloads.get('foxes')?.progress?.done > 1e6")
    press(visit, "Cancel")
    expect(visit.model_row("Foxes").get_by_role("button", name="Resume")).to_be_focused()
    assert 0 < kept(visit)["foxes.bin"]["received"] < len(foxes.data)
    size = visit.model_row("Foxes").locator(".row-size")
    expect(size).to_contain_text(" of ")
    press(visit, "Resume")
    expect(size).not_to_contain_text(" of ")  # the progress below it says how much there is
    foxes.pause = 0
    wait_chosen(visit)
    assert hub.asked("foxes.bin")[-1].range is not None


def test_a_file_that_changed_meanwhile_starts_over(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    foxes.pause = 0.02
    press(visit, "Download")
    visit.until("pyappPage.models.downloads.get('foxes')?.progress?.done > 1e6")
    press(visit, "Cancel")
    expect(visit.model_row("Foxes").get_by_role("button", name="Resume")).to_be_visible()
    foxes.pause, foxes.etag = 0, '"two"'
    press(visit, "Resume")
    wait_chosen(visit)  # the hash fits: no bytes of the first version are left
    assert hub.asked("foxes.bin")[-1].range is None


def test_a_model_that_lacks_a_file_can_be_deleted(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    """Its other file was opened, and must have been closed again."""
    press(visit, "Download")
    wait_chosen(visit)
    said = visit.page.evaluate("""async () => {
      const { engine } = pyappPage.app;
      const { kept } = await engine.call("storage.list");
      const keys = kept.filter(({ name }) => name.endsWith("tokenizer.bin")).map(({ key }) => key);
      await engine.call("storage.remove", { keys });
      return engine.call("load", { model: "foxes" }).catch((error) => error.what);
    }""")
    assert "not completely" in said
    visit.page.evaluate("pyappPage.app.engine.call('storage.clear')")
    assert kept(visit) == {}


def test_damage_is_found_and_thrown_away(visit: StoryPage, hub: FakeHub, files: tuple[bytes, bytes]) -> None:
    for path, data in (("foxes.bin", files[0]), ("tokenizer.bin", files[1])):
        hub.files[f"/tests/foxes/resolve/bad/{path}"] = HubFile(data)
    press(visit, "Download", "Damaged")
    expect(visit.model_row("Damaged")).to_contain_text("damaged")
    assert kept(visit)["foxes.bin"]["received"] == 0
    visit.close_dialog()
    visit.write("One day")


@pytest.mark.parametrize(("statuses", "says"), [([404], "404"), ([403], "403"), ([503] * 9, "503")])
def test_the_hub_says_no(visit: StoryPage, foxes: HubFile, statuses: list[int], says: str) -> None:
    foxes.statuses = statuses
    press(visit, "Download")
    expect(visit.model_row("Foxes").get_by_role("alert")).to_contain_text(says)
    visit.close_dialog()
    visit.write("One day")


def test_no_network(visit: StoryPage, hub: FakeHub, foxes: HubFile) -> None:
    visit.set_hub("http://localhost:9/")
    press(visit, "Download")
    expect(visit.model_row("Foxes")).to_contain_text("attempt 2 of 3")
    alert = visit.model_row("Foxes").get_by_role("alert")
    expect(alert).to_contain_text("connection")
    visit.set_hub(hub.url)
    alert.get_by_role("button", name="Try again").click()
    wait_chosen(visit)


def test_two_tabs_download_once(
    visit: StoryPage, plain_browser: BrowserContext, hub_site: SiteServer, hub: FakeHub, foxes: HubFile
) -> None:
    foxes.pause = 0.1
    with watched(plain_browser.new_page()) as other:
        other.open(hub_site.url).open_models()
        press(visit, "Download")
        visit.until("pyappPage.models.downloads.get('foxes')?.progress?.done > 5e5")
        press(other, re.compile("Download|Resume"))  # it may have seen the file that the first tab has begun
        expect(other.model_row("Foxes")).to_contain_text("Another tab")
        foxes.pause = 0
        wait_chosen(visit)
        wait_chosen(other)
        assert len(hub.asked("foxes.bin")) == 1
        for story in (visit, other):
            story.settings(max_new_tokens=8)
            story.start("the fox")
        for story in (visit, other):
            story.wait_done()


def test_full_storage_says_so(
    visit: StoryPage, plain_browser: BrowserContext, hub_site: SiteServer, foxes: HubFile
) -> None:
    visit.expected_errors = []
    protocol = plain_browser.new_cdp_session(visit.page)
    used = visit.page.evaluate("navigator.storage.estimate().then(({ usage }) => usage)")
    protocol.send("Storage.overrideQuotaForOrigin", {"origin": hub_site.origin, "quotaSize": used + 2_000_000})
    press(visit, "Download")
    alert = visit.model_row("Foxes").get_by_role("alert")
    expect(alert).to_contain_text("full")
    expect(alert).not_to_contain_text("stored")  # nothing was
    protocol.send("Storage.overrideQuotaForOrigin", {"origin": hub_site.origin})
    visit.model_row("Foxes").get_by_role("button", name="Open storage").click()
    expect(visit.page.locator("#storage-dialog")).to_be_visible()
    visit.close_dialog()


def test_a_hub_address_must_be_one(visit: StoryPage) -> None:
    visit.open_models()
    visit.page.locator(".hub-address summary").click()
    field = visit.page.locator("#hub")
    for wrong in ("not an address", "http://example.org/", "javascript:alert(1)"):
        field.fill(wrong)
        field.blur()
        expect(visit.page.locator("#hub-error")).to_contain_text("https://")
    field.fill("https://mirror.example.org/models?download=1#top")
    field.blur()
    expect(visit.page.locator("#hub-error")).to_be_empty()
    assert visit.page.evaluate("pyappPage.app.hub") == "https://mirror.example.org/models/"


FOLDER = "tests/bird"


def find(visit: StoryPage, name: str) -> None:
    if not visit.page.locator("#model-dialog").is_visible():
        visit.open_models()
    visit.page.locator("#hub-name").fill(name)
    visit.page.locator("#hub-find").click()


def test_models_are_found_by_their_names(visit: StoryPage, hub: FakeHub, tmp_path: Path) -> None:
    """Quantised files first, also one in two parts, with sizes; kept under their names; an unknown architecture is
    refused by name.
    """
    folder = tmp_path / "chat"
    for path in write_chat_model(folder):
        hub.add(FOLDER, path.name, path.read_bytes())
    for kind in ("q8_0", "q4_0"):
        file = tmp_path / f"bird-{kind}.gguf"
        quantized(folder, file, kind)
        for part in in_parts(file) if kind == "q8_0" else [file]:
            hub.add(f"{FOLDER}-GGUF", part.name, part.read_bytes())
    hub.add(f"{FOLDER}-GGUF", "bird-f16.gguf", b"GGUF" + bytes(5000))
    find(visit, f"{FOLDER}-GGUF")
    results = visit.page.locator("#hub-found .model-row")
    expect(results).to_have_count(3)
    titles = results.locator(".row-title").all_inner_texts()
    assert [title.split(".gguf")[0] for title in titles] == ["bird-q4_0", "bird-q8_0", "bird-f16"]
    expect(results.first).to_contain_text("kB")
    expect(results.first).to_contain_text("MB of memory")
    results.nth(1).get_by_role("button", name="Download").click()
    expect(visit.page.locator("#model-name")).to_have_text("bird-q8_0.gguf")
    visit.settings(temperature=0, max_new_tokens=8)
    text = visit.write("the bird")

    visit.page.reload()
    visit.wait_ready()
    expect(visit.page.locator("#model-name")).to_have_text("bird-q8_0.gguf")
    visit.set_hub(hub.url)
    visit.settings(temperature=0, max_new_tokens=8)
    assert visit.write("the bird") == text
    find(visit, f"https://huggingface.co/{FOLDER}/tree/main")  # an address of the hub's page
    expect(results).to_have_count(1)
    results.first.get_by_role("button", name="Download").click()
    expect(visit.page.locator("#model-name")).to_have_text("bird")
    assert visit.write("the bird").startswith("the bird")

    strange = json.loads((folder / "config.json").read_text()) | {"model_type": "strangely_new"}
    hub.add("tests/strange", "config.json", json.dumps(strange).encode())
    hub.add("tests/strange", "model.safetensors", bytes(1000))
    header = (tmp_path / "bird-q8_0.gguf").read_bytes().replace(b"llama", b"lemma", 1)
    hub.add("tests/strange-GGUF", "new.gguf", header)
    hub.add("tests/empty", "README.md", b"nothing")
    error = visit.page.locator("#hub-find-error [role=alert]")
    for name, says in (
        ("tests/strange", "'strangely_new' is not known"), ("tests/strange-GGUF", "'lemma' is not known"),
        ("tests/empty", "no model for this view"), ("tests/nobody", "no such model"),
        ("nobody", "not the name of a model"),
        (f"{FOLDER}-GGUF/other.gguf", "no such model file"), ("../../etc", "not the name of a model"),
    ):  # fmt: skip
        find(visit, name)
        expect(error).to_contain_text(says)
    assert not hub.asked("strange/resolve/main/model.safetensors")
    visit.close_dialog()
    expect(visit.page.locator("#model-name")).to_have_text("bird")


def test_parts_of_a_gguf_file_are_chosen_together(visit: StoryPage, tmp_path: Path) -> None:
    folder, file = tmp_path / "chat", tmp_path / "bird.gguf"
    write_chat_model(folder)
    quantized(folder, file, "q8_0")
    parts = in_parts(file)
    dialog, error = visit.open_models(), visit.page.locator("#model-error [role=alert]")
    for chosen, says in (
        (parts[:1], "2 parts, and part 2 is missing"), (parts[1:], "part 1 is missing"),
        ([parts[0], file], "several models"),
    ):  # fmt: skip
        visit.page.locator("#pick-files").set_input_files(chosen)
        expect(error).to_contain_text(says)
    visit.page.locator("#pick-files").set_input_files(parts[::-1])
    expect(dialog).to_be_hidden()
    expect(visit.page.locator("#model-name")).to_have_text("bird.gguf")
    visit.settings(temperature=0, max_new_tokens=8)
    text = visit.write("the bird")
    visit.open_models()
    visit.page.locator("#pick-files").set_input_files(file)
    expect(dialog).to_be_hidden()
    assert visit.write("the bird") == text


def quantized(folder: Path, file: Path, kind: str) -> None:
    """Writes the GGUF file of a model's folder."""

    async def write() -> None:
        events = [event async for event in tasks.quantize(str(folder), file, kind)]
        assert events[-1].type == "done", events[-1]

    with ThreadPoolExecutor(1) as pool:  # playwright's own loop runs in this thread
        pool.submit(asyncio.run, write()).result()
