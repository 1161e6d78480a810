"""The site as a whole: offline, under a sub-path, without a service worker, new versions, its security, its looks."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import threading
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import OUTPUT, ChangeableSite, Launch, forget, watched
from e2e.page import StoryPage
from e2e.speech_files import samples, spoken
from e2e.transcribe_page import TranscribePage
from scripts.serve import MIME_TYPES, Handler, SiteServer
from scripts.site_copy import copy_site

# What the service worker tells a tab.
HEAR = """() => {
  globalThis.heard = [];
  navigator.serviceWorker.onmessage = ({ data }) => heard.push(data.notice);
}"""


def test_offline_under_a_sub_path_then_a_new_version(launch: Launch, dist: Path, tmp_path: Path) -> None:
    """On a plain host below a path: isolated after one reload at most; stored when the visitor, who saves data, wants
    it; every view with the server gone; and when it is back with a new version, that arrives whole.
    """
    index = (dist / "index.html").read_text()
    new = copy_site(dist, tmp_path / "new", {"index.html": index.replace("Begin a story.", "Start a tale.").encode()})
    server = SiteServer(dist, prefix="/some/where/").start()
    context = launch()
    context.add_init_script("Object.defineProperty(navigator, 'connection', { value: { saveData: true } })")
    with watched(context.new_page()) as story:
        page = story.page
        navigations: list[str] = []
        page.on("framenavigated", lambda frame: navigations.append(frame.url))
        story.open(server.url)
        assert len(navigations) <= 2
        assert page.evaluate("crossOriginIsolated")
        story.settings(temperature=0, max_new_tokens=32)
        text = story.write("One day")
        store = page.get_by_role("button", name="Store it for use offline")
        expect(store).to_be_visible()
        assert not [path for path in server.requests if "_later-" in path or "/reader/" in path]
        store.click()
        expect(page.locator("#offline-state")).to_contain_text("works offline", timeout=60_000)
        assert not [path for path in server.requests if "_english-" in path or "/cmaps/" in path]
        assert {path for path in server.requests if not path.startswith("/some/where/")} <= {"/favicon.ico"}

        server.stop()
        page.reload()
        story.wait_ready()
        assert page.evaluate("crossOriginIsolated")
        assert story.write("One day") == text
        story.engine("call('warm')")  # NumPy too is there
        sample = samples(dist)[0]
        page.get_by_role("link", name="Transcribe").click()
        page.get_by_role("button", name=sample["title"]).click()
        spoken_text = TranscribePage(page).wait_done().text()
        assert spoken(spoken_text) == spoken(sample["text"])
        assert page.evaluate("import('./mediabunny/mediabunny.min.js').then((library) => 'Input' in library)")
        page.get_by_role("link", name="Chat").click()
        page.locator("#chat-field").wait_for()
        page.get_by_role("link", name="Story").click()

        with SiteServer(new, prefix="/some/where/", port=server.server_address[1]):
            page.reload()
            story.wait_ready()
            expect(page.locator("#story-title")).to_contain_text("Begin a story.")  # the kept version, whole
            other = context.new_page()
            other.goto(f"{server.url}manifest.json")
            other.evaluate(HEAR)
            page.get_by_role("button", name="Reload to use it").click(timeout=60_000)
            expect(page.locator("#story-title")).to_contain_text("Start a tale.")
            assert other.evaluate("heard") == ["replaced"]
            story.wait_ready()
            story.settings(max_new_tokens=8)
            story.write("One day")
            story.until("caches.keys().then(({ length }) => length === 2)")  # the new version's and the bookkeeping
    context.close()


# The page has its service worker, and does not load itself again for it.
CONTROLLED = "() => globalThis.pyappPage !== undefined && navigator.serviceWorker.controller !== null"
# The sizes of files that are fetched one after the other, and how long that takes.
FETCH = """async (paths) => {
  const [sizes, begun] = [[], performance.now()];
  for (const path of paths) sizes.push((await (await fetch(path)).arrayBuffer()).byteLength);
  return [sizes, performance.now() - begun];
}"""
# The browser's storage does not answer the service worker.
SILENT = b"Cache.prototype.match = CacheStorage.prototype.match = () => new Promise(() => {});"


def test_a_service_worker_without_storage(browser: BrowserContext, dist: Path, tmp_path: Path) -> None:
    """The page and its parts come from the network then, and wait for the storage once only."""
    worker = SILENT + (dist / "service-worker.js").read_bytes()
    with SiteServer(copy_site(dist, tmp_path / "site", {"service-worker.js": worker, "worker.js": b""})) as server:
        with watched(browser.new_page()) as story:
            story.page.goto(server.url)
            story.page.wait_for_function(CONTROLLED)
            story.page.goto(server.url)
            story.page.wait_for_function(CONTROLLED)
            assert story.page.evaluate("crossOriginIsolated"), "the service worker did not answer"
            wheels = [path.relative_to(dist).as_posix() for path in sorted((dist / "pyodide").glob("*.whl"))]
            sizes, milliseconds = story.page.evaluate(FETCH, wheels)
            assert (
                sizes == [(dist / path).stat().st_size for path in wheels] and milliseconds < 30_000
            )  # 4,000 for each would be more


def test_a_lost_network_before_the_page_is_stored_whole(browser: BrowserContext, dist: Path, tmp_path: Path) -> None:
    """A file that is stored answers where the network fails."""
    site = copy_site(dist, tmp_path / "site", {"worker.js": b""})  # it needs no engine
    manifest = json.loads((site / "manifest.json").read_text())
    manifest["files"] = [file for file in manifest["files"] if file["path"] in ("icon.svg", "THIRD-PARTY.md")]
    (site / "manifest.json").write_text(json.dumps(manifest))
    for path in site.glob("THIRD-PARTY.md*"):
        path.unlink()  # so the version is never complete
    server = SiteServer(site).start()
    with watched(browser.new_page()) as story:
        story.page.goto(server.url)
        story.page.wait_for_function(CONTROLLED)
        story.page.evaluate("navigator.serviceWorker.controller.postMessage({ method: 'keep' })")  # as when it is ready
        story.until("caches.match('icon.svg').then(Boolean)")
        server.stop()
        assert story.page.evaluate("fetch('icon.svg').then(({ ok }) => ok)")


REFUSING = """ServiceWorkerContainer.prototype.register = async () => {
  throw new DOMException("The operation is insecure.", "SecurityError");
}"""


def test_the_plainest_host(
    browser: BrowserContext, dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends the compressed wheels of `make site`, calls WebAssembly bytes of any kind, which browsers do not compile
    while they arrive, and the browser allows no service worker.
    """
    monkeypatch.delitem(MIME_TYPES, ".wasm")
    with SiteServer(copy_site(dist, tmp_path / "site", with_compressed_wheel(dist))) as server:
        with watched(browser.new_page()) as story:
            story.page.add_init_script(REFUSING)
            story.open(server.url)
            assert not story.page.evaluate("crossOriginIsolated")
            story.settings(temperature=0, max_new_tokens=64)
            story.write("One day")


# What the worker says when a file arrives that the engine could start without.
LATE_BYTES = """() => pyappPage.app.engine.dispatchEvent(
  new CustomEvent("notice", { detail: { notice: "bytes", done: 26e6, total: 27e6 } }))"""
# Values that another page of the same origin may have stored under our names.
FOREIGN = """() => {
  const values = { settings: "null", model: "[1, 2]", "speech-settings": "3", prompt: "{}", hub: "[]", theme: "blue" };
  for (const [name, value] of Object.entries(values)) localStorage.setItem(`pyapp.${name}`, value);
}"""
DOWNLOAD = """async () => {
  const { app } = pyappPage;
  const { id } = app.choices.transcribe.models.find(({ kind }) => kind === "hub");
  await app.engine.call("warm").catch(() => {}); // what it fetches is not there, but the engine goes on
  const begun = performance.now();
  try {
    await app.engine.call("models.download", { model: id, hub: "https://hub.invalid/" });
  } catch ({ what, hint }) {
    return [`${what} ${hint}`, performance.now() - begun];
  }
}"""


def test_a_slow_first_visit(plain_browser: BrowserContext, dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows how much has arrived. Settings of other kinds are not ours. Offline is said at once."""
    send = Handler.body
    late: tuple[str, ...] = ("pyodide.asm.wasm",)
    arriving = threading.Event()

    def slow(self: Handler, source: Path, first: int, last: int) -> None:
        if not any(part in str(source) for part in late):
            return send(self, source, first, last)
        middle = (first + last) // 2
        send(self, source, first, middle)
        arriving.wait(30)
        send(self, source, middle, last)

    monkeypatch.setattr(Handler, "body", slow)
    with SiteServer(dist, isolated=True) as server, watched(plain_browser.new_page()) as story:
        story.page.add_init_script(f"({FOREIGN})()")
        story.page.goto(server.url)
        progress = story.page.locator("#engine-progress")
        expect(progress).to_contain_text(re.compile(r"Loading the engine: [\d.]+ MB of [\d.]+ MB"))
        bar = progress.locator("progress")
        assert 0 < float(bar.get_attribute("value") or 0) / float(bar.get_attribute("max") or 0) < 0.9
        story.page.screenshot(path=OUTPUT / "loading.png")
        arriving.set()
        story.wait_ready()
        story.page.evaluate(LATE_BYTES)
        expect(progress).to_be_hidden()
        assert story.page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")
        assert story.page.locator("#temperature").input_value() == "0.8" and story.model_name() != "…"
        assert story.page.evaluate("pyappPage.app.hub").startswith("https://")
        plain_browser.set_offline(True)
        try:
            says, milliseconds = story.page.evaluate(DOWNLOAD)
        finally:
            plain_browser.set_offline(False)
        assert "This device is offline" in says and milliseconds < 5000
        late = ("model-dialog.js", "history-panel.js", "pdf.min.js", "chat-view.js", "search.css")
        parts_that_arrive_slowly(story, arriving)


def parts_that_arrive_slowly(story: StoryPage, arriving: threading.Event) -> None:
    """The list of models, the history and what opens PDFs: the page says that it waits, and shows them then."""
    page, status = story.page, story.page.locator("#engine-status")
    arriving.clear()
    page.locator("#choose-model").click()
    expect(status).to_have_text("Loading")
    arriving.set()
    expect(page.locator("#model-dialog .model-row").first).to_be_visible()
    expect(status).to_have_text("Ready")
    story.close_dialog()
    arriving.clear()
    page.locator("#history-story summary").click()
    expect(status).to_have_text("Loading")
    arriving.set()
    expect(page.locator("#history-story")).to_contain_text("Nothing yet")
    expect(status).to_have_text("Ready")
    arriving.clear()
    page.evaluate("pyappPage.router.take([new File(['%PDF-1.4'], 'paper.pdf', { type: 'application/pdf' })])")
    expect(page.locator("#read-progress")).to_contain_text("Opening paper.pdf…")
    expect(status).to_have_text("Loading")
    arriving.set()
    expect(page.locator("#read-error")).to_contain_text("is not a PDF, or it is damaged")
    expect(page.locator("#read-progress")).to_be_hidden()
    arriving.clear()
    waiting = page.locator(".view-loading")
    for view in ("Chat", "Search"):
        page.get_by_role("link", name=view).click()
        expect(page.locator(f"#view-{view.lower()}[aria-busy]")).to_have_count(1)
        expect(waiting.filter(visible=True)).to_have_count(1)  # of the view that is wanted now
    page.get_by_role("link", name="Story").click()
    expect(waiting.filter(visible=True)).to_have_count(0)
    arriving.set()
    expect(waiting).to_have_count(0)


def test_what_cannot_start_says_why(browser: BrowserContext, site: SiteServer) -> None:
    page = browser.new_page()
    page.add_init_script("delete Array.prototype.findLast")  # an old browser
    page.goto(site.url)
    expect(page.locator("#boot-reason")).to_contain_text("Array.findLast")
    expect(page.locator("#boot-message")).to_be_visible()
    expect(page.locator("#view-story")).to_be_hidden()
    page.close()

    page = browser.new_page()
    browser.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.goto(site.url)
    expect(page.locator(".noscript")).to_contain_text("JavaScript")
    for part in ("#boot-message", "#view-story", "#engine-status"):  # nothing starts
        expect(page.locator(part)).to_be_hidden()
    page.close()


def with_compressed_wheel(dist: Path) -> dict[str, bytes]:
    """The files of the site that change when pyapp's wheel is compressed."""
    lock = json.loads((dist / "pyodide" / "pyodide-lock.json").read_text())
    entry = lock["packages"]["pyapp"]
    packed = io.BytesIO()
    with zipfile.ZipFile(dist / "pyodide" / entry["file_name"]) as wheel:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as copy:
            for name in wheel.namelist():
                copy.writestr(name, wheel.read(name))
    entry["sha256"] = hashlib.sha256(packed.getvalue()).hexdigest()
    return {
        f"pyodide/{entry['file_name']}": packed.getvalue(),
        "pyodide/pyodide-lock.json": json.dumps(lock).encode(),
    }


def test_stop_while_the_engine_starts_where_the_browser_keeps_no_files(
    plain_browser: BrowserContext, changeable: ChangeableSite, dist: Path
) -> None:
    """As in the private windows of some browsers: no origin private file system."""
    name = "worker.js"
    source = (dist / name).read_text().replace("navigator.storage.getDirectory()", "Promise.reject(new Error('none'))")
    with changeable.changed({name: source.encode()}), watched(plain_browser.new_page()) as story:
        story.page.goto(changeable.url)
        story.until("globalThis.pyappPage?.story !== undefined && (pyappPage.story.generate(), true)")
        expect(story.generate_button).to_have_text("Stop")
        story.generate_button.click()
        expect(story.generate_button).to_have_text("Generate")
        worker = "globalThis.worker ??= pyappPage.app.engine.worker"
        story.page.evaluate(f"{worker}, 1")
        story.wait_ready()
        assert story.page.evaluate(f"({worker}) === pyappPage.app.engine.worker"), "the engine was restarted"
        assert not story.engine()["fromSnapshot"]
        story.settings(max_new_tokens=8)
        story.write("One day")
        story.page.locator("#open-storage").click()
        expect(story.page.locator("#storage-error")).to_contain_text("does not store files")


def test_no_simd_is_explained(launch: Launch, site: SiteServer) -> None:
    context = launch("--js-flags=--no-enable-sse4-1")
    with watched(context.new_page()) as story:
        story.page.goto(site.url)
        expect(story.error).to_contain_text("SIMD")
        expect(story.error).to_contain_text("Firefox")
    context.close()


def test_opened_as_a_file(browser: BrowserContext, dist: Path) -> None:
    page = browser.new_page()
    page.goto(f"file://{dist / 'index.html'}")
    expect(page.locator("#boot-reason")).to_contain_text("http.server")
    expect(page.locator("#boot-message")).to_be_visible()
    page.close()


# The last without its library: Python may print what it misses before the page ends it.
PARTS = ("pyapp-", "pyodide.asm.wasm", "pyodide.asm.js", "python_stdlib.zip")


def test_missing_parts_are_named(
    plain_browser: BrowserContext,
    changeable: ChangeableSite,
    subtests: pytest.Subtests,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other: each start finds the next one missing, the last one all of them. Then some break off in
    their middle.
    """
    forget(plain_browser, changeable, "file_systems")  # no snapshot of Python
    send = Handler.body
    cut = ""
    lost: list[str] = []  # scripts of which the next answer breaks off

    def broken(self: Handler, source: Path, first: int, last: int) -> None:
        if source.name in lost:
            lost.remove(source.name)
        elif not cut or cut not in source.name:
            return send(self, source, first, last)
        send(self, source, first, (first + last) // 2)
        self.close_connection = True

    monkeypatch.setattr(Handler, "body", broken)
    with watched(plain_browser.new_page()) as story, changeable.changed({}, missing=[f"pyodide/{PARTS[0]}"]):
        story.expected_errors = ["404"]
        story.page.goto(changeable.url)
        again = story.error.get_by_role("button", name="Restart the engine")
        for part, following in itertools.zip_longest(PARTS, PARTS[1:]):
            with subtests.test(part):
                expect(story.error.filter(has_text=part)).to_contain_text("is missing on the server (status 404)")
            changeable.missing = (f"pyodide/{following}",) if following else ()
            if following == PARTS[-1]:
                assert story.unexpected_errors() == []
                story.expected_errors.append("/pyodide/pyodide.")
            again.click()
        story.wait_ready()
        protocol = plain_browser.new_cdp_session(story.page)
        for cut in ("pyodide.asm.wasm", "model.bin"):
            with subtests.test(f"{cut} breaks off"):
                protocol.send("Network.clearBrowserCache")
                story.page.reload()
                box = story.error.filter(has_text=cut)
                what = "The embedded model" if cut == "model.bin" else "A part of the program"
                expect(box).to_contain_text(f"{what} could not be loaded.")
                expect(box).to_contain_text("Check your connection, then reload the page.")
        cut = ""
        lost.append("pyodide.asm.js")  # is fetched again
        protocol.send("Network.clearBrowserCache")
        box.get_by_role("button", name="Reload").click()
        story.wait_ready()
        assert not lost


def test_a_page_whose_script_or_style_does_not_arrive_says_so(
    plain_browser: BrowserContext, still: StoryPage, still_site: ChangeableSite
) -> None:
    story, message = still, still.page.locator("#boot-message")
    story.expected_errors = ["404"]
    script = "modules/page/main.js"
    with still_site.changed({}, missing=[script]):
        story.page.goto(still_site.url)
        expect(message).to_contain_text(f"A part of it did not arrive: {script}.")
        expect(story.page.locator("#engine-status")).to_be_hidden()
    with still_site.changed({"css/page.css": b""}):  # as browsers take a style that comes as another kind of file
        story.page.goto(still_site.url)
        expect(message).to_contain_text("A part of it did not arrive: css/page.css.")


def test_in_a_frame_without_an_origin(plain_browser: BrowserContext, dist: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<!doctype html><iframe sandbox="allow-scripts" src="../"></iframe>')
    with SiteServer(dist, mounts={"/frame/": tmp_path}) as server, watched(plain_browser.new_page()) as story:
        story.expected_errors = ["CORS", "ERR_FAILED", "favicon.ico"]
        story.page.goto(f"{server.url}frame/")
        message = story.page.frame_locator("iframe").locator("#boot-message")
        expect(message).to_contain_text("a frame that keeps it from its own files")


def test_content_policy_is_strict_and_the_same_for_page_and_worker(dist: Path) -> None:
    index, worker = ((dist / name).read_text() for name in ("index.html", "service-worker.js"))
    page_policy = re.search(r'Content-Security-Policy" content="([^"]+)"', index)
    worker_policy = re.search(r'"Content-Security-Policy":\s*"([^"]+)"', worker)
    assert page_policy and worker_policy and page_policy[1] == worker_policy[1]
    assert "require-trusted-types-for 'script'" in page_policy[1]
    assert "unsafe-inline" not in page_policy[1] and "'unsafe-eval'" not in page_policy[1]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", index)


def test_the_system_decides_the_colours_until_the_button_does(
    plain_browser: BrowserContext, still: StoryPage, still_site: SiteServer
) -> None:
    story = still
    story.page.emulate_media(color_scheme="dark")
    story.page.goto(still_site.url)
    theme = "document.documentElement.dataset.theme"
    assert story.page.evaluate(theme) == "dark"
    story.page.emulate_media(color_scheme="light")
    assert story.until(f"{theme} === 'light'")
    button = story.page.get_by_role("button", name="Dark colours")
    button.click()
    assert story.page.evaluate(theme) == "dark"
    expect(button).to_have_attribute("aria-pressed", "true")
    story.page.reload()
    assert story.page.evaluate(theme) == "dark"
    with watched(plain_browser.new_page()) as other:
        other.page.goto(still_site.url)
        other.page.get_by_role("button", name="Dark colours").click()
    assert story.until(f"{theme} === 'light'")
    expect(button).to_have_attribute("aria-pressed", "false")
