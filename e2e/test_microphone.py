"""Live recording: the microphone, the sound of a tab, and what happens where there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from e2e.speech_files import samples, spoken
from e2e.transcribe_page import TranscribePage


@pytest.fixture
def microphone(transcribe: TranscribePage) -> Iterator[TranscribePage]:
    """The view with a microphone that is permitted, and hears the first sample."""
    transcribe.page.context.grant_permissions(["microphone"])
    yield transcribe
    transcribe.page.context.clear_permissions()


def test_microphone(microphone: TranscribePage, dist: Path) -> None:
    """Text appears during speech, sentence by sentence; in the end it is what the recording gives as a file."""
    page = microphone.page
    # The whole is read once more only by a model that was quick: on a busy machine, too.
    quick = "{ get: () => 0.1, set() {}, configurable: true }"
    page.evaluate(f"Object.defineProperty(pyappPage.transcribe, 'windowTime', {quick}), 1")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator("#live")).to_be_visible()
    expect(page).to_have_title(re.compile("● Recording 0:0"))
    page.get_by_role("link", name="Story").click()
    expect(page.locator(".recording-sign")).to_contain_text("Recording 0:0")
    page.locator(".recording-sign").click()
    expect(page.locator(".recording-sign")).to_be_hidden()
    said = "(document.querySelector('#transcript')?.innerText ?? '').trim().length > 3"
    microphone.until(said, timeout=30)
    page.wait_for_timeout(2500)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible(timeout=60_000)
    microphone.wait_done()
    assert page.title().startswith("pyapp")
    live = microphone.text()
    assert all(segment["end"] - segment["start"] > 0.05 for segment in microphone.segments())
    words = set(spoken(samples(dist)[0]["text"]))
    found = spoken(microphone.text())
    assert len(found) > 3 and sum(word in words for word in found) > 0.6 * len(found)
    assert microphone.player("duration") > 3
    expect(page.locator("#recording-name")).to_contain_text("Recording")
    assert "-->" in microphone.save("srt")
    with page.expect_download() as saved:
        page.locator("#downloads [data-format=sound]").click()
    assert saved.value.suggested_filename.endswith(".wav")
    assert Path(saved.value.path()).stat().st_size == pytest.approx(microphone.player("duration") * 32_000, rel=0.01)
    page.get_by_role("button", name="Transcribe again").click()
    page.wait_for_selector("#transcript-sheet[data-state=working]")
    microphone.wait_done()
    assert spoken(microphone.text()) == spoken(live)
    page.evaluate("Object.defineProperty(pyappPage.transcribe, 'windowTime', { value: Infinity, writable: true }), 1")


def test_a_microphone_that_is_unplugged(microphone: TranscribePage) -> None:
    """The recording ends, is kept, and says why."""
    page = microphone.page
    page.evaluate(
        "globalThis.ask = navigator.mediaDevices.getUserMedia;"
        "navigator.mediaDevices.getUserMedia = async function (...wanted) {"
        " globalThis.stream = await ask.apply(this, wanted); return stream }, 1"
    )
    page.get_by_role("button", name="Record", exact=True).click()
    microphone.until("pyappPage.transcribe.recording")
    page.evaluate("location.hash = '#story'")
    expect(page.locator("#view-transcribe")).to_be_hidden()
    page.keyboard.press("Escape")  # stops nothing that is not seen
    page.evaluate("location.hash = '#transcribe'")
    expect(page.locator("#view-transcribe")).to_be_visible()
    page.wait_for_timeout(600)
    expect(page.locator("#record")).to_have_text("Stop")
    page.evaluate("stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible()
    microphone.wait_done()
    expect(microphone.notes).to_contain_text("The microphone was disconnected")
    assert microphone.player("duration") > 0.5
    page.evaluate("navigator.mediaDevices.getUserMedia = ask, 1")


def test_sound_that_stops_by_itself(microphone: TranscribePage) -> None:
    """As by a call on a telephone, or the sleep of a device: it goes on, and what cannot go on ends and is kept."""
    page = microphone.page
    page.evaluate(
        "globalThis.Context = AudioContext; globalThis.AudioContext = class extends Context {"
        " constructor(...wanted) { super(...wanted); globalThis.sound = this } }, 1"
    )
    page.get_by_role("button", name="Record", exact=True).click()
    microphone.until("pyappPage.transcribe.recording")
    page.evaluate("sound.suspend()")
    heard = page.evaluate("document.getElementById('live-time').textContent")
    microphone.until("sound.state === 'running'")
    microphone.until(f"document.getElementById('live-time').textContent !== '{heard}'")
    page.evaluate("sound.resume = () => Promise.reject(new Error('no')); sound.suspend()")
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible()
    microphone.wait_done()
    expect(microphone.notes).to_contain_text("may not be used any more")
    assert microphone.player("duration") > 0.5
    page.evaluate("globalThis.AudioContext = Context, 1")


def test_live_text_of_a_slow_model_can_be_read_once_more(microphone: TranscribePage) -> None:
    """It stays, a button tells how long the other pass takes, and a reload shows the button again."""
    page = microphone.page
    slow = "{ get: () => 50, set() {}, configurable: true }"
    page.evaluate(f"Object.defineProperty(pyappPage.transcribe, 'windowTime', {slow}), 1")
    page.get_by_role("button", name="Record", exact=True).click()
    microphone.until("(document.querySelector('#transcript')?.innerText ?? '').trim().length > 3", timeout=30)
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Stop", exact=True).click()
    microphone.wait_done()
    live = page.locator("#heard-live")
    expect(live).to_contain_text(re.compile("That takes about (50 seconds|1 minute 40 seconds)"))
    assert microphone.text()
    page.evaluate("pyappPage.transcribe.keeper.save()")
    page.reload()
    expect(live).to_be_visible()
    live.get_by_role("button", name="Read it once more").click()
    expect(live).to_be_hidden()
    microphone.wait_done()
    expect(live).to_be_hidden()
    assert microphone.text() and not page.evaluate("pyappPage.transcribe.keeper.version.live")


# What a visitor shares, in place of the browser's dialog: a tab with the microphone's sound, one without, then nothing.
SHARES = """() => {
  const { mediaDevices } = navigator;
  const answers = [
    () => mediaDevices.getUserMedia({ audio: true }),
    async () => new MediaStream(),
    () => Promise.reject(new DOMException("", "NotAllowedError")),
  ];
  mediaDevices.getDisplayMedia = () => answers.shift()();
  globalThis.locks = 0;
  navigator.wakeLock.request = async () => ((locks += 1), { release: async () => void (locks -= 1) });
}"""


def test_the_sound_of_a_tab(microphone: TranscribePage) -> None:
    """It is recorded as the microphone is; the screen stays awake meanwhile."""
    page = microphone.page
    page.evaluate(SHARES)
    page.get_by_role("button", name="Sound of a tab").click()
    microphone.until("pyappPage.transcribe.recording !== null && locks === 1")
    microphone.until("(document.querySelector('#transcript')?.innerText ?? '').trim().length > 3", timeout=30)
    page.locator("#record-tab").click()
    microphone.until("locks === 0 && !pyappPage.transcribe.tabButton.running")
    assert microphone.text() and microphone.player("duration") > 1
    page.get_by_role("button", name="Sound of a tab").click()
    microphone.wait_refused("What you shared has no sound.")
    microphone.error.get_by_role("button", name="Try again").click()
    microphone.wait_refused("Nothing is shared.")
    page.evaluate("delete navigator.mediaDevices.getDisplayMedia, delete navigator.wakeLock.request, 1")


def test_a_refused_microphone(transcribe: TranscribePage) -> None:
    transcribe.page.context.clear_permissions()
    transcribe.page.get_by_role("button", name="Record", exact=True).click()
    message = transcribe.wait_refused("The browser refused access to the microphone.")
    assert "stays on this device" in message
    expect(transcribe.page.get_by_role("button", name="Record", exact=True)).to_be_visible()


def test_a_missing_microphone(transcribe: TranscribePage) -> None:
    page = transcribe.page
    page.evaluate(
        "const devices = navigator.mediaDevices; globalThis.ask = devices.getUserMedia;"
        "devices.getUserMedia = () => Promise.reject(new DOMException('', 'NotFoundError')), 1"
    )
    page.get_by_role("button", name="Record", exact=True).click()
    transcribe.wait_refused("No microphone was found.")
    # A browser without an output for sound: its audio context never starts.
    page.evaluate(
        "navigator.mediaDevices.getUserMedia = async () => new AudioContext().createMediaStreamDestination().stream;"
        "globalThis.resume = AudioContext.prototype.resume;"
        "AudioContext.prototype.resume = () => new Promise(() => {});"
        # The page's clock runs fast meanwhile.
        "globalThis.wait = setTimeout;"
        "globalThis.setTimeout = (work, time, ...rest) => wait(work, time / 20, ...rest), 1"
    )
    page.get_by_role("button", name="Record", exact=True).click()
    transcribe.wait_refused("The microphone did not start within 5 seconds.")
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible()
    page.evaluate(
        "navigator.mediaDevices.getUserMedia = ask, AudioContext.prototype.resume = resume,"
        "globalThis.setTimeout = wait, 1"
    )
