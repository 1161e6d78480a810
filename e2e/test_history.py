"""The store of the history alone, from an origin of its own: a full disk, no Blobs, another tab, cleared data; the
names of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from e2e.conftest import ROOT, forget
from e2e.firefox import Firefox
from scripts.serve import SiteServer

QUOTA = 2_000_000  # bytes
FIREFOX_QUOTA = 10 << 20  # bytes: the least that Firefox gives an origin, of five times as much


# A store under a quota: what a file that is too large fails with, what is there then, and when it is smaller.
FULL = """async (bytes) => {
  const { HistoryStore } = await import("/modules/history/history-store.js");
  const store = new HistoryStore("story");
  await store.put(store.begin("one"), { text: "fits" });
  const noise = new Uint8Array(bytes).map(() => Math.random() * 256); // LevelDB compresses
  const entry = store.begin("two");
  const filesOf = (bytes) => [{ name: "sound", blob: new Blob([bytes]) }];
  await store.put(entry, { text: "said" }, { files: filesOf("abc") });
  const failed = [];
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const error = await store.put(entry, {}, { files: filesOf(noise) }).catch((failure) => failure);
    failed.push([error?.name, error?.message, error?.action]);
  }
  const texts = async () => {
    const { content, files } = await store.read(entry.id);
    return [content.text, await Promise.all(files.map(({ blob }) => blob.text()))];
  };
  const kept = await texts();
  await store.put(entry, { text: "fits" }, { files: filesOf("defg") });
  return [failed, kept, await texts(), entry.revision, (await store.list()).length];
}"""

# A database that takes no Blobs, as WebKit's in private windows: such a write fails, and aborts its transaction.
NO_BLOBS = """async () => {
  const { put } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.put = function (value) {
    if (!(value.blob instanceof Blob)) return put.call(this, value);
    put.call(this, { id: "taken", name: "" });
    return this.add({ id: "taken", name: "" });
  };
  const { HistoryStore } = await import("/modules/history/history-store.js");
  const store = new HistoryStore("transcript");
  const entry = store.begin("one");
  const sound = new Blob(["abc"], { type: "audio/wav" });
  await store.put(entry, { text: "said" }, { files: [{ name: "sound", blob: sound }] });
  await store.addFile(entry.id, "more", new Blob(["de"]));
  const { content, files } = await store.read(entry.id);
  IDBObjectStore.prototype.put = put;
  return [content.text, await Promise.all(files.map(async ({ name, blob }) => [name, blob.type, await blob.text()]))];
}"""

# Two tabs with one entry: the title that the other gave it; the files of one that the other has deleted.
ELSEWHERE = """async () => {
  const { HistoryStore } = await import("/modules/history/history-store.js");
  const [store, other] = [new HistoryStore("transcript"), new HistoryStore("transcript")];
  const entry = store.begin("Recording");
  const allFiles = [{ name: "sound", blob: new Blob(["abc"]) }];
  await store.put(entry, { text: "said" }, { files: allFiles, allFiles });
  await other.rename(entry.id, "My talk");
  await store.put(entry, { text: "edited" }, { allFiles });
  globalThis.found = async () => {
    const item = await store.read(entry.id);
    return [item.entry.title, item.content.text, await Promise.all(item.files.map(({ blob }) => blob.text()))];
  };
  globalThis.putAgain = (text) => store.put(entry, { text }, { allFiles });
  const renamed = await found();
  await other.remove(entry.id);
  await putAgain("edited again");
  return [renamed, await found(), (await store.list()).length];
}"""


# A page that is closed at once: the change of its database has no time to end.
CLOSING = """async (id) => {
  const { HistoryStore } = await import("/modules/history/history-store.js");
  const store = new HistoryStore("story");
  const entry = id ? (await store.read(id)).entry : store.begin("one");
  if (!id) await store.put(entry, { text: "begun" });
  Object.defineProperty(document, "visibilityState", { value: "hidden" });
  store.opening = new Promise(() => {}); // the disk is slower than the end of the page
  store.put(entry, { text: id ? "more" : "written" });
  return entry.id;
}"""
KEPT = """async () => {
  const { HistoryStore } = await import("/modules/history/history-store.js");
  const store = new HistoryStore("story");
  const read = async ({ id }) => (await store.read(id)).content.text;
  const texts = await Promise.all((await store.list()).map(read));
  return [texts, Object.keys(localStorage).filter((name) => name.startsWith("pyapp.left.")).length];
}"""


@pytest.fixture
def modules() -> Iterator[SiteServer]:
    with SiteServer(ROOT / "web") as server:
        yield server


def check_full(found: list[object]) -> None:
    failed, kept, after, revision, entries = found
    assert isinstance(failed, list) and len(failed) == 3
    for name, message, action in failed:
        assert (name, action) == ("UserError", "storage"), failed
        assert "is full: it keeps" in message
    assert kept == ["said", ["abc"]]  # what is there stays
    assert (after, revision, entries) == (["fits", ["defg"]], 2, 2)


def test_the_history_on_a_full_disk_and_without_blobs(browser: BrowserContext, modules: SiteServer) -> None:
    page = browser.new_page()
    page.goto(f"{modules.url}app.webmanifest")
    protocol = browser.new_cdp_session(page)
    protocol.send("Storage.overrideQuotaForOrigin", {"origin": modules.origin, "quotaSize": QUOTA})
    check_full(page.evaluate(FULL, 4 * QUOTA))
    kept = page.evaluate(NO_BLOBS)
    page.close()
    assert kept == ["said", [["more", "", "de"], ["sound", "audio/wav", "abc"]]]


def test_the_history_on_a_full_disk_in_firefox(modules: SiteServer, tmp_path: Path) -> None:
    """After a change that found no room, Firefox lets the next one only delete."""
    firefox = Firefox(tmp_path, {"dom.quotaManager.temporaryStorage.fixedLimit": 5 * FIREFOX_QUOTA >> 10})
    try:
        firefox.open(f"{modules.url}boot.js")
        check_full(firefox.evaluate(f"({FULL})({2 * FIREFOX_QUOTA})"))
        assert firefox.errors == []
    finally:
        firefox.close()


def test_the_history_is_changed_in_another_tab_or_cleared(browser: BrowserContext, modules: SiteServer) -> None:
    page = browser.new_page()
    page.goto(f"{modules.url}app.webmanifest")
    renamed, deleted, count = page.evaluate(ELSEWHERE)
    assert renamed == ["My talk", "edited", ["abc"]]
    assert (deleted, count) == (["My talk", "edited again", ["abc"]], 1)
    forget(browser, modules)  # as by the browser's own settings
    page.wait_for_timeout(300)
    assert page.evaluate("putAgain('after that').then(found)") == ["My talk", "after that", ["abc"]]
    page.close()


def test_a_page_that_is_closed_while_it_stores(browser: BrowserContext, modules: SiteServer) -> None:
    """What it had no time to write is there on the next page, once, and can go on."""
    address, entry = f"{modules.url}app.webmanifest", None
    for text in ("written", "more"):
        page = browser.new_page()
        page.goto(address)
        entry = page.evaluate(CLOSING, entry)
        page.goto("about:blank")
        page.goto(address)
        assert page.evaluate(KEPT) == [[text], 0]
        page.close()


def test_the_names_of_files_are_those_that_every_system_stores(browser: BrowserContext, modules: SiteServer) -> None:
    wanted = {
        "talk.srt": "talk.srt", "con.wav": "con_.wav", "NUL": "NUL_", "Com1.tar.gz": "Com1_.tar.gz",
        "aux .txt": "aux_ .txt",
        "console.wav": "console.wav", "com10.txt": "com10.txt", "a/b\\c:d?.txt": "a_b_c_d_.txt", "...": "_", "..": "_",
        "": "_", " end. ": "end", ".profile": "_profile", "\u202egpj.exe": "gpj.exe", "one\ntwo.txt": "one_two.txt",
        "語" * 100 + ".txt": "語" * 78 + ".txt",
    }  # fmt: skip
    page = browser.new_page()
    page.goto(f"{modules.url}app.webmanifest")
    named = "(names) => import('/modules/shared/file-name.js').then(({ safeName }) => names.map(safeName))"
    found = page.evaluate(named, list(wanted))
    page.close()
    assert dict(zip(wanted, found, strict=True)) == wanted
