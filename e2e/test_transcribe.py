"""Transcription: samples, files of all kinds, the player, editing, saved files, Stop."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import OUTPUT, shared
from e2e.fake_hub import FakeHub
from e2e.speech_files import SAID, samples, speechlike, spoken, write_recording, write_speech_model
from e2e.transcribe_page import TranscribePage
from pyapp.audio import load_speech, open_audio, write_wav
from pyapp.audio.transcribe import transcribe_events
from pyapp.events import Item
from pyapp.models import load_speech_model
from pyapp.models.loading.sound_labels import load_sound_classifier
from pyapp.tasks.sounds import labels_of_moments
from scripts.serve import SiteServer
from tests.audio.sounds import babble
from tests.models.sound_configs import recording as recording_of
from tests.models.test_listeners import make as make_listener
from tests.models.test_listeners import write as write_listener
from tests.models.test_sound_moments import write as write_labeller
from tests.models.test_sounds import make as make_sound_model
from tests.models.test_sounds import write as write_sound_model

JFK = Path(__file__).resolve().parents[2] / "shared" / "data" / "jfk.wav"
# Time from the click on Stop until the sheet says so, in the page's own clock.
# Presses Stop as soon as there is text; returns the milliseconds until it has stopped.
STOP = """() => new Promise((resolve) => {
  const sheet = document.getElementById("transcript-sheet");
  const waiting = setInterval(() => {
    if (sheet.dataset.state !== "working" || pyappPage.transcribe.sheet.transcript.segments.length < 2) return;
    clearInterval(waiting);
    const start = performance.now();
    new MutationObserver(() => sheet.dataset.state === "done" && resolve(performance.now() - start))
      .observe(sheet, { attributes: true });
    document.getElementById("transcribe").click();
  }, 5);
})"""

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


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seconds."""
    return write_recording(tmp_path_factory.mktemp("audio") / "buzz.wav", speechlike(10))


@pytest.fixture
def written(
    speech_tab: TranscribePage, speech_model: Path, recording: Path, site: SiteServer, request: pytest.FixtureRequest
) -> Iterator[TranscribePage]:
    """The view with the transcript SAID, with words."""
    words = [word["word"].strip() for segment in speech_tab.segments() for word in segment.get("words") or []]
    said = words == " ".join(SAID).split()
    with shared(speech_tab, site.url, request, reset=not said):
        if not said:
            speech_tab.choose(speech_model)
            speech_tab.settings(times="words", silence=False)
            speech_tab.take(recording).wait_done()
        yield speech_tab


@pytest.mark.parametrize("number", range(1, 3))  # the first: below
def test_each_sample_gives_its_text(transcribe: TranscribePage, dist: Path, number: int) -> None:
    sample = samples(dist)[number]
    transcribe.page.get_by_role("button", name=sample["title"]).click()
    transcribe.wait_done()
    assert spoken(transcribe.text()) == spoken(sample["text"])
    factor = transcribe.page.locator("#metric-factor").inner_text()
    assert float(factor.removesuffix("×").replace(",", "")) > 0
    expect(transcribe.page.locator("#whisper-offer")).to_contain_text("small vocabulary of synthetic voices")
    expect(transcribe.page.locator("#whisper-list")).to_contain_text("Whisper tiny")
    expect(transcribe.page.locator("#whisper-list li").first).to_contain_text("MB")


# The disk takes long to store sound.
SLOW_DISK = """() => {
  const { store } = pyappPage.transcribe;
  const { put } = store;
  store.put = (entry, content, options) => options?.files
    ? new Promise((resolve) => (globalThis.storeNow = () => resolve(put.call(store, entry, content, options))))
    : put.call(store, entry, content, options);
}"""


def test_nobody_waits_until_hours_of_sound_are_stored(transcribe: TranscribePage, dist: Path) -> None:
    page, sample = transcribe.page, samples(dist)[0]
    page.evaluate(SLOW_DISK)
    page.get_by_role("button", name=sample["title"]).click()
    assert spoken(transcribe.wait_done().text()) == spoken(sample["text"])
    page.evaluate("delete pyappPage.transcribe.store.put, storeNow()")
    kept = "pyappPage.transcribe.store.read(pyappPage.transcribe.keeper.entry.id)"
    transcribe.until(f"{kept}.then((item) => item?.files.length === 1)")


def test_a_sample_that_is_missing_or_does_not_arrive(transcribe: TranscribePage, dist: Path) -> None:
    """Only where nothing answers is the connection to blame."""
    page = transcribe.page
    for answer, says in (
        ("new Response('', { status: 404 })", "The sample is missing on the server (status 404)."),
        ("Promise.reject(new TypeError())", "Check your connection"),
    ):
        page.evaluate(f"globalThis.asked ??= fetch, globalThis.fetch = async () => {answer}, 1")
        page.get_by_role("button", name=samples(dist)[0]["title"]).click()
        expect(transcribe.error).to_contain_text(says)
    page.evaluate("globalThis.fetch = asked, 1")


def test_text_with_times_beside_the_player(written: TranscribePage) -> None:
    segments = written.segments()
    assert [segment["text"].strip() for segment in segments] == SAID
    words = [word for segment in segments for word in segment["words"]]
    assert [word["word"].strip() for word in words] == " ".join(SAID).split()
    assert [word["start"] for word in words] == pytest.approx([0, 1.3, 2.6, 5, 6.4], abs=0.15)
    shown = [float(word.get_attribute("data-start") or -1) for word in written.words.all()]
    assert shown == [word["start"] for word in words]
    expect(written.page.locator("#recording-facts")).to_have_text("0:10 · 1 channel · 16 kHz")
    expect(written.page.locator("#metric-language")).to_have_text("English")
    assert written.player("duration") == 10


def test_a_click_on_a_word_plays_from_it(written: TranscribePage) -> None:
    word = written.words.nth(3)
    start, end = (float(word.get_attribute(name) or -1) for name in ("data-start", "data-end"))
    word.click()
    written.until("pyappPage.transcribe.sheet.player.playing")
    assert start - 0.05 <= written.player("time") < start + 2
    expect(word).to_have_class(re.compile("current"))
    assert end > start >= 5
    written.until(f"pyappPage.transcribe.sheet.player.time > {start + 0.1}")
    written.page.get_by_role("button", name="Pause").click()
    written.page.locator("#player-seek").evaluate("(e) => { e.value = 1; e.dispatchEvent(new Event('input')) }")
    expect(written.page.locator("#transcript li").first).to_have_class(re.compile("current"))
    assert written.player("time") == pytest.approx(1, abs=0.05)


def test_keyboard(written: TranscribePage) -> None:
    """One tab stop; arrows go through the text, Enter plays."""
    page = written.page
    stops = page.evaluate("document.querySelectorAll('#transcript [tabindex=\"0\"]').length")
    assert stops == 1
    page.locator("#transcript [tabindex='0']").focus()
    page.keyboard.press("Home")
    focused = "document.activeElement.textContent"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "the"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "0:05"
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    written.until("pyappPage.transcribe.sheet.player.playing")
    assert written.player("time") >= 5 - 0.05
    page.keyboard.press("Home")
    assert page.evaluate(focused) == "0:00"
    page.keyboard.press("Control+Enter")
    written.page.wait_for_selector("#transcript-sheet[data-state=working]")
    written.wait_done()
    assert written.text().split("\n") == SAID


CUE = re.compile(r"(\d+)\n(\d\d):(\d\d):(\d\d),(\d{3}) --> (\d\d):(\d\d):(\d\d),(\d{3})\n(.+)\n")


def test_what_is_saved(written: TranscribePage) -> None:
    """SRT as its readers take it apart; the others hold the same; edited text is saved as it was edited."""
    cues = CUE.findall(written.save("srt"))
    assert [int(cue[0]) for cue in cues] == [1, 2]
    times = [int(h) * 3600 + int(m) * 60 + int(s) + int(ms) / 1000 for c in cues for h, m, s, ms in (c[1:5], c[5:9])]
    assert times == sorted(times) and times[2] == 5 and times[-1] < 10 and [cue[9] for cue in cues] == SAID
    page = written.page
    page.get_by_role("button", name="Edit text").click()
    page.get_by_label("Text from 5 seconds").fill("went there <home> & slept.")
    page.get_by_role("button", name="Done editing").click()
    expect(page.locator("#metric-words")).to_have_text("8")
    assert written.save("txt") == "the little fox\nwent there <home> & slept.\n"
    assert "went there &lt;home> &amp; slept." in written.save("vtt")
    values = json.loads(written.save("json"))
    assert values["language"] == "en" and values["duration"] == 10 and values["task"] == "transcribe"
    assert [segment["text"] for segment in values["segments"]] == [f" {SAID[0]}", " went there <home> & slept."]
    assert "words" in values["segments"][0] and "words" not in values["segments"][1]


def test_phone_width(written: TranscribePage) -> None:
    page = written.page
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=OUTPUT / "transcribe-phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    boxes = page.evaluate(
        "[...document.querySelectorAll('button, select, input:not([type=file]), summary')]"
        ".map((element) => element.getBoundingClientRect())"
        ".filter((b) => b.width).map((b) => [b.left, b.right])"
    )
    assert len(boxes) > 20 and all(left >= -1 and right <= 361 for left, right in boxes)
    page.set_viewport_size({"width": 1280, "height": 860})


def test_copy(written: TranscribePage, browser: BrowserContext) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    written.page.get_by_role("button", name="Copy text").click()
    expect(written.page.locator("#copy-transcript")).to_have_text("Copied")
    assert written.page.evaluate("navigator.clipboard.readText()") == "\n".join(SAID)
    browser.clear_permissions()


def test_edited_words_keep_their_times(written: TranscribePage) -> None:
    before = written.segments()[0]["words"]
    written.page.get_by_role("button", name="Edit text").click()
    written.page.get_by_label("Text from 0 seconds").fill("The little ox")
    written.page.get_by_role("button", name="Done editing").click()
    after = written.segments()[0]["words"]
    assert [word["word"] for word in after] == [" The", " little", " ox"]
    assert [word["start"] for word in after] == [word["start"] for word in before]


def test_stop_takes_effect_at_once_and_the_page_stays_usable(
    transcribe: TranscribePage, speech_model: Path, tmp_path: Path
) -> None:
    transcribe.choose(speech_model)
    worker = transcribe.page.evaluate("globalThis.worker = pyappPage.app.engine.worker, 1")
    transcribe.settings(times="segments", silence=False)
    transcribe.take(write_recording(tmp_path / "long.wav", np.tile(speechlike(10), 60)))
    assert transcribe.page.evaluate(STOP) < 2000  # with other suites beside it
    expect(transcribe.ending).to_contain_text("stopped")
    assert 1 < len(transcribe.segments()) < 40
    assert worker == 1 and transcribe.page.evaluate("worker === pyappPage.app.engine.worker"), (
        "the engine was restarted"
    )
    transcribe.take(write_recording(tmp_path / "short.wav", speechlike(10))).wait_done()
    assert transcribe.text().split("\n") == SAID


# A transcription that has text of its first window, and none that is final, until it is stopped.
HALF = """() => {
  const { engine } = pyappPage.app;
  const { call } = engine;
  engine.call = (method, params, options) => method !== "transcribe" ? call.call(engine, method, params, options)
    : new Promise((resolve) => {
      options.onEvent({ type: "partial", text: " Half a sen", start: 0 });
      options.signal.addEventListener("abort", () => resolve({ type: "done", reason: "cancelled" }));
      delete engine.call;
    });
}"""


def test_stop_keeps_what_was_heard_of_the_first_window(
    transcribe: TranscribePage, speech_model: Path, tmp_path: Path
) -> None:
    transcribe.choose(speech_model)
    page = transcribe.page
    page.evaluate(HALF)
    transcribe.take(write_recording(tmp_path / "half.wav", speechlike(10)))
    expect(page.locator("#transcript .partial")).to_contain_text("Half a sen")
    page.locator("#transcribe").click()
    transcribe.wait_done()
    expect(page.locator("#transcript")).to_contain_text("Half a sen … stopped here")
    expect(page.locator("#unfinished")).to_contain_text("not finished")
    assert transcribe.text() == "Half a sen"
    page.get_by_role("button", name="Go on").click()
    page.wait_for_function("() => pyappPage.transcribe.sheet.transcript.segments.length > 1")
    transcribe.wait_done()
    assert transcribe.text().split("\n") == SAID


@pytest.mark.skipif(not JFK.is_file(), reason="needs openai-whisper's test recording")
def test_whisper_tiny_in_shape(transcribe: TranscribePage, tmp_path: Path) -> None:
    """A folder with whisper-tiny's shape (151 MB as float32): its format is read, its memory suffices."""
    write_speech_model(tmp_path / "tiny", state=384, layers=4, heads=6, vocabulary=51865)
    transcribe.use(tmp_path / "tiny")
    expect(transcribe.page.locator("#speech-model .model-name")).to_have_text("tiny")
    transcribe.take(JFK).wait_done()
    assert transcribe.text().split("\n") == SAID
    assert transcribe.segments()[1]["words"][-1]["end"] <= 11.0


# What is no fault of the recording: it is written down all the same, and what should be known is said.


def wide(samples: np.ndarray) -> np.ndarray:
    return np.stack([samples * level for level in np.linspace(0.2, 1, 8)], axis=1)


@pytest.mark.parametrize(
    ("samples", "rate", "says"),
    [
        (wide(speechlike(10, 96_000)), 96_000, "Its 8 channels are mixed into one."),
        (speechlike(10) + 0.3, 16_000, "DC offset of 30 %"),
        (np.clip(speechlike(10) * 20, -1, 1), 16_000, "clipped"),
    ],
    ids=["96 kHz, 8 channels", "DC offset", "clipped"],
)
def test_odd_recordings_work_and_are_remarked_on(
    transcribe: TranscribePage, speech_model: Path, tmp_path: Path, samples: np.ndarray, rate: int, says: str
) -> None:
    transcribe.choose(speech_model)
    transcribe.settings(times="segments", silence=False)
    transcribe.take(write_recording(tmp_path / "odd.wav", samples, rate)).wait_done()
    expect(transcribe.notes).to_contain_text(says)
    assert transcribe.notes.locator("li").count() == 1
    assert transcribe.text().split("\n") == SAID
    assert transcribe.player("duration") == 10


def test_silence_has_no_speech(transcribe: TranscribePage, tmp_path: Path) -> None:
    """The embedded model does not invent text."""
    transcribe.take(write_recording(tmp_path / "silence.wav", np.zeros(16_000 * 5))).wait_done()
    assert transcribe.segments() == []
    expect(transcribe.ending).to_contain_text("No speech found")
    expect(transcribe.notes).to_contain_text("silent")


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("talk.mp3", b"Dear diary, today I dropped the wrong file.", "could not be read as sound"),
        ("talk.wav", b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00", "truncated"),
        ("talk.ogg", b"", "empty"),
        ("nothing.wav", None, "empty"),
        ("notes.pdf", b"%PDF-1.7 and so on", "Read takes the text out of pictures and PDFs"),
        ("cut.mp4", b"\0\0\0\x18ftypisom\0\0\2\0isomiso2\0\1\0\0mdat" + bytes(9000), "could not be read as sound"),
    ],
)
def test_unreadable_recordings_are_refused_in_words(
    transcribe: TranscribePage, tmp_path: Path, name: str, data: bytes | None, says: str
) -> None:
    """And what the sheet shows stays as it is."""
    path = tmp_path / name
    if data is None:
        write_recording(path, np.zeros(0))  # a good file of 0 seconds
    else:
        path.write_bytes(data)
    sheet = transcribe.page.locator("#transcript-sheet")
    before = sheet.inner_text()
    transcribe.take(path)
    message = transcribe.wait_refused(says)
    assert name in message
    assert "nexpected" not in message
    expect(sheet).to_have_attribute("data-state", re.compile("done|empty"))
    assert sheet.inner_text() == before


def test_a_guess_is_said_in_words_with_better_models(transcribe: TranscribePage, dist: Path, tmp_path: Path) -> None:
    transcribe.take(write_recording(tmp_path / "babble.wav", babble())).wait_done()
    banner = transcribe.page.locator("#guess")
    expect(banner).to_contain_text("may be a guess")
    expect(banner.get_by_role("button").first).to_have_text(re.compile(r"^Whisper .*, [\d.]+ MB$"))
    assert "NOTE this text may be a guess" in transcribe.save("vtt")
    assert json.loads(transcribe.save("json"))["guess"] == 1
    banner.get_by_role("button").first.click()
    expect(transcribe.page.locator("#model-dialog")).to_be_visible()
    transcribe.close_dialog()
    transcribe.page.get_by_role("button", name=samples(dist)[0]["title"]).click()
    expect(transcribe.page.locator("#recording-name")).to_have_text(samples(dist)[0]["title"])
    transcribe.wait_done()
    expect(banner).to_be_hidden()


def test_edits_survive_another_transcription_and_a_reload(written: TranscribePage) -> None:
    page = written.page
    page.get_by_role("button", name="Edit text").click()
    page.get_by_label("Text from 0 seconds").fill("An edited line.")
    page.get_by_label("Text from 5 seconds").fill("A wrong line.")
    page.get_by_role("button", name="Undo edit").click()
    page.get_by_label("Text from 5 seconds").fill("Another wrong line.")  # without leaving the field
    page.get_by_role("button", name="Undo edit").click()
    page.get_by_role("button", name="Undo edit").click()
    expect(page.get_by_label("Text from 0 seconds")).to_be_focused()  # the button is gone
    page.get_by_label("Text from 0 seconds").fill("An edited line.")
    page.get_by_role("button", name="Done editing").click()
    edited = ["An edited line.", SAID[1]]
    assert written.text().split("\n") == edited
    page.get_by_role("button", name="Transcribe again").click()
    page.wait_for_selector("#transcript-sheet[data-state=working]")
    written.wait_done()
    assert written.text().split("\n") == SAID
    versions = page.locator("#versions")
    expect(versions.locator("option")).to_have_count(2)
    versions.select_option("0")
    assert written.text().split("\n") == edited
    written.until("pyappPage.transcribe.keeper.save().then(() => !pyappPage.transcribe.keeper.unsaved)")
    page.reload()
    written.wait_done()
    assert written.text().split("\n") == edited
    expect(page.locator("#recording-facts")).to_have_text("0:10 · 1 channel · 16 kHz")
    written.wait_ready()
    assert written.save("txt") == "\n".join(edited) + "\n"


def test_history(transcribe: TranscribePage, speech_model: Path, tmp_path: Path) -> None:
    """Several files at once; each is kept, can be opened, renamed, deleted and brought back, and exported."""
    transcribe.use(speech_model)
    expect(transcribe.page.locator("#speech-model .model-name")).to_have_text(speech_model.name)
    transcribe.settings(times="segments", silence=False)
    page = transcribe.page
    names = ["first talk", "second talk", "no sound"]
    files = [write_recording(tmp_path / f"{name}.wav", speechlike(10)) for name in names[:2]]
    (tmp_path / "no sound.mp3").write_bytes(b"this is not a recording")
    page.locator("#pick-audio").set_input_files([*files, tmp_path / "no sound.mp3"])
    expect(page.locator("#queue-list")).to_contain_text(
        re.compile("first talk.*done.*second talk.*done.*no sound.*could not")
    )
    transcribe.errors.clear()
    card = page.locator("#history-transcript")
    card.locator("summary").click()
    rows = card.locator(".history-row")
    expect(rows.nth(0)).to_contain_text("second talk")
    rows.nth(1).get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("My talk")
    page.keyboard.press("Enter")
    mine = card.locator(".history-row", has_text="My talk")
    mine.locator(".history-open").click()
    expect(page.locator("#recording-name")).to_have_text("My talk")
    assert transcribe.text().split("\n") == SAID and transcribe.player("duration") == 10
    count = rows.count()
    mine.get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(count - 1)
    expect(page.locator("#transcript-empty")).to_be_visible()
    card.get_by_role("button", name="Undo").click()
    expect(mine).to_have_count(1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save all (ZIP)").click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        found = archive.namelist()
        assert archive.testzip() is None and len(found) == 10
        sound = next(name for name in found if "second talk/" in name and name.endswith(".wav"))
        assert archive.read(sound) == files[1].read_bytes()
        text = next(name for name in found if "My talk/" in name and name.endswith(".txt"))
        assert archive.read(text).decode().split("\n")[:2] == SAID
    mine.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("\u202e" + "語" * 120)  # turned round, and too long for file systems
    page.keyboard.press("Enter")
    expect(card.locator(".history-row", has_text="語")).to_have_count(1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save all (ZIP)").click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        parts = {part for name in archive.namelist() for part in name.split("/")}
    assert any("語" in part for part in parts)
    assert all(len(part.encode()) <= 255 and "\u202e" not in part for part in parts), parts
    card.locator("summary").click()


def test_a_queue_that_is_stopped_while_it_reads(
    transcribe: TranscribePage, hub: FakeHub, dist: Path, tmp_path: Path
) -> None:
    """Files, a sample and an address wait behind it. Nothing was begun: there is nothing to save, and the transcript
    before it is not taken for one of the queue. The rest is transcribed by a button. A long name makes no page wide."""
    third = f"{'three' * 48}.wav"
    sound = write_recording(tmp_path / "talk.wav", speechlike(10)).read_bytes()
    hub.add("sounds", "far.wav", sound)
    sample = samples(dist)[0]
    transcribe.page.evaluate(
        """async ([sound, third, sample, address]) => {
          const { transcribe } = pyappPage;
          const bytes = Uint8Array.from(atob(sound), (character) => character.charCodeAt(0));
          const taken = transcribe.takeAll(["one.wav", "two.wav"].map((name) => new File([bytes], name)));
          transcribe.takeAll([new File([bytes], third)]);
          transcribe.trySample(sample);
          transcribe.takeAddress(address);
          while (!transcribe.button.running) await new Promise((resolve) => setTimeout(resolve));
          transcribe.button.stop();
          await taken;
        }""",
        [base64.b64encode(sound).decode(), third, sample, f"{hub.url}sounds/resolve/main/far.wav"],
    )
    queue = transcribe.page.locator("#queue-list")
    left = ["two.wav", third, sample["title"], f"{hub.url}sounds/resolve/main/far.wav"]
    expect(queue).to_have_text(
        re.compile("one.*stopped" + ".*".join(f"{re.escape(name)}not transcribed" for name in left))
    )
    expect(transcribe.page.locator("#queue-save")).to_be_hidden()
    assert transcribe.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    transcribe.page.get_by_role("button", name="Transcribe the other 4").click()
    expect(queue).to_have_text(re.compile(".*".join(f"{re.escape(name)}done" for name in left)), timeout=60_000)
    expect(transcribe.page.get_by_role("button", name="Transcribe the other")).to_have_count(0)
    assert transcribe.page.locator("[role=alert]:visible").count() == 0


def test_a_recording_that_only_the_browser_can_decode(transcribe: TranscribePage, speech_model: Path) -> None:
    """WebM with Opus, made by the browser itself: decoded at once when short, packet by packet when long."""
    transcribe.choose(speech_model)
    transcribe.settings(times="segments", silence=False)
    transcribe.page.evaluate(
        """async () => {
          const context = new AudioContext(), tone = new OscillatorNode(context, { frequency: 300 });
          const end = context.createMediaStreamDestination();
          tone.connect(end); tone.start();
          const parts = [], recorder = new MediaRecorder(end.stream);
          recorder.ondataavailable = ({ data }) => parts.push(data);
          recorder.start(); await new Promise((resolve) => setTimeout(resolve, 2000));
          const stopped = new Promise((resolve) => (recorder.onstop = resolve));
          recorder.stop(); await stopped; await context.close();
          globalThis.webm = new File(parts, "tone.webm");
        }"""
    )
    for at_once in (True, False):
        if not at_once:
            transcribe.page.evaluate(
                "globalThis.decode = OfflineAudioContext.prototype.decodeAudioData;"
                "OfflineAudioContext.prototype.decodeAudioData = () => Promise.reject(new Error('no')), 1"
            )
        transcribe.page.evaluate("pyappPage.transcribe.take(webm)")
        transcribe.wait_done()
        assert transcribe.player("duration") == pytest.approx(2, abs=0.4)
        loud = transcribe.page.evaluate("pyappPage.transcribe.sheet.recording.overview.peaks.slice(200, 900)")
        assert min(loud) > 0.3
    transcribe.page.evaluate("OfflineAudioContext.prototype.decodeAudioData = decode, 1")


WRONG_FOLDERS = {
    "a language model": (
        {"config.json": b'{"model_type": "llama", "hidden_size": 64}', "tokenizer.json": b"{}"},
        "llama",
    ),
    "without a tokenizer": ({"config.json": b'{"model_type": "whisper"}'}, "tokenizer.json is missing"),
    "without weights": ({"config.json": b"{}", "model.safetensors": None}, "weights are missing"),
    "photographs": ({"holiday.jpg": b"jpeg", "model.safetensors": None}, "not a model file"),
}


@pytest.mark.parametrize("kind", WRONG_FOLDERS)
def test_wrong_model_folders_are_refused_in_words(
    transcribe: TranscribePage, speech_model: Path, tmp_path: Path, kind: str
) -> None:
    files, says = WRONG_FOLDERS[kind]
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in ({"model.safetensors": (speech_model / "model.safetensors").read_bytes()} | files).items():
        if data is not None:
            (folder / name).write_bytes(data)
    transcribe.use(folder)
    message = transcribe.page.locator("#model-error [role=alert], #transcribe-error [role=alert]")
    expect(message).to_contain_text(says)
    assert "nexpected" not in message.inner_text()


def test_a_model_that_names_characters(transcribe: TranscribePage, tmp_path: Path) -> None:
    """The folder of a wav2vec 2.0: the text and the times of words that pyapp hears outside the page."""
    name, sound = "wav2vec2-large", tmp_path / "sound.wav"
    folder = write_sound_model(tmp_path / "characters", name, dict(make_sound_model(name).state_dict()))
    write_wav(sound, recording_of(4000), 16000)
    events = list(transcribe_events(load_speech_model(folder), next(iter(open_audio(sound)))))
    expected = events[-1].to_dict()["text"].strip()
    transcribe.choose(folder).settings(silence=False)
    transcribe.take(sound).wait_done()
    assert transcribe.text().strip() == expected and len(expected.split()) > 3
    words = [word for segment in transcribe.segments() for word in segment["words"]]
    assert len(words) == len(expected.split()) and words[0]["end"] <= words[-1]["start"] < 0.25


def test_a_model_that_writes_what_it_hears(transcribe: TranscribePage, tmp_path: Path) -> None:
    """The folder of a Moonshine: the text that pyapp hears outside the page."""
    sound = tmp_path / "sound.wav"
    folder = write_listener(tmp_path / "listener", "moonshine", dict(make_listener("moonshine").state_dict()))
    write_wav(sound, np.concatenate([np.zeros(8000, np.float32), 3 * recording_of(8000), np.zeros(8000)]), 16000)
    events = list(transcribe_events(load_speech_model(folder), next(iter(open_audio(sound)))))
    expected = events[-1].to_dict()["text"].strip()
    transcribe.choose(folder)
    transcribe.take(sound).wait_done()
    assert transcribe.text().strip() == expected and expected


def test_labels_of_moments(transcribe: TranscribePage, speech_model: Path, tmp_path: Path) -> None:
    """The labels are the native ones; a click plays from there; they are saved, and kept with the transcript."""
    page, rows = transcribe.page, transcribe.page.locator("#moments-list li")
    sound = write_recording(tmp_path / "short.wav", speechlike(0.5))
    transcribe.choose(speech_model).take(sound).wait_done()
    page.locator("#moments summary").first.click()
    page.locator("#moments-run").click()
    expect(page.locator("#moments-error")).to_contain_text("no model for this yet")
    (tmp_path / "labels").mkdir()
    folder = write_labeller(tmp_path / "labels")
    page.locator("#label-sound-model").get_by_role("button", name="Choose").click()
    transcribe.models_opened()
    page.locator("#pick-folder").set_input_files(folder)
    expect(page.locator("#label-sound-model .model-name")).to_have_text(folder.name)
    expect(page.locator("#label-sound-model .model-name")).to_have_text(folder.name)
    page.locator("#moments-threshold").fill("0.97")
    page.locator("#moments-run").click()
    expect(page.locator("#moments-made")).to_contain_text("by labels, threshold 0.97")
    found = page.evaluate("pyappPage.transcribe.moments.kept.labels")
    events = list(labels_of_moments(load_sound_classifier(folder, moments=True), [str(sound)], threshold=0.97))
    [wanted] = [event.values["labels"] for event in events if isinstance(event, Item)]
    assert [(one["label"], one["start"], one["end"]) for one in found] == [
        (one["label"], pytest.approx(one["start"]), pytest.approx(one["end"])) for one in wanted
    ]
    assert [one["score"] for one in found] == pytest.approx([one["score"] for one in wanted], abs=1e-3) and found
    rows.last.get_by_role("button").click()
    assert transcribe.player("time") >= wanted[-1]["start"] - 0.01
    with page.expect_download() as saved:
        page.locator("#moments-save").click()
    assert saved.value.suggested_filename.endswith(".labels.csv")
    lines = Path(saved.value.path()).read_text("utf-8").splitlines()
    assert lines[0] == "start,end,label,score" and len(lines) == len(wanted) + 1
    transcribe.until("!pyappPage.transcribe.keeper.unsaved")
    page.reload()
    transcribe.wait_ready()
    expect(rows).to_have_count(len(wanted))


def test_a_recording_of_many_windows_stops_and_goes_on(transcribe: TranscribePage, dist: Path, tmp_path: Path) -> None:
    """Some minutes of the samples with pauses: everything is transcribed, at seams of windows and of the stop, too."""
    clips = [load_speech(str(dist / sample["path"])) for sample in samples(dist)]
    pause = np.zeros(24_000, np.float32)
    once = np.concatenate([part for clip in clips for part in (clip, pause)])
    times = 130 * 16_000 // len(once)
    seconds = times * len(once) / 16_000
    transcribe.settings(times="segments")
    transcribe.take(write_recording(tmp_path / "minutes.wav", np.tile(once, times)))
    transcribe.page.evaluate(STOP)
    before = [segment["start"] for segment in transcribe.segments() if not segment.get("stopped")]
    expect(transcribe.page.locator("#unfinished")).to_contain_text(re.compile("of [12]:"))
    transcribe.page.get_by_role("button", name="Go on").click()
    transcribe.page.wait_for_selector("#transcript-sheet[data-state=working]")
    transcribe.wait_done(timeout=120_000)
    expect(transcribe.page.locator("#unfinished")).to_be_hidden()
    expect(transcribe.page.locator("#recording-facts")).to_contain_text(re.compile("[12]:"))
    segments = transcribe.segments()
    assert [segment["start"] for segment in segments][: len(before)] == before
    assert [segment["id"] for segment in segments] == list(range(len(segments)))
    assert all(a["end"] <= b["start"] + 1e-6 for a, b in zip(segments, segments[1:], strict=False))
    assert seconds - 20 < segments[-1]["end"] <= seconds
    expected = spoken(" ".join(sample["text"] for sample in samples(dist))) * times
    assert 0.88 * len(expected) < len(spoken(transcribe.text())) < 1.15 * len(expected)


def test_views(transcribe: TranscribePage) -> None:
    """The address says which view is shown; a model is chosen for each."""
    page = transcribe.page
    assert page.title().startswith("pyapp · speech")
    page.get_by_role("link", name="Story").click()
    expect(page.locator("#prompt")).to_be_visible()
    expect(page.locator("#model-name")).to_have_text("Little stories")
    transcribe.open_models()
    expect(page.locator(".model-row")).to_contain_text(["Little stories", "TinyStories 260K"])
    expect(page.locator(".model-row", has_text="Whisper")).to_have_count(0)
    transcribe.close_dialog()
    page.go_back()
    expect(page.locator("#record")).to_be_visible()
    page.locator("body").press("Tab")
    page.evaluate("location.hash = '#main'")  # the skip link stays in its view
    expect(page.locator("#record")).to_be_visible()


def test_a_recording_by_its_address(
    transcribe: TranscribePage, hub: FakeHub, speech_model: Path, recording: Path, dist: Path
) -> None:
    page = transcribe.page
    transcribe.choose(speech_model)
    transcribe.settings(times="segments", silence=False)
    field, load = page.locator("#recording-address"), page.locator("#recording-load")
    file = hub.add("sounds", "a%20talk.wav", recording.read_bytes())
    hub.files["/sounds/resolve/main/a talk.wav"] = file
    address = f"{hub.url}sounds/resolve/main/a%20talk.wav"
    file.pause, file.piece = 0.2, 1 << 13
    field.fill(address)
    load.click()
    expect(page.locator("#transcribe-progress")).to_contain_text(re.compile(r"Loading the recording \d+ kB of 320 kB"))
    load.click()  # it is Cancel now
    expect(load).to_have_text("Load")
    expect(transcribe.error).to_have_count(0)
    file.pause = 0
    page.locator("body").evaluate(
        """(body, text) => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text/plain", text);
          body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        address,
    )
    expect(page.locator("#recording-name")).to_have_text("a talk.wav")
    transcribe.wait_done()
    assert transcribe.text().split("\n") == SAID
    transcribe.expected_errors = ["Failed to load resource", "CORS policy"]
    with SiteServer(dist) as closed:  # it lets no other origin read its files
        for wrong, says in (
            (f"{closed.url}models/speech/config.json", "(CORS)"),
            (f"{hub.url}sounds/resolve/main/nothing.wav", "nothing at this address (404)"),
            ("http://example.org/talk.mp3", "begin with https://"),
            ("talk.mp3", "not the address of a recording"),
        ):
            field.fill(wrong)
            load.click()
            transcribe.wait_refused(says)
    assert transcribe.text().split("\n") == SAID  # what the sheet shows stays


def test_dropped_files_go_where_they_belong(transcribe: TranscribePage) -> None:
    drop = """([name, base64]) => {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
      transfer.items.add(new File([bytes], name));
      for (const type of ["dragenter", "dragover", "drop"])
        document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    transcribe.page.evaluate(drop, ["weights.bin", "AAAA"])
    expect(transcribe.page.locator("#model-error [role=alert]")).to_contain_text("weights.bin")
    transcribe.close_dialog()
    transcribe.page.evaluate(drop, ["diary.docx", "AAAA"])
    expect(transcribe.page.locator("#view-error [role=alert]")).to_contain_text("This is a document")
    transcribe.page.evaluate(drop, ["talk.xyz", "AAAA"])
    transcribe.wait_refused("could not be read as sound")


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
    page.select_option("#speech-search", "auto")
