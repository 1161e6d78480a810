"""The choice of the graphics card: what computes there, and what the page does when it is lost or full.

Chromium's card is SwiftShader, which computes on the processor.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Worker, expect

from e2e.chat_page import ChatPage
from e2e.conftest import Launch, forget, watched
from e2e.page import StoryPage
from scripts.serve import SiteServer
from tests.pyodide.runner import WEBGPU

SETTINGS = {"temperature": 0.0, "max_new_tokens": 24, "seed": 7}
CHOSEN = "localStorage.setItem('pyapp.graphics-card', 'true')"
# Counts what the worker sends to the card, which is lost after so many.
COUNT = """() => {
  self.sent = 0;
  const create = GPUDevice.prototype.createCommandEncoder;
  GPUDevice.prototype.createCommandEncoder = function (...args) {
    self.sent += 1;
    if (self.sent === self.lostAt) this.destroy();
    return create.apply(this, args);
  };
}"""
# The browser has no memory left for buffers.
FULL = "() => { GPUDevice.prototype.popErrorScope = async () => ({ message: 'out of memory' }); }"


@pytest.fixture(scope="module")
def with_card(launch: Launch) -> BrowserContext:
    return launch(*WEBGPU)


@pytest.fixture
def story(with_card: BrowserContext, site: SiteServer) -> Iterator[StoryPage]:
    with watched(with_card.new_page()) as page:
        yield page.open(site.url)
    forget(with_card, site)


def engine_of(story: StoryPage) -> Worker:
    """The worker in which Python computes; the others are its threads."""
    return next(worker for worker in reversed(story.page.workers) if worker.url.endswith("/worker.js"))


def choose(story: StoryPage, where: str) -> None:
    """Chooses in the panel where stories are computed, and waits for the new engine."""
    story.page.locator("#open-storage").click()
    story.page.evaluate("globalThis.before = pyappPage.app.engine.worker, 1")
    story.page.locator("#computes-on").select_option(where)
    story.until("pyappPage.app.engine.worker !== globalThis.before")
    story.wait_ready()


def help_text(story: StoryPage) -> str:
    return story.page.locator("#computes-on-help").inner_text()


def test_stories_and_conversations_compute_on_the_card_until_it_is_lost(story: StoryPage, site: SiteServer) -> None:
    """Then the setting is kept. What is written stays, and the engine starts anew on the threads."""
    written = story.settings(**SETTINGS).write("One day, a fox")
    choose(story, "card")
    expect(story.page.locator("#computes-on-help")).to_contain_text("They compute on the graphics card now (")
    story.close_dialog()
    engine = engine_of(story)
    engine.evaluate(COUNT)
    assert story.write("One day, a fox") == written
    before = engine.evaluate("self.sent")
    assert before > SETTINGS["max_new_tokens"]
    chat = ChatPage(story.page)
    story.page.evaluate("location.hash = '#chat'")
    chat.field.wait_for()
    assert chat.settings(temperature=0, max_new_tokens=8).say("One day, a fox")
    assert engine.evaluate("self.sent") > before + 8

    story.page.evaluate("location.hash = '#story'")
    story.settings(**{**SETTINGS, "max_new_tokens": 200})
    story.start("One day, a fox")
    story.until("pyappPage.story.output.ids.length > 5", timeout=60)
    engine.evaluate("() => { self.lostAt = self.sent + 3; }")
    expect(story.error).to_contain_text("The graphics card is not there any more", timeout=60_000)
    expect(story.error).to_contain_text("computes on the processor's threads. Nothing of yours is lost")
    kept = story.text()
    assert len(kept) > len("One day, a fox ")
    story.wait_ready()
    expect(story.error).to_be_visible()
    story.settings(**SETTINGS)
    story.error.get_by_role("button", name="Try again").click()
    story.wait_done()
    assert story.text()[:20] == kept[:20] and story.error.count() == 0
    story.page.locator("#open-storage").click()
    assert "has failed with the graphics card, so the threads compute. Reload" in help_text(story)
    expect(story.page.locator("#computes-on")).to_have_value("card")
    expect(story.page.locator("#threads-help")).not_to_contain_text("failed")


def test_a_model_that_does_not_fit(story: StoryPage) -> None:
    story.page.evaluate(CHOSEN)
    story.page.reload()
    engine_of(story).evaluate(FULL)
    expect(story.error).to_contain_text("The model does not fit the memory of the graphics card", timeout=60_000)
    story.error.get_by_role("button", name="Compute on the threads").click()
    story.wait_ready()
    assert story.settings(**SETTINGS).write("One day") and story.error.count() == 0
    assert story.page.evaluate("localStorage.getItem('pyapp.graphics-card')") == "false"


def test_without_a_card_there_is_no_choice(one_browser: BrowserContext, site: SiteServer) -> None:
    """A browser with none does not offer it; where it was chosen, in another one, the threads compute."""
    with watched(one_browser.new_page()) as story:
        story.open(site.url).page.locator("#open-storage").click()
        story.page.wait_for_timeout(300)
        expect(story.page.locator("#threads")).to_be_visible()
        expect(story.page.locator("#computes-on")).to_have_count(0)
        story.page.evaluate(CHOSEN)
        story.page.reload()
        story.wait_ready()
        assert story.settings(**SETTINGS).write("One day")
        story.page.locator("#open-storage").click()
        expect(story.page.locator("#computes-on-help")).to_contain_text("The threads compute: ")
        expect(story.page.locator("#computes-on-help")).to_contain_text("no graphics card that it trusts")
    forget(one_browser, site)
