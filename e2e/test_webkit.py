"""WebKitGTK, where it is installed: the page opens, writes, transcribes and reads samples, opens all views."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.driven_browser import read_pictures, transcribe_sample, visit_views, write_in_a_page_of_its_own, write_story
from e2e.webkit import WebKit, installed
from scripts.serve import SiteServer

pytestmark = pytest.mark.skipif(not installed(), reason="needs webkit2gtk-driver and xvfb")


@pytest.fixture(scope="module")
def webkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebKit]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    browser = WebKit(tmp_path_factory.mktemp("webkit"), port)
    yield browser
    browser.close()


def test_a_visit_with_webkit(webkit: WebKit, isolated: SiteServer) -> None:
    write_story(webkit, isolated.url)
    transcribe_sample(webkit)
    read_pictures(webkit)
    visit_views(webkit)


def test_a_page_of_others(webkit: WebKit, dist: Path) -> None:
    write_in_a_page_of_its_own(webkit, dist)
