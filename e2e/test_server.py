"""The page at the address of `pyapp serve`: Chat and Transcribe use the server in place of the tab."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Locator, Page, expect

from e2e.chat_page import ChatPage
from e2e.page import StoryPage
from e2e.transcribe_page import TranscribePage
from scripts.serve import SiteServer
from tests.serve.conftest import Process
from tests.serve.test_process import wait_until
from tests.text.chat_model import write_chat_model
from tests.text.picture_chat_model import photo, write_picture_chat_model

KEY = {"Authorization": "Bearer secret"}
SAMPLE = Path("web/models/speech/samples/weather.wav")


@pytest.fixture(scope="module")
def server(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("served")
    write_chat_model(folder / "chat", context=2048, dim=256, layers=8)  # a fast machine, too, can be stopped in time
    (folder / "keys").write_text("secret\n")
    write_picture_chat_model(folder / "seeing", "idefics3")
    models = [f"small={folder / 'chat'}", f"other={folder / 'chat'}", f"seeing={folder / 'seeing'}", "speech"]
    with Process(*models, "--page", str(dist), "--api-key-file", str(folder / "keys"), "--vad", "energy") as found:
        yield found


@pytest.fixture(scope="module")
def page(plain_browser: BrowserContext) -> Iterator[Page]:
    yield (page := plain_browser.new_page())
    page.close()


def card(page: Page, task: str) -> Locator:
    return page.locator(f"#{task}-server")


def use(page: Page, task: str) -> Locator:
    """Gives the key and connects."""
    found = card(page, task)
    found.get_by_label("API key").fill("secret")
    found.get_by_role("button", name="Use this server").click()
    expect(found.get_by_role("button", name="Compute in this tab")).to_be_visible()
    return found


def test_chat_with_the_server(server: Process, page: Page) -> None:
    chat = ChatPage(page).open(f"http://127.0.0.1:{server.port}/")
    found = card(page, "chat")
    found.get_by_role("button", name="Use this server").click()  # the card is open: this page's server computes too
    chat.expected_errors.append("401")
    expect(found.get_by_role("alert")).to_contain_text("asks for an API key")
    found.get_by_label("API key").fill("wrong")
    found.get_by_role("button", name="Use this server").click()
    expect(found.get_by_role("alert")).to_contain_text("does not accept this key")
    use(page, "chat")
    expect(found.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#chat-model")).to_be_hidden()
    model = found.get_by_label("Its model")
    assert model.locator("option").all_text_contents() == ["small", "other", "seeing"]  # no speech model
    model.select_option("other")
    chat.settings(temperature=0, max_new_tokens=24)
    asked = {"model": "other", "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 24}
    answer = json.loads(server.post("/v1/chat/completions", asked, **KEY).read())["choices"][0]["message"]["content"]
    assert chat.say("hello") == answer
    assert chat.last()["reason"] == "length" and chat.last()["new_tokens"] == 24
    expect(chat.turn(1)).to_contain_text("other")

    before = server.metric("pyapp_new_tokens_total")
    chat.settings(max_new_tokens=1500)
    chat.field.fill("and then?")
    chat.field.press("Enter")
    wait_until(lambda: server.metric("pyapp_new_tokens_total") > before + 10)
    page.keyboard.press("Escape")
    assert chat.answered() and chat.last()["reason"] == "cancelled"
    wait_until(lambda: server.metric("pyapp_requests_in_flight") == 0)
    assert server.metric("pyapp_new_tokens_total") < before + 1500

    # A picture is sent to it; a model that sees none says so.
    picture = BytesIO()
    Image.fromarray(photo(30, 41)).save(picture, "PNG")
    url = f"data:image/png;base64,{b64encode(picture.getvalue()).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}]
    asked |= {"model": "seeing", "messages": [{"role": "user", "content": parts}]}
    seen = json.loads(server.post("/v1/chat/completions", asked, **KEY).read())["choices"][0]["message"]["content"]
    page.evaluate("pyappPage.chat.begin()")
    chat.settings(max_new_tokens=24)
    for name in ("other", "seeing"):
        model.select_option(name)
        page.locator("#chat-pictures").set_input_files(
            [{"name": "fox.png", "mimeType": "image/png", "buffer": picture.getvalue()}]
        )
        expect(page.locator("#chat-attachments > li")).to_have_count(1)
        if name == "seeing":
            page.evaluate("pyappPage.chat.begin()")
            assert chat.say("What is this?") == seen
        else:
            chat.expected_errors.append("400")
            chat.field.fill("What is this?")
            chat.field.press("Enter")
            expect(chat.error).to_contain_text("reads no pictures")
            page.evaluate("pyappPage.chat.over")
    model.select_option("other")

    page.reload()  # the server, its model and, in this tab, the key are those of the last visit
    chat.open(f"http://127.0.0.1:{server.port}/")
    expect(found.get_by_label("Its model")).to_have_value("other")
    found.get_by_role("button", name="Compute in this tab").click()
    expect(page.locator("#chat-model")).to_be_visible()
    expect(page.locator("#chat-title")).to_contain_text("in this tab")


def test_transcribe_with_the_server(server: Process, page: Page) -> None:
    view = TranscribePage(page).open(f"http://127.0.0.1:{server.port}/")
    use(page, "transcribe")
    heard = server.metric("pyapp_sound_seconds_total")
    view.take(SAMPLE).wait_done()
    expect(page.locator("#transcript")).to_contain_text("snow")
    assert server.metric("pyapp_sound_seconds_total") > heard  # and not in the tab
    segments: list[dict[str, Any]] = page.evaluate("pyappPage.transcribe.sheet.transcript.segments")
    assert segments[0]["words"][0]["end"] > 0 and segments[-1]["end"] > segments[0]["start"]
    assert view.words.count() > 3
    view.expected_errors.append("503")
    page.route("**/v1/audio/transcriptions", lambda route: route.fulfill(
        status=503, body=json.dumps({"error": {"message": "the server has too many requests"}})))  # fmt: skip
    page.locator("#transcribe").click()
    expect(view.error).to_contain_text("too many requests")
    page.unroute("**/v1/audio/transcriptions")
    view.error.get_by_role("button", name="Try again").click()
    view.wait_done()
    expect(page.locator("#transcript")).to_contain_text("snow")


def test_other_sites_load_nothing_of_it(still: StoryPage, still_site: SiteServer) -> None:
    """Without a server behind it the card is closed, and its fields are fetched when it is opened."""
    page, asked = still.page, list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{still_site.url}#chat")
    page.locator("#chat-field").wait_for()
    found = card(page, "chat")
    assert not any("modules/server" in url or "/v1/" in url for url in asked)
    found.locator("summary").click()
    found.get_by_label("Address").fill("http://127.0.0.1:9")
    found.get_by_role("button", name="Use this server").click()
    still.expected_errors.append("ERR_")
    expect(found.get_by_role("alert")).to_contain_text("did not answer")
    assert any("modules/server/server-panel.js" in url for url in asked)
