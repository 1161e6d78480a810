"""The number of hypotheses in the transcribe view's beam search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext

from e2e.conftest import watched
from e2e.transcribe_page import TranscribePage
from scripts.serve import SiteServer

ASKED = """() => {
  const { engine } = pyappPage.app;
  const call = engine.call.bind(engine);
  globalThis.asked = [];
  engine.call = (method, params, ...rest) => {
    if (method === "transcribe") globalThis.asked.push(params.options.beam_size);
    return call(method, params, ...rest);
  };
}"""
BIG = "pyappPage.transcribe.settings.options({ bytes: 154e6 }).beam_size"
LIVE = "pyappPage.transcribe.settings.options({ bytes: 2e6 }, { live: true }).beam_size"
UNKNOWN = "pyappPage.transcribe.settings.options({ bytes: 0 }).beam_size"


@pytest.fixture
def transcribe(browser: BrowserContext, site: SiteServer) -> Iterator[TranscribePage]:
    with watched(browser.new_page(), TranscribePage) as page:
        yield page.open(site.url)


def test_small_models_search_thoroughly_by_themselves(transcribe: TranscribePage, site: SiteServer) -> None:
    page = transcribe.page
    page.evaluate(ASKED)
    page.locator("#samples button").first.click()
    transcribe.wait_done()
    assert page.evaluate("asked") == [5] and transcribe.text().startswith("Two tickets to Rome")
    assert [page.evaluate(one) for one in (BIG, UNKNOWN, LIVE)] == [None] * 3
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.select_option("#speech-search", "1")
    transcribe.button.click()
    transcribe.wait_done()
    assert page.evaluate("asked") == [5, None]
    transcribe.open(site.url)  # the choice is remembered
    assert page.locator("#speech-search").input_value() == "1"
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.select_option("#speech-search", "5")
    assert page.evaluate(BIG) == 5
