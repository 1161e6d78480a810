"""The page in a real browser: the site on localhost, Chromium with its own profile, a hub that fails on purpose."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from playwright.sync_api import BrowserContext, Page, Playwright, ViewportSize, expect, sync_playwright

from e2e.chat_page import ChatPage
from e2e.fake_hub import FakeHub
from e2e.page import StoryPage, ViewPage
from e2e.speech_files import samples, write_speech_model
from e2e.transcribe_page import TranscribePage
from scripts.serve import SiteServer

ROOT = Path(__file__).resolve().parents[1]
DIST = Path(os.environ.get("PYAPP_SITE", ROOT / "dist"))
OUTPUT = ROOT / "tests" / "output"
WIDE: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 780}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def dist() -> Path:
    """The assembled site."""
    if not (DIST / "manifest.json").is_file():
        pytest.fail("there is no site to test: run `make site` first")
    return DIST


@pytest.fixture(scope="session")
def site(dist: Path) -> Iterator[SiteServer]:
    with SiteServer(dist) as server:
        yield server


@pytest.fixture(scope="session")
def isolated(dist: Path) -> Iterator[SiteServer]:
    """The site on a host that sends the headers for isolation."""
    with SiteServer(dist, isolated=True) as server:
        yield server


class ChangeableSite(SiteServer):
    """The site on one origin for many tests: each may replace files, or take some away, while it runs."""

    def __init__(self, dist: Path, overlay: Path) -> None:
        super().__init__(dist, isolated=True, compressed=False)
        self.overlay = overlay
        self.missing: tuple[str, ...] = ()

    def find(self, path: str) -> Path | None:
        name = path.removeprefix(self.prefix)
        if any(part in name for part in self.missing):
            return None
        return place if (place := self.overlay / name).is_file() else super().find(path)

    @contextmanager
    def changed(self, files: Mapping[str, bytes], missing: Sequence[str] = ()) -> Iterator[None]:
        """With these files in place of the site's, and without those whose path contains a text of `missing`; then what
        was there before."""
        self.missing = tuple(missing)
        before = {place: place.read_bytes() for name in files if (place := self.overlay / name).is_file()}
        for name, data in files.items():
            place = self.overlay / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        try:
            yield
        finally:
            self.missing = ()
            for name in files:
                place = self.overlay / name
                if place in before:
                    place.write_bytes(before[place])
                else:
                    place.unlink()


@pytest.fixture(scope="session")
def changeable_site(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangeableSite]:
    with ChangeableSite(dist, tmp_path_factory.mktemp("changed")) as server:
        yield server


@pytest.fixture
def changeable(plain_browser: BrowserContext, changeable_site: ChangeableSite) -> Iterator[ChangeableSite]:
    """A site that a test may change, for `plain_browser`: with a snapshot of Python, without a test's settings."""
    yield changeable_site
    forget(plain_browser, changeable_site)


@pytest.fixture(scope="session")
def still_site(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangeableSite]:
    """The site with a worker that says nothing: its pages cost no start of Python."""
    with ChangeableSite(dist, tmp_path_factory.mktemp("still")) as server, server.changed({"worker.js": b""}):
        yield server


@pytest.fixture
def still(plain_browser: BrowserContext, still_site: ChangeableSite) -> Iterator[StoryPage]:
    """A new tab for what the page does by itself, without an engine; the test opens it at `still_site`."""
    with watched(plain_browser.new_page()) as story:
        yield story
    forget(plain_browser, still_site)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=20_000)
    with sync_playwright() as instance:
        yield instance


Launch = Callable[..., BrowserContext]
View = TypeVar("View", bound=ViewPage)


@pytest.fixture(scope="session")
def launch(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Starts Chromium with a profile of its own: a first visit. Closed at the end, if not before.

    Without animations, which are drawn by the processor here, and cost as much as the rest of a start.
    """
    opened: list[BrowserContext] = []

    def start(*arguments: str, profile: Path | None = None, **options: Any) -> BrowserContext:
        executable = shutil.which("chromium") or shutil.which("google-chrome")
        if executable is None:
            pytest.fail("Chromium is not installed: run `make test`, which installs it")
        context = playwright.chromium.launch_persistent_context(
            profile or tmp_path_factory.mktemp("profile"),
            executable_path=executable,
            args=[*ARGUMENTS, *arguments],
            **{"viewport": WIDE, "reduced_motion": "reduce", **options},
        )
        context.set_default_timeout(20_000)
        opened.append(context)
        return context

    yield start
    for context in opened:
        try:
            context.close()
        except Exception:  # closed by the test
            pass


@pytest.fixture(scope="session")
def one_browser(launch: Launch, dist: Path) -> BrowserContext:
    """Its microphone hears the first sample, over and over, where a test permits it."""
    sound = dist / samples(dist)[0]["path"]
    microphone = ["--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={sound}"]
    return launch("--deny-permission-prompts", *microphone)


@pytest.fixture(scope="session")
def plain_browser(launch: Launch) -> BrowserContext:
    """One browser for all tests that change files of the site, or break it on purpose.

    It has no service worker, which would store each of these sites whole; their servers send the headers for isolation.
    Like pages of http:// addresses (localhost is an exception) it has no crypto.randomUUID either.
    """
    context = launch()
    context.add_init_script("delete Navigator.prototype.serviceWorker; delete Crypto.prototype.randomUUID")
    return context


@pytest.fixture(scope="module")
def browser(one_browser: BrowserContext, site: SiteServer) -> Iterator[BrowserContext]:
    """One browser for all tests that need no first visit; a module finds no settings and conversations of others."""
    yield one_browser
    one_browser.clear_permissions()
    for page in one_browser.pages[1:]:
        page.close()
    forget(one_browser, site)


def forget(context: BrowserContext, site: SiteServer, kinds: str = "local_storage,indexeddb") -> None:
    """Clears what a browser has stored for a site: by default settings and history, but not its files."""
    protocol = context.new_cdp_session(context.pages[0])
    protocol.send("Storage.clearDataForOrigin", {"origin": site.origin, "storageTypes": kinds})
    protocol.detach()


@pytest.fixture(scope="module")
def tab(browser: BrowserContext, site: SiteServer) -> Iterator[StoryPage]:
    """One tab, for all tests of a module that do not need a new one."""
    yield (page := StoryPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def story(tab: StoryPage, site: SiteServer, request: pytest.FixtureRequest) -> Iterator[StoryPage]:
    """The page, ready to write, with the embedded model; fails the test if the console showed an error."""
    with shared(tab, site.url, request):
        yield tab


@contextmanager
def shared(page: ViewPage, url: str, request: pytest.FixtureRequest, reset: bool = True) -> Iterator[None]:
    """Hands a page to a test as it is at the beginning; after a test that failed it is loaded again."""
    if reset:
        page.reset()
        page.wait_ready()  # where stopping what the test before left took too long, the engine starts anew
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        page.open(url)
    else:
        assert page.unexpected_errors() == []


class watched(Generic[View]):
    """A page whose errors fail the test at its end, unless the test expects them (`page.expected_errors`)."""

    def __init__(self, page: Page, view: type[View] = StoryPage) -> None:  # type: ignore[assignment]
        self.page = view(page)

    def __enter__(self) -> View:
        return self.page

    def __exit__(self, kind: object, *rest: object) -> None:
        self.page.page.close()
        if kind is None:
            assert self.page.unexpected_errors() == []


@pytest.fixture(scope="module")
def speech_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a speech model that says SAID of speech_files.py, at 0 to 4 and 5 to 9 seconds, for any sound."""
    folder = tmp_path_factory.mktemp("model")
    write_speech_model(folder)
    return folder


@pytest.fixture(scope="module")
def speech_tab(browser: BrowserContext, site: SiteServer) -> Iterator[TranscribePage]:
    """One tab, for all tests that do not need a new one."""
    page = TranscribePage(browser.new_page()).open(site.url)
    yield page
    page.page.close()


@pytest.fixture
def transcribe(
    speech_tab: TranscribePage, site: SiteServer, request: pytest.FixtureRequest
) -> Iterator[TranscribePage]:
    """The view with the embedded model and nothing wrong; fails the test if the console showed an error."""
    with shared(speech_tab, site.url, request):
        yield speech_tab


@pytest.fixture(scope="module")
def chat_tab(browser: BrowserContext, site: SiteServer) -> Iterator[ChatPage]:
    """One tab, for all tests that do not need a new one."""
    yield (page := ChatPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def chat(chat_tab: ChatPage, site: SiteServer, request: pytest.FixtureRequest) -> Iterator[ChatPage]:
    """The view with a new conversation and the embedded model; fails the test if the console showed an error."""
    with shared(chat_tab, site.url, request):
        yield chat_tab


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.stop()
