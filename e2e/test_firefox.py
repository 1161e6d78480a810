"""Firefox: the page opens, writes a story, transcribes a sample, reads pictures, opens all views, starts offline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.driven_browser import READY, read_pictures, transcribe_sample, visit_views, write_story
from e2e.firefox import Firefox
from scripts.serve import Handler, SiteServer


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    browser = Firefox(tmp_path_factory.mktemp("firefox"))
    yield browser
    browser.close()


def test_a_visit_with_firefox(firefox: Firefox, dist: Path) -> None:
    server = SiteServer(dist).start()
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
