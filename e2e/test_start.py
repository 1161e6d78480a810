"""The start of Python in the page: a first visit, from a snapshot of its memory, with a damaged snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Worker, expect

from e2e.conftest import ChangeableSite, Launch, watched
from e2e.page import POLL, StoryPage, ViewPage
from e2e.speech_files import samples, spoken, write_speech_model
from e2e.transcribe_page import TranscribePage
from scripts.serve import SiteServer

# The kept snapshot's name and size, once it has been written whole (and is not what OVERWRITE writes); null before.
# While it is written, Chromium lists another file, whose name ends with .crswap: a page closed then keeps nothing.
SNAPSHOT = """async () => {
  try {
    const top = await (await navigator.storage.getDirectory()).getDirectoryHandle("pyapp");
    const folder = await top.getDirectoryHandle("snapshots");
    for await (const [name, handle] of folder.entries()) {
      const file = await handle.getFile();
      const [first] = new Uint8Array(await file.slice(0, 1).arrayBuffer());
      if (name.endsWith(".bin") && file.size > 1e6 && first !== 7) return { name, size: file.size };
    }
  } catch (error) {
    if (!["NotFoundError", "NotReadableError"].includes(error.name)) throw error; // or just being replaced
  }
  return null;
}"""
# The file has its name a moment before the page that has written it lets go of it.
WRITE = """async (name) => {
  const top = await (await navigator.storage.getDirectory()).getDirectoryHandle("pyapp");
  const handle = await (await top.getDirectoryHandle("snapshots")).getFileHandle(name);
  for (let tries = 100; !globalThis.writing; tries--) {
    try {
      globalThis.writing = await handle.createWritable();
    } catch (error) {
      if (error.name !== "NoModificationAllowedError" || !tries) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}"""
OVERWRITE = """async (size) => {
  await writing.write(new Uint8Array(size).fill(7));
  await writing.close();
  globalThis.writing = undefined;
}"""

# From then on `waiting` has the timers and frames that a page, or a worker, still waits for.
WATCH_TIMERS = """
  globalThis.waiting = new Map();
  for (const [begin, end] of [["setTimeout", "clearTimeout"], ["setInterval", "clearInterval"],
      ["requestAnimationFrame", "cancelAnimationFrame"]]) {
    const [ask, drop] = [globalThis[begin], globalThis[end]];
    globalThis[begin] = (work, ...rest) => {
      const id = ask((...values) => {
        if (begin !== "setInterval") waiting.delete(`${begin} ${id}`);
        work(...values);
      }, ...rest);
      waiting.set(`${begin} ${id}`, String(work));
      return id;
    };
    globalThis[end] = (id) => (waiting.delete(`${begin} ${id}`), drop(id));
  }
"""


def engine_of(tab: ViewPage) -> Worker:
    """The worker with Python, but not the Lab's, nor the helpers of the pool."""
    [engine] = [worker for worker in tab.page.workers if worker.url.endswith("/worker.js")]
    return engine


def comes_to_rest(tab: ViewPage) -> None:
    """Waits until nothing of a page goes on by itself: no timer, frame or animation, nor a timer of the engine.
    (The pool's helpers have no timers: they wait inside a kernel.)
    """
    tab.until("waiting.size === 0 && document.getAnimations().every(({ playState }) => playState !== 'running')")
    for _ in range(200):
        if not (waiting := engine_of(tab).evaluate("[...waiting.values()]")):
            return
        tab.page.wait_for_timeout(POLL)
    pytest.fail(f"the engine still waits for {waiting}")


@contextmanager
def bare_page(browser: BrowserContext, site: SiteServer) -> Iterator[Page]:
    """A page of the site's origin that starts no Python."""
    page = browser.new_page()
    page.goto(f"{site.url}app.webmanifest")
    yield page
    page.close()


def keep_snapshot(page: Page) -> dict[str, int | str]:
    """Waits until the visit's snapshot is there."""
    for _ in range(100):
        found: dict[str, int | str] | None = page.evaluate(SNAPSHOT)
        if found:
            return found
        page.wait_for_timeout(100)
    pytest.fail("no snapshot was kept")


@dataclass
class FirstVisit:
    """What a first visit did, and the browser that made it."""

    browser: BrowserContext
    navigations: list[str]
    requests: list[str]  # until Python was ready
    elsewhere: list[str]  # addresses of other origins that the page, its workers or its service worker asked
    from_snapshot: bool
    isolated: bool


def foreign(url: str, site: SiteServer) -> bool:
    return url.startswith(("http:", "https:", "ws:", "wss:")) and not url.startswith(site.url)


@pytest.fixture(scope="module")
def first_visit(launch: Launch, isolated: SiteServer) -> Iterator[FirstVisit]:
    context = launch()
    navigations: list[str] = []
    elsewhere: list[str] = []
    context.on("request", lambda request: elsewhere.append(request.url) if foreign(request.url, isolated) else None)
    before = len(isolated.requests)
    with watched(context.new_page(), TranscribePage) as tab:
        tab.page.on("framenavigated", lambda frame: navigations.append(frame.url))
        tab.open(isolated.url)
        requests = isolated.requests[before:]
        keep_snapshot(tab.page)
        shared_memory = tab.page.evaluate("crossOriginIsolated")
        visit = FirstVisit(context, navigations, requests, elsewhere, tab.engine()["fromSnapshot"], shared_memory)
    yield visit
    context.close()


@pytest.fixture
def visited(first_visit: FirstVisit) -> BrowserContext:
    """A browser that has visited the page before."""
    return first_visit.browser


def test_isolation_headers_of_the_host_are_enough(first_visit: FirstVisit, isolated: SiteServer) -> None:
    """The page need not be loaded twice."""
    assert first_visit.navigations == [f"{isolated.url}#transcribe"]
    assert first_visit.isolated
    assert not first_visit.from_snapshot


def test_a_visit_to_all_views_asks_no_other_site_and_comes_to_rest(
    first_visit: FirstVisit, isolated: SiteServer, dist: Path
) -> None:
    """Not even while it works: the samples and the models are files of the site."""
    sample = samples(dist)[0]
    with watched(first_visit.browser.new_page(), TranscribePage) as tab:
        tab.page.add_init_script(WATCH_TIMERS)
        tab.open(isolated.url)
        engine_of(tab).evaluate(WATCH_TIMERS)
        assert tab.engine()["fromSnapshot"]
        tab.page.get_by_role("button", name=sample["title"]).click()
        tab.wait_done()
        assert spoken(tab.text()) == spoken(sample["text"])
        for view in ("story", "read", "chat", "search", "lab"):
            if view == "read":
                comes_to_rest(tab)  # before more is loaded
            tab.page.evaluate(f"location.hash = '#{view}'")
            tab.page.wait_for_function(f"() => pyappPage.{view} !== undefined")
    assert first_visit.elsewhere == []


def test_a_visit_asks_for_few_files(first_visit: FirstVisit, dist: Path) -> None:
    """Scripts and styles come in one file each, those of the view too, and of the models only the shown one."""
    asked = [path for path in first_visit.requests if path.endswith((".js", ".css")) or "/models/" in path]
    ours = ["boot.js", "css/page.css", "modules/page/main.js", "service-worker.js", "worker.js"]
    ours += ["css/transcribe.css", "modules/views/transcribe/transcribe-view.js"]
    ours += ["pyodide/pyodide.js", "pyodide/pyodide.asm.js", "tokenizers/tokenizers.min.js"]
    models = json.loads((dist / "registry.json").read_text())["models"]
    model = next(model for model in models if model["kind"] == "embedded" and model["task"] == "transcribe")
    assert {path.removeprefix("/") for path in asked} == {*ours, *(file["path"] for file in model["files"])}
    archives = {path.split("/")[-1].split("-")[0] for path in first_visit.requests if path.endswith((".whl", ".zip"))}
    assert archives in ({"python_stdlib.zip", "pyapp", kernels, "numpy"} for kernels in ("pyapp_relaxed", "pyapp_simd"))


def test_later_visits_start_from_a_snapshot(visited: BrowserContext, isolated: SiteServer) -> None:
    """A damaged one is made anew. Another tab may write it meanwhile."""
    texts = []
    with bare_page(visited, isolated) as other:
        kept = keep_snapshot(other)
        other.evaluate(WRITE, kept["name"])
        other.evaluate(OVERWRITE, kept["size"])
        with watched(visited.new_page()) as story:
            story.open(isolated.url)
            assert not story.engine()["fromSnapshot"]
            story.settings(max_new_tokens=8)
            story.write("One day")
            kept = keep_snapshot(story.page)
        for another_writes in (False, True):
            if another_writes:
                other.evaluate(WRITE, kept["name"])
            with watched(visited.new_page()) as story:
                story.open(isolated.url)
                assert story.engine()["fromSnapshot"]
                story.settings(max_new_tokens=24, temperature=1.0)
                texts.append(story.write("One day"))
                if another_writes:
                    other.evaluate("writing.abort()")
                    assert keep_snapshot(story.page) == kept
    assert texts[0] != texts[1], "what is restored draws the same random numbers"


# A compiler that never answers a start; the page's clock runs fast.
STUCK = b"WebAssembly.compileStreaming = () => new Promise(() => {});"
FAST = "const wait = setTimeout; globalThis.setTimeout = (work, time, ...rest) => wait(work, time / 40, ...rest)"


def test_a_start_that_stands_still(plain_browser: BrowserContext, changeable: ChangeableSite, dist: Path) -> None:
    """The page offers to restart the engine, and goes on when it is there."""
    with watched(plain_browser.new_page()) as story:
        story.page.add_init_script(FAST)
        with changeable.changed({"worker.js": STUCK + (dist / "worker.js").read_bytes()}):
            story.page.goto(changeable.url)
            box = story.page.locator("#story-error .error-box")
            expect(box).to_contain_text("The engine has not started yet.")
        box.get_by_role("button", name="Restart the engine").click()
        story.wait_ready()
        for slot in ("#story-error", "#transcribe-error"):
            expect(story.page.locator(slot)).to_be_empty()


def test_a_language_chosen_before_the_model_is_there(
    plain_browser: BrowserContext, changeable: ChangeableSite, dist: Path, tmp_path: Path
) -> None:
    """Another model under the name of the embedded one: it supports German, but detects English in every sound."""
    changed = {f"models/speech/{path.name}": path.read_bytes() for path in write_speech_model(tmp_path / "model")}
    sample = json.dumps(samples(dist)[0])
    with changeable.changed(changed), watched(plain_browser.new_page(), TranscribePage) as tab:
        tab.page.add_init_script("localStorage.setItem('pyapp.speech-settings', '{\"language\": \"de\"}')")
        tab.page.goto(f"{changeable.url}#transcribe")
        tab.until(f"globalThis.pyappPage?.transcribe !== undefined && (pyappPage.transcribe.trySample({sample}), true)")
        assert tab.engine() is None, "the engine was there before the click"
        tab.wait_done()
        expect(tab.page.locator("#metric-language")).to_have_text("German")
        assert tab.page.locator("#speech-language").input_value() == "de"


ASK = """async ([method, params]) => {
  try {
    return await pyappPage.app.engine.call(method, params);
  } catch (error) {
    return { what: error.what, where: error.where };
  }
}"""


def test_what_comes_later_is_fetched_again_where_it_did_not_arrive(
    plain_browser: BrowserContext, changeable: ChangeableSite
) -> None:
    """A story and a transcript do without the later parts. What needs them says that one is missing, and works when it
    is there: a task that waits for them, and an import in the middle of another."""
    model = "pyappPage.app.choices.generate.model.id"
    with watched(plain_browser.new_page()) as story:
        story.expected_errors.append("404")
        with changeable.changed({}, missing=["_later-"]):
            story.open(changeable.url)
            story.until("pyappPage.app.choices.generate.model !== null")
            several = {"prompt": "One day", "options": {"samples": 2, "max_new_tokens": 4}}
            several["model"] = story.page.evaluate(model)
            transcript = {"segments": [{"text": "One day", "start": 0, "end": 1}], "format": "srt"}
            story.settings(max_new_tokens=8)
            story.write("One day")
            story.page.evaluate("location.hash = '#transcribe'")
            story.page.locator("#samples button").first.click()
            assert TranscribePage(story.page).wait_done().text().startswith("Two tickets")
            story.page.evaluate("location.hash = '#story'")
            failed = story.page.evaluate(ASK, ["export", transcript])
            assert "missing on the server" in failed["what"] and "_later-" in failed["where"]
            failed = story.page.evaluate(ASK, ["generate", several])
            assert "pyapp.text.generation.several" in failed["what"] and "_later-" in failed["where"]
            story.write("One day")
        assert story.page.evaluate(ASK, ["generate", several])["reason"] == "complete"
        assert "One day" in story.page.evaluate(ASK, ["export", transcript])["text"]
        views_that_do_not_arrive(story, changeable)


def views_that_do_not_arrive(story: StoryPage, changeable: ChangeableSite) -> None:
    """The page names what is missing, and tries again: a script, a style and a dialog."""
    page = story.page
    box, again = page.locator("#view-error .error-box"), page.get_by_role("button", name="Try again")
    for view, file, shown in (("Chat", "chat-view.js", "#chat-field"), ("Search", "search.css", "#search-form")):
        with changeable.changed({}, missing=[file]):
            page.get_by_role("link", name=view).click()
            for times in range(2):
                expect(box).to_contain_text(f"The view “{view}” could not be loaded.")
                expect(box).to_contain_text("is missing on the server (status 404)")
                expect(box).to_contain_text(file)
                if times == 0:
                    again.click()
        again.click()
        page.locator(shown).wait_for(state="attached")
        expect(box).to_be_hidden()
    page.get_by_role("link", name="Story").click()
    with changeable.changed({}, missing=["model-dialog.js"]):
        page.locator("#choose-model").click()
        expect(story.error).to_contain_text("The list of models could not be loaded.")
    again.click()
    page.wait_for_selector("#model-dialog[open] .model-row")


# The files of snapshots do not answer; a tenth of the page's patience with them has to do.
SILENT = b"""{
  const [open, wait] = [FileSystemFileHandle.prototype.createSyncAccessHandle, setTimeout];
  globalThis.setTimeout = (work, time, ...rest) => wait(work, time === 5000 ? 500 : time, ...rest);
  FileSystemFileHandle.prototype.createSyncAccessHandle = function (...options) {
    return this.name.startsWith("python-") ? new Promise(() => {}) : open.apply(this, options);
  };
}
"""


def test_a_snapshot_whose_file_does_not_answer(
    plain_browser: BrowserContext, changeable: ChangeableSite, dist: Path
) -> None:
    """The engine starts without it."""
    with bare_page(plain_browser, changeable) as other:
        if other.evaluate(SNAPSHOT) is None:  # no test before this one has made it
            with watched(plain_browser.new_page()) as story:
                story.open(changeable.url)
                keep_snapshot(other)
    worker = SILENT + (dist / "worker.js").read_bytes()
    with changeable.changed({"worker.js": worker}), watched(plain_browser.new_page()) as story:
        story.open(changeable.url)
        assert not story.engine()["fromSnapshot"]


def test_a_worker_that_does_not_load_is_reported(plain_browser: BrowserContext, changeable: ChangeableSite) -> None:
    """It fails before the page's own modules are loaded."""
    with changeable.changed({"worker.js": b"this is no script"}), watched(plain_browser.new_page()) as story:
        story.page.goto(changeable.url)
        story.until("document.getElementById('story-error').textContent.includes('could not be loaded')")
        story.expected_errors.append("SyntaxError")
