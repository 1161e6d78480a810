"""Texts that are spoken: a voice of the hub is found and used; sentences play; Stop, another voice, errors."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from e2e.chat_page import ChatPage
from e2e.fake_hub import FakeHub
from e2e.page import StoryPage
from tests.models.test_voices import make, write

REPO = "voices/small"


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("voices") / "small", "vits", dict(make("vits").state_dict()))


@pytest.fixture
def visit(story: StoryPage, hub: FakeHub, voice: Path) -> Iterator[StoryPage]:
    for path in voice.iterdir():
        hub.add(REPO, path.name, path.read_bytes())
    story.set_hub(hub.url)
    story.page.evaluate("() => { const { app } = pyappPage; app.choices.speak.model = null }")
    yield story
    story.page.evaluate(  # what comes after begins without a stored voice
        "async () => { const { app } = pyappPage; app.choices.speak.model = null;"
        " await app.engine.call('storage.clear'); await app.afterStorageChange() }"
    )


def test_a_story_is_spoken_by_a_voice_of_the_hub(visit: StoryPage) -> None:
    page = visit.page
    text = visit.settings(max_new_tokens=60, seed=3, temperature=0).write("Once upon a time")
    listen = page.get_by_role("button", name="Listen to the story")
    listen.click()
    dialog = visit.models_opened()
    expect(dialog.locator("#drop-text")).to_contain_text("voice")
    page.locator("#hub-name").fill(REPO)
    page.locator("#hub-find").click()
    page.locator("#hub-found").get_by_role("button", name="Download").click()
    expect(dialog).to_be_hidden()
    assert visit.page.evaluate("pyappPage.app.choices.speak.model.title") == "small"

    listen.click()
    stop = page.get_by_role("button", name="Stop speaking")
    expect(stop).to_be_visible()
    visit.until("document.querySelector('[data-spoken]').dataset.spoken > 0")
    expect(page.locator(".other-voice")).to_have_attribute("title", "The voice is small")
    expect(listen).to_be_visible(timeout=60_000)  # it ends by itself
    assert visit.write("Once upon a time") == text  # the model of stories is loaded again

    visit.page.evaluate(  # as where there is no loudspeaker
        "() => { const { prototype } = BaseAudioContext;"
        " globalThis.clock = Object.getOwnPropertyDescriptor(prototype, 'currentTime');"
        " Object.defineProperty(prototype, 'currentTime', { ...clock, get: () => 0 }) }"
    )
    listen.press("Enter")
    expect(visit.error).to_contain_text("The browser does not play the sound.")
    visit.error.get_by_role("button", name="Dismiss").press("Enter")
    expect(listen).to_be_focused()
    visit.page.evaluate("Object.defineProperty(BaseAudioContext.prototype, 'currentTime', clock); 1")

    long = "It is so. " * 400
    page.evaluate("(text) => { document.getElementById('story-output').textContent = text }", long)
    listen.click()
    visit.until("document.querySelector('[data-spoken]').dataset.spoken > 0")
    stop.click()
    expect(listen).to_be_visible()
    listen.click()
    expect(stop).to_be_visible()
    page.keyboard.press("Escape")
    expect(listen).to_be_visible()
    visit.until("!pyappPage.app.busy")
    page.locator(".other-voice").click()
    expect(visit.models_opened().locator(".model-row[data-selected=true]")).to_contain_text("small")
    visit.close_dialog()


def test_what_a_voice_cannot_speak_is_told(visit: StoryPage, voice: Path, tmp_path: Path) -> None:
    page = visit.page
    page.evaluate(
        "() => { pyappPage.story.output.show({ prompt: 'It is', text: ' so.', seed: 1, reason: 'stop', tokens: 2 }) }"
    )
    files = [path for path in voice.iterdir() if path.name != "tokenizer_config.json"]
    settings = json.loads((voice / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"phonemize": True, "language": "deu"}))
    page.get_by_role("button", name="Listen to the story").click()
    visit.models_opened()
    page.locator("#pick-files").set_input_files([*files, tmp_path / "tokenizer_config.json"])
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.get_by_role("button", name="Listen to the story").click()
    expect(visit.error).to_contain_text("reads phonemes")
    expect(page.get_by_role("button", name="Listen to the story")).to_be_visible()
    visit.page.evaluate("document.getElementById('story-error').replaceChildren()")


def test_an_answer_is_spoken(visit: StoryPage, voice: Path) -> None:
    """Without its marks; the files of a voice that are dropped on the page are known as one."""
    chat = ChatPage(visit.page)
    page = chat.page
    page.evaluate("location.hash = '#chat'")
    chat.field.wait_for()
    page.evaluate("pyappPage.chat.ready")
    page.evaluate(
        "async (files) => pyappPage.router.take(files.map(([name, data]) => new File([Uint8Array.from(atob(data), "
        "(letter) => letter.charCodeAt(0))], name)))",
        [[path.name, b64encode(path.read_bytes()).decode()] for path in voice.iterdir()],
    )
    chat.until("pyappPage.app.choices.speak.model?.kind === 'file'")
    page.evaluate("location.hash = '#chat'")  # the files of a voice open the view that speaks
    chat.field.wait_for()
    chat.settings(max_new_tokens=20)
    chat.say("hello")
    listen = page.get_by_role("button", name="Listen to this answer")
    expect(listen).to_have_count(1)  # messages of the visitor have none
    listen.click()
    expect(page.get_by_role("button", name="Stop speaking")).to_be_visible()
    expect(listen).to_be_visible(timeout=60_000)
    expect(chat.error).to_have_count(0)
    assert int(listen.get_attribute("data-spoken") or 0) > 0 and chat.unexpected_errors() == []
