"""Firefox: all views, offline, threads on and off, what is kept, wrong files, guesses, a silent microphone."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from e2e.conftest import ChangeableSite
from e2e.driven_browser import (
    ALERTS,
    READY,
    STARTED,
    read_pictures,
    transcribe_sample,
    visit,
    visit_views,
    write_in_a_page_of_its_own,
    write_story,
)
from e2e.firefox import Firefox
from e2e.speech_files import write_recording
from scripts.serve import Handler, SiteServer
from tests.audio.sounds import babble
from tests.models.picture_folders import write_picture_folder
from tests.models.test_voices import make as make_voice
from tests.models.test_voices import write as write_voice
from tests.text.picture_chat_model import photo, write_picture_chat_model

# A microphone that is permitted. Without an output for sound, as here, Firefox never starts an AudioContext.
MICROPHONE = {"media.navigator.permission.disabled": True, "media.navigator.streams.fake": True}
SPOKEN = "document.getElementById('transcript-sheet').dataset.state === 'done' && !pyappPage.transcribe.button.running"
TEXT = "pyappPage.transcribe.sheet.transcript.text"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    browser = Firefox(tmp_path_factory.mktemp("firefox"), MICROPHONE)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(dist: Path) -> SiteServer:
    """The site on a plain host; stopped by the first test, after which the page is what Firefox has stored."""
    return SiteServer(dist).start()


@pytest.fixture(scope="module")
def page(firefox: Firefox, server: SiteServer) -> Firefox:
    visit(firefox, server.url)
    return firefox


def test_a_visit_with_firefox(firefox: Firefox, server: SiteServer) -> None:
    write_story(firefox, server.url)
    transcribe_sample(firefox)
    read_pictures(firefox)
    visit_views(firefox)

    firefox.click("#views a[href='#lab']")
    firefox.until("pyappPage.lab.python.ready && pyappPage.lab.cells.length > 2")
    firefox.click("#lab-run")
    firefox.until("pyappPage.lab.cells.at(-2).state === 'done'")
    assert "The ball rests at 2.15" in firefox.evaluate("pyappPage.lab.cells.at(-2).outputs.outputs.at(1).text")
    firefox.evaluate("pyappPage.lab.open({ title: '', cells: [{ kind: 'code', source: 'while True: pass' }] })")
    firefox.click("#lab-run")
    firefox.until("pyappPage.lab.runningCell !== null")
    firefox.click("#lab-stop")
    firefox.until("pyappPage.lab.runningCell === null && pyappPage.lab.cells[0].state === 'stopped'")
    firefox.evaluate("pyappPage.lab.open({ title: '', cells: [{ kind: 'code', source: 'input(\"Name? \")' }] })")
    firefox.click("#lab-run")
    firefox.until("document.activeElement?.className === 'output-answer'")
    firefox.evaluate("((field) => { field.value = 'Ada'; field.form.requestSubmit() })(document.activeElement)")
    firefox.until("pyappPage.lab.runningCell === null")
    assert firefox.evaluate("pyappPage.lab.cells[0].outputs.outputs.map(({ text }) => text)") == [
        "Name? Ada\n",
        "'Ada'",
    ]
    text = "open('a.txt', 'w').write('Once there was a robot')\\nfrom pyapp import lab\\nlab.open_in('story', 'a.txt')"
    firefox.evaluate(f"pyappPage.lab.open({{ title: '', cells: [{{ kind: 'code', source: `{text}` }}] }})")
    firefox.click("#lab-run")
    firefox.until("document.querySelector('.output-open') !== null && pyappPage.lab.runningCell === null")
    firefox.click(".output-open")
    firefox.until("location.hash === '#story' && document.getElementById('prompt').value.startsWith('Once there')")
    firefox.until(
        "!pyappPage.lab.unsaved && !pyappPage.lab.store.busy"
    )  # before that the page asks whether to leave it

    firefox.until("document.getElementById('offline-state').textContent.includes('works offline')")
    server.stop()
    firefox.open(server.url)
    firefox.until(READY)
    assert firefox.errors == []


def test_reloads_while_the_engine_arrives(firefox: Firefox, dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Firefox loses a thread of its compiler with each stream that a reload cuts off. Without one, nothing starts."""
    send = Handler.body

    def halved(self: Handler, source: Path, first: int, last: int) -> None:
        if "pyodide.asm.wasm" not in source.name or whole.is_set():
            return send(self, source, first, last)
        middle = (first + last) // 2
        send(self, source, first, middle)
        arrived.release()
        whole.wait(60)
        send(self, source, middle, last)

    arrived, whole = threading.Semaphore(0), threading.Event()
    monkeypatch.setattr(Handler, "body", halved)
    with SiteServer(dist, isolated=True) as server:
        for _ in range(min(os.cpu_count() or 8, 8) + 1):
            firefox.open(server.url)
            assert arrived.acquire(timeout=60)
            time.sleep(0.3)  # the half reaches the compiler
        whole.set()
        firefox.open(server.url)
        firefox.until(READY, 60)
    firefox.errors.clear()  # of the requests that it cut off, of the page before it too


def test_threads_change_no_result(page: Firefox) -> None:
    written = []
    for threads in (2, 1):
        page.evaluate(f"localStorage.setItem('pyapp.threads', '{threads}')")
        page.reload()
        page.until(f"{STARTED} && pyappPage.app.engine.about?.threads === {threads}")
        for name, value in (("max_new_tokens", 64), ("temperature", 0)):
            page.evaluate(f"pyappPage.story.settings.inputs.get('{name}').set({value})")
        page.click("#generate")
        page.until("document.getElementById('sheet').dataset.state === 'done' && !pyappPage.story.button.running")
        written.append(page.evaluate("pyappPage.story.output.ids"))
    assert written[0] == written[1] and len(written[0]) > 20
    page.evaluate("localStorage.removeItem('pyapp.threads')")
    assert page.errors == []


def test_a_model_sees_a_picture(page: Firefox, tmp_path: Path) -> None:
    files = sorted(write_picture_chat_model(tmp_path, "llava").iterdir())
    Image.fromarray(photo(30, 41)).save(tmp_path / "fox.png")
    page.click("#views a[href='#chat']")
    page.until("pyappPage.chat !== undefined")
    page.evaluate("pyappPage.models.open(pyappPage.app.choices.chat)")
    page.until("document.querySelector('#model-dialog[open] .model-row') !== null")
    page.choose_files("#pick-files", *files)
    page.until("!document.getElementById('chat-attach').hidden && document.querySelector('dialog[open]') === null")
    page.choose_files("#chat-pictures", tmp_path / "fox.png")
    page.until("pyappPage.chat.attachments.all.length === 1")
    page.until("!pyappPage.chat.pictureDraft.loses && document.querySelector('#chat-attachments img[src]') !== null")
    page.click("#chat-attachments .picture-button")
    page.until("document.querySelector('.picture-dialog[open] img')?.naturalWidth === 41")
    box = page.evaluate("document.querySelector('.picture-dialog img').getBoundingClientRect().toJSON()")
    width, height = box["width"], box["height"]
    assert width == 4 * 41 and abs(width / height - 41 / 30) < 0.1
    page.evaluate("document.querySelector('.picture-dialog').close()")
    page.until("document.activeElement === document.querySelector('#chat-attachments .picture-button')")
    page.evaluate("pyappPage.chat.settings.inputs.get('max_new_tokens').set(8)")
    page.click("#chat-send")
    page.until("pyappPage.chat.conversation.path.length === 2 && !pyappPage.chat.button.running")
    assert page.evaluate("pyappPage.chat.last.new_tokens") > 0
    page.evaluate("pyappPage.chat.over")
    page.reload()
    page.until(f"{READY} && document.querySelector('#chat-turns img[src]') !== null")
    assert page.evaluate("document.querySelector('#chat-turns img').alt") == "Picture: fox.png"
    page.evaluate("localStorage.removeItem('pyapp.chat-settings')")
    page.open(page.evaluate("location.href.split('#')[0]"))
    assert page.errors == []


def test_pictures_are_cut_out_and_described(page: Firefox, tmp_path: Path) -> None:
    """A click in the picture is where the point is; the mask and the depth are drawn over it; a PNG is made."""
    page.click("#views a[href='#pictures']")
    page.until("pyappPage.pictures !== undefined && document.querySelector('#look-examples button') !== null")
    page.click("#look-examples button")
    page.until("document.getElementById('look-name').textContent === 'table.svg'")
    for task, name in (("cut-out", "sam"), ("depth", "depth_anything")):
        files = sorted(write_picture_folder(tmp_path / name, name).iterdir())
        page.evaluate(f"pyappPage.pictures.choose('{task}')")
        page.evaluate(f"pyappPage.models.open(pyappPage.app.choices['{task}'])")
        page.until("document.querySelector('#model-dialog[open]') !== null")
        page.choose_files("#pick-files", *files)
        page.until(
            f"pyappPage.app.choices['{task}'].model?.kind === 'file' && document.querySelector('dialog[open]') === null"
        )
        page.click("#look-stage > canvas" if task == "cut-out" else "#look-start")
        page.until(f"pyappPage.pictures.results.has('{task}') && !pyappPage.pictures.button.running")
        page.until("document.querySelector('.look-map canvas') !== null")
        shown = page.evaluate(
            "[...document.querySelectorAll('.look-map canvas')].map((map) => [map.width, map.height])"
        )
        assert shown == [[1000, 750]]
    assert page.evaluate("pyappPage.pictures.points") == [{"x": 500, "y": 375, "label": 1}]
    values = page.evaluate("pyappPage.pictures.results.get('cut-out').values")
    assert sum(length for number, length in values["runs"] if number) > 0, "nothing was cut out"
    colours = "new Set(new Uint32Array(document.querySelector('.look-map canvas').getContext('2d').getImageData(0, 0, 1000, 750).data.buffer)).size"  # noqa: E501
    assert page.evaluate(colours) > 20
    page.until("pyappPage.pictures.store.list().then(([entry]) => entry?.about.includes('depth'))")
    assert page.errors == []


def test_what_is_made_stays(page: Firefox, tmp_path: Path) -> None:
    """A wrong file changes nothing; edits are undone, and survive a reload; what is deleted comes back."""
    transcribe_sample(page)
    text = page.evaluate(TEXT)
    (tmp_path / "wrong.mp3").write_bytes(b"nothing" * 1000)
    page.choose_files("#pick-audio", tmp_path / "wrong.mp3")
    page.until(f"{ALERTS}.some((text) => text.includes('could not be read as sound'))")
    assert page.evaluate(TEXT) == text
    page.click("#edit-transcript")
    type_in = (
        "((field) => { field.focus(); field.value = 'An edited line.';"
        " field.dispatchEvent(new Event('input', { bubbles: true })) })(document.querySelector('.segment-field'))"
    )
    page.evaluate(type_in)
    page.until("!document.getElementById('undo-edit').hidden")
    page.click("#undo-edit")
    page.until(f"{TEXT} === {json.dumps(text)}")
    page.evaluate(type_in)
    page.click("#edit-transcript")
    page.until("pyappPage.transcribe.keeper.save().then(() => !pyappPage.transcribe.keeper.unsaved)")
    page.reload()
    page.until(f"{READY} && globalThis.pyappPage?.transcribe !== undefined && {SPOKEN}")
    page.until(f"{TEXT}.startsWith('An edited line.')")
    page.evaluate("document.getElementById('history-transcript').open = true")
    page.until("document.querySelector('#history-transcript [data-key^=delete]') !== null")
    page.evaluate("document.querySelector('#history-transcript [data-key^=delete]').click()")
    page.until("document.getElementById('transcript-sheet').dataset.state === 'empty'")
    undo = (
        "[...document.querySelectorAll('#history-transcript button')].find(({ textContent }) => textContent === 'Undo')"
    )
    page.until(f"{undo} !== undefined")
    page.evaluate(f"{undo}.click()")
    page.until("pyappPage.transcribe.store.list().then(({ length }) => length > 0)")
    assert page.errors == []


def test_a_guess_and_a_microphone_that_does_not_start(page: Firefox, tmp_path: Path) -> None:
    page.choose_files("#pick-audio", write_recording(tmp_path / "babble.wav", babble()))
    page.until("document.getElementById('guess').textContent.includes('may be a guess')")
    page.until(SPOKEN)
    page.click("#record")
    page.until(f"{ALERTS}.some((text) => text.includes('did not start within 5 seconds'))", 20)
    assert page.evaluate("document.querySelector('#record .label').textContent") == "Record"
    assert page.errors == []


def test_a_story_is_spoken(page: Firefox, tmp_path: Path) -> None:
    """Without an output for sound, as here, the page says that nothing is heard."""
    files = sorted(write_voice(tmp_path, "vits", dict(make_voice("vits").state_dict())).iterdir())
    write_story(page, page.evaluate("location.href.split('#')[0]"))
    listen = (
        "[...document.querySelectorAll('#view-story button')].find(({ ariaLabel }) => /Listen|Stop s/.test(ariaLabel))"
    )
    page.evaluate(f"({listen}.id = 'listen')")
    page.click("#listen")
    page.until("document.querySelector('#model-dialog[open] #pick-files') !== null")
    page.choose_files("#pick-files", *files)
    page.until("document.querySelector('dialog[open]') === null && pyappPage.app.choices.speak.model !== null")
    page.click("#listen")
    page.until("document.getElementById('listen').dataset.spoken > 0")
    page.until("document.getElementById('listen').textContent === 'Listen'")
    page.until("!pyappPage.app.busy")
    alerts = page.evaluate(ALERTS)
    assert all("The browser does not play the sound." in text for text in alerts), alerts
    assert page.errors == []


def test_views_and_dialogs_that_do_not_arrive(
    firefox: Firefox, tmp_path_factory: pytest.TempPathFactory, dist: Path
) -> None:
    """The page names the script, the style or the dialog that is missing; "Try again" gets it once it is there.
    Without a new address Firefox would remember that a script did not arrive."""
    alone = firefox.first("delete Navigator.prototype.serviceWorker")  # which would have them all
    with ChangeableSite(dist, tmp_path_factory.mktemp("changed")) as site, alone:
        firefox.open(site.url)
        firefox.until("globalThis.pyappPage?.views !== undefined")
        for view, file in (("chat", "chat-view.js"), ("search", "search.css")):
            with site.changed({}, missing=[file]):
                firefox.click(f"#views a[href='#{view}']")
                for _ in range(2):
                    firefox.until("document.querySelector('#view-error .error-box') !== null")
                    text = firefox.evaluate("document.querySelector('#view-error .error-box').innerText")
                    assert "could not be loaded" in text and "(status 404)" in text and file in text, text
                    firefox.evaluate("document.querySelector('#view-error .error-box').dataset.seen = ''")
                    firefox.click("#view-error .error-box button")
                    firefox.until("document.querySelector('#view-error .error-box[data-seen]') === null")
                firefox.until("document.querySelector('#view-error .error-box') !== null")
            firefox.click("#view-error .error-box button")
            firefox.until(f"pyappPage.{view} !== undefined && {ALERTS}.length === 0")
        firefox.click("#views a[href='#story']")
        with site.changed({}, missing=["model-dialog.js"]):
            firefox.until("pyappPage.story !== undefined && !document.getElementById('choose-model').disabled")
            firefox.click("#choose-model")
            firefox.until("document.querySelector('#story-error [role=alert]') !== null")
            alert = "document.querySelector('#story-error [role=alert]')"
            assert "The list of models could not be loaded." in firefox.evaluate(f"{alert}.innerText")
        firefox.click("#story-error button")
        firefox.until("document.querySelector('#model-dialog[open] .model-row') !== null")


def test_a_page_of_others(firefox: Firefox, dist: Path) -> None:
    write_in_a_page_of_its_own(firefox, dist)
