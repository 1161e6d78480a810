"""Speak: a text is spoken as natively, heard, marked, saved and kept; voices by name; a model of phonemes of a hub."""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

import pyapp
from e2e.conftest import shared
from e2e.fake_hub import FakeHub
from e2e.page import ViewPage
from pyapp.audio.speaking import speak
from pyapp.models.loading.voice import TASK, load_voice
from pyapp.text import phonemes
from scripts.serve import SiteServer
from tests.models.small_models import seeded_model
from tests.models.styled_voice_configs import CONFIGS, voice, weights
from tests.models.test_styled_voices import write

REPO = "voices/phonemes"
SIGNS = " .,!?;:—…“”()ˈˌbdfhijklmnpstuvwzæðŋɑɔəɛɜɡɪɹʃʊʌʒʤʧθᵊᵻAIOWYTɐ"
TEXT = "Hello, world! It cost $2.50 in 1984. Read it."


class SpeakPage(ViewPage):
    """The speak view in one tab."""

    view = "speak"

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self.field = page.locator("#speak-text")
        self.output = page.locator("#speak-output")

    def speak(self, text: str) -> str:
        self.field.fill(text)
        self.submit(self.field, "speak")
        return self.output.inner_text()

    def saved(self) -> np.ndarray:
        """The samples (N,) of the file that the page saves."""
        download = self.download("#speak-save")
        assert download.suggested_filename == "speech.wav"
        with wave.open(str(download.path())) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
            return np.frombuffer(file.readframes(file.getnframes()), "<i2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kokoro of random weights that knows the phonemes of English, in the form of the published one."""
    config = {"vocab": {sign: number for number, sign in enumerate(SIGNS, 1)}, "n_token": len(SIGNS) + 1}
    config |= {"max_dur": 3, "plbert": CONFIGS["kokoro"]["plbert"] | {"max_position_embeddings": 64}}
    model = seeded_model(CONFIGS["kokoro"] | config, TASK, weights)
    folder = write(tmp_path_factory.mktemp("voices") / "phonemes", {}, **config)
    (folder / "kokoro-v1_0.safetensors").unlink()
    (folder / "voices" / "ef_dora.npy").unlink()
    pyapp.save(dict(model.state_dict()), folder / "kokoro-v1_0.pth")
    for number, name in enumerate(("bm_george", "ef_dora")):
        pyapp.save(pyapp.from_numpy(voice(number + 1)), folder / "voices" / f"{name}.pt")
    return folder


@pytest.fixture(scope="module")
def speak_tab(browser: BrowserContext, site: SiteServer) -> Iterator[SpeakPage]:
    yield (page := SpeakPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def visit(speak_tab: SpeakPage, site: SiteServer, request: pytest.FixtureRequest) -> Iterator[SpeakPage]:
    speak_tab.errors.clear()
    with shared(speak_tab, site.url, request, reset=False):
        yield speak_tab


@pytest.fixture
def native(folder: Path, dist: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the model says natively, with the dictionary that the page has."""
    [wheel] = (dist / "pyodide").glob("misaki_english-*.whl")
    monkeypatch.syspath_prepend(str(wheel))
    phonemes._reader.cache_clear()
    loaded = load_voice(folder)
    yield lambda text, **options: np.rint(speak(loaded, text, options)[0] * 32768).astype(np.int64)
    phonemes._reader.cache_clear()


def test_a_text_is_spoken_by_a_model_of_phonemes(
    visit: SpeakPage, folder: Path, hub: FakeHub, native: Any, tmp_path: Path
) -> None:
    page = visit.page
    for path in (path for path in folder.rglob("*") if path.is_file()):
        hub.add(REPO, path.relative_to(folder).as_posix(), path.read_bytes())
    visit.set_hub(hub.url)
    page.locator("#speak-model").get_by_role("button", name="Choose").click()
    visit.models_opened()
    page.locator("#hub-name").fill(REPO)
    page.locator("#hub-find").click()
    page.locator("#hub-found").get_by_role("button", name="Download").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator("#speak-voice option")).to_have_text(["Heart (American, female)", "George (British, male)"])
    assert not [path for path in hub.files if "dora" in path and any(path == one.path for one in hub.requests)]

    text = visit.speak(TEXT)
    assert text == TEXT and page.locator("#speak-output [data-start]").count() == 3
    found, wanted = visit.saved(), native(TEXT)
    assert len(found) == len(wanted) > 3 * 2000
    assert abs(found - wanted).max() < 40  # WebAssembly rounds in other places
    # Another voice, faster; the choice stays over a reload, and so does what was spoken.
    page.locator("#speak-voice").select_option("bm_george")
    page.locator("#speak-rate").select_option("2")
    page.locator("#speak-play").uncheck()
    visit.speak("It is so.")
    found, wanted = visit.saved(), native("It is so.", voice="bm_george", rate=2.0)
    assert len(found) == len(wanted) and abs(found - wanted).max() < 40
    page.reload()
    visit.wait_ready()
    page.evaluate("pyappPage.speak.ready")
    expect(visit.output).to_have_text("It is so.")
    visit.until("pyappPage.speak.loaded")
    page.evaluate("pyappPage.speak.prepared")
    expect(page.locator("#speak-voice")).to_have_value("bm_george")
    assert len(visit.saved()) == len(found)
    # The player marks the sentence that is heard.
    rows = page.locator("#history-speech")
    rows.locator("summary").click()
    rows.locator(".history-row").nth(1).get_by_role("button").first.click()
    expect(visit.output).to_have_text(TEXT)
    # It stays there: a sentence is over in a tenth of a second, before a busy browser can tell that it is heard.
    held = "async function () { globalThis.played = this.currentTime }"
    page.evaluate(f"void (document.getElementById('speak-player').play = {held})")
    third = page.locator("#speak-output [data-start]").nth(2)
    third.click()
    expect(page.locator("#speak-output .heard")).to_have_text("Read it.")
    assert page.evaluate("played") == pytest.approx(float(third.get_attribute("data-start") or 0), abs=1e-3)


def test_speech_is_stopped_and_refused(visit: SpeakPage, tmp_path: Path, folder: Path) -> None:
    page = visit.page
    visit.field.fill("It is so. " * 300)
    visit.field.press("Control+Enter")
    visit.stop_once("pyappPage.speak.result?.sentences.length > 1", "speak")
    expect(page.locator("#speak-ending")).to_have_text("You stopped it here.")
    assert 1 < page.locator("#speak-output [data-start]").count() < 300 and len(visit.saved())
    visit.speak("🎈")
    expect(visit.error).to_contain_text("nothing to say")
    page.evaluate("pyappPage.speak.drop([new File([new Uint8Array([255, 0, 1, 2])], 'a.txt')])")
    expect(visit.error).to_contain_text("not a text file")
    page.evaluate("pyappPage.speak.drop([new File(['A dropped text.\\n'], 'a.txt')])")
    expect(visit.field).to_have_value("A dropped text.")
    # A folder without its weights, and one whose voices speak no English.
    page.locator("#speak-model").get_by_role("button", name="Choose").click()
    visit.models_opened()
    lacking = tmp_path / "lacking"
    (lacking / "voices").mkdir(parents=True)
    (lacking / "config.json").write_text((folder / "config.json").read_text())
    (lacking / "voices" / "ef_dora.pt").write_bytes((folder / "voices" / "ef_dora.pt").read_bytes())
    page.locator("#pick-folder").set_input_files(lacking)
    expect(page.locator("#model-error")).to_contain_text("weights are missing")
    (lacking / "kokoro-v1_0.pth").write_bytes((folder / "kokoro-v1_0.pth").read_bytes())
    page.locator("#pick-folder").set_input_files(lacking)
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.evaluate("pyappPage.speak.prepared")
    visit.speak("Hola.")
    expect(visit.error).to_contain_text("Choose an English voice")
    assert json.loads(page.evaluate("JSON.stringify(pyappPage.speak.options)")) == {"pause": 0.2, "seed": 0, "rate": 2}
