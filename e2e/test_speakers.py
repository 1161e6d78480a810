"""Speakers that networks tell apart: names, renaming, saved files, a wrong network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import OUTPUT
from e2e.fake_hub import FakeHub
from e2e.speech_files import SAID, write_recording
from e2e.transcribe_page import TranscribePage
from scripts.serve import SiteServer
from tests.audio.networks import speaker_network, speech_network
from tests.audio.sounds import place, syllable


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds: a low voice, and from the fifth second on a high one."""
    low, high = (np.concatenate([syllable(0.25, pitch) for _ in range(17)]) for pitch in (110.0, 240.0))
    return write_recording(tmp_path_factory.mktemp("audio") / "voices.wav", place(10.0, (0.1, low), (5.1, high)))


NETWORKS = {"onnx-community/silero-vad": "onnx/model.onnx", "tests/voices": "voices.onnx"}


@pytest.fixture
def networks(hub: FakeHub, speech_tab: TranscribePage) -> Iterator[dict[str, bytes]]:
    """Hand-made networks on the hub; afterwards speakers are not told apart."""
    files = {
        "onnx-community/silero-vad": speech_network(),
        "tests/voices": speaker_network(spectrum=True, metadata=PLAIN),
    }
    for repo, path in NETWORKS.items():
        hub.add(repo, path, files[repo])
    speech_tab.set_hub(hub.url)
    yield files
    speech_tab.page.evaluate("() => { const { speakers } = pyappPage.transcribe.settings; speakers.value = '';"
                      " speakers.dispatchEvent(new Event('change')) }")  # fmt: skip
    speech_tab.settings(network="", silero=False)


PLAIN = {"feature_normalize_type": "", "normalize_samples": "0"}


def test_speakers(
    transcribe: TranscribePage, speech_model: Path, voices: Path, networks: dict[str, bytes], hub: FakeHub
) -> None:
    page = transcribe.page
    transcribe.choose(speech_model)
    page.locator("#speech-settings .more").evaluate("(details) => (details.open = true)")
    expect(page.locator("#speech-network")).to_be_hidden()
    page.locator("#speech-speakers").select_option("2")
    page.locator("#speech-network").fill("tests/voices")
    page.locator("#speech-silero").check()
    transcribe.take(voices).wait_done()
    assert [segment["speaker"] for segment in transcribe.segments()] == ["Speaker 1", "Speaker 2"]
    assert {word["speaker"] for word in transcribe.segments()[1]["words"]} == {"Speaker 2"}
    names = page.locator("#transcript .speaker")
    expect(names).to_have_text(["Speaker 1", "Speaker 2"])
    assert transcribe.text() == "\n".join(SAID)
    names.nth(1).click()
    field = page.locator("#transcript .speaker-field")
    expect(field).to_be_focused()
    field.fill("Ann <b>")
    field.press("Enter")
    expect(names).to_have_text(["Speaker 1", "Ann <b>"])
    expect(names.nth(1)).to_be_focused()
    names.nth(0).press("Enter")
    field.fill("nobody")
    field.press("Escape")
    expect(names).to_have_text(["Speaker 1", "Ann <b>"])
    # Two that were one by mistake are two again.
    names.nth(1).click()
    field.fill("Speaker 1")
    field.press("Enter")
    assert [segment["speaker"] for segment in transcribe.segments()] == ["Speaker 1", "Speaker 1"]
    page.locator("#undo-edit").click()
    expect(names).to_have_text(["Speaker 1", "Ann <b>"])
    assert {word["speaker"] for word in transcribe.segments()[1]["words"]} == {"Ann <b>"}
    assert transcribe.save("txt") == f"Speaker 1: {SAID[0]}\nAnn <b>: {SAID[1]}\n"
    assert "<v Ann &lt;b&gt;>" in transcribe.save("vtt")
    assert json.loads(transcribe.save("json"))["segments"][1]["words"][0]["speaker"] == "Ann <b>"
    # once more: the networks are stored, and the hub is not asked
    asked = len(hub.requests)
    page.locator("#transcribe").click()
    transcribe.wait_done()
    assert len(hub.requests) == asked
    page.screenshot(path=OUTPUT / "speakers.png", full_page=True)


def test_speakers_in_the_first_transcript_of_a_visit(
    browser: BrowserContext, site: SiteServer, networks: dict[str, bytes], hub: FakeHub, dist: Path
) -> None:
    """The parts of Python and NumPy that networks need are not there yet."""
    visit = TranscribePage(browser.new_page()).open(site.url)
    visit.settings(speakers="1", network="tests/voices", silero=True)
    visit.set_hub(hub.url)
    visit.take(dist / "models/speech/samples/weather.wav").wait_done()
    assert {segment["speaker"] for segment in visit.segments()} == {"Speaker 1"}
    visit.page.close()


def test_a_wrong_network_for_speakers(
    transcribe: TranscribePage, speech_model: Path, voices: Path, networks: dict[str, bytes]
) -> None:
    page = transcribe.page
    transcribe.choose(speech_model)
    page.locator("#speech-settings .more").evaluate("(details) => (details.open = true)")
    page.locator("#speech-speakers").select_option("auto")
    wrong = {"name": "wrong.onnx", "mimeType": "application/octet-stream"}
    page.locator("#pick-network").set_input_files({**wrong, "buffer": networks["onnx-community/silero-vad"]})  # type: ignore[arg-type]
    expect(page.locator("#speech-network")).to_have_value("wrong.onnx")
    transcribe.take(voices).wait_refused("not a network for speakers: it takes input, state, sr")
    page.locator("#pick-network").set_input_files({**wrong, "buffer": b"nothing" * 100})  # type: ignore[arg-type]
    transcribe.take(voices).wait_refused("not an ONNX model")
    page.locator("#speech-network").fill("tests/nobody")
    transcribe.take(voices).wait_refused("no such model")
    page.locator("#pick-network").set_input_files({**wrong, "buffer": networks["tests/voices"]})  # type: ignore[arg-type]
    transcribe.take(voices).wait_done()
    assert transcribe.segments()[0]["speaker"] == "Speaker 1"
