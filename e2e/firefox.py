"""Firefox with a profile of its own, without a window, driven by WebDriver BiDi over a WebSocket.

Source of the protocol: https://www.w3.org/TR/webdriver-bidi/
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from e2e.driven_browser import DrivenBrowser

# No requests of Firefox's own, no first pages, no questions; no animations and no process in reserve, whose work is the
# processor's.
PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.blockedURIs.enabled": False,
    "browser.safebrowsing.downloads.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
    "extensions.update.enabled": False,
    "layout.frame_rate": 20,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.server": "",
    "ui.prefersReducedMotion": 1,
}
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
START_LIMIT = 60.0  # seconds


class Firefox(DrivenBrowser):
    """Firefox without a window; `preferences` beside those of all tests."""

    def __init__(self, profile: Path, preferences: Mapping[str, bool | int | str] | None = None) -> None:
        super().__init__()
        executable = shutil.which("firefox-esr") or shutil.which("firefox")
        if executable is None:
            pytest.fail("Firefox is not installed: run `make test`, which installs it")
        every = {**PREFERENCES, **(preferences or {})}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in every.items()]
        (profile / "user.js").write_text("\n".join(lines))
        self.last = 0
        command = [executable, "--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(profile)]
        log = profile / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        self.socket = self._connect(log)
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        self.tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def _connect(self, log: Path) -> ClientConnection:
        end = time.monotonic() + START_LIMIT
        while not (found := LISTENING.search(log.read_text(errors="replace"))):
            if time.monotonic() > end or self.process.poll() is not None:
                self.process.kill()
                pytest.fail(f"Firefox did not start: {log.read_text(errors='replace')[-1000:]}")
            time.sleep(0.1)
        return connect(f"{found[1]}/session", max_size=1 << 26, open_timeout=START_LIMIT)

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command. Events that arrive before it are noted."""
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=START_LIMIT))
            if message.get("id") == self.last:
                assert message["type"] == "success", f"{method}: {message['message']}"
                return message["result"]
            if message.get("method") == "log.entryAdded":
                entry = message["params"]
                if entry["level"] in ("error", "warn"):
                    self.errors.append(f"{entry['level']}: {entry['text']}")

    def open(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self.tab, url=url, wait="interactive")

    @contextmanager
    def first(self, script: str) -> Iterator[None]:
        """Pages that are opened meanwhile run a script before their own."""
        added = self.call("script.addPreloadScript", functionDeclaration=f"() => {{ {script} }}")
        try:
            yield
        finally:
            self.call("script.removePreloadScript", script=added["script"])

    def reload(self) -> None:
        """As soon as the page has stored what was made: before, it asks a user first, and waits for the answer."""
        self.until('dispatchEvent(new Event("beforeunload", { cancelable: true }))')
        self.call("browsingContext.reload", context=self.tab, wait="interactive")

    def evaluate(self, expression: str) -> Any:
        text = f"Promise.resolve({expression}).then((value) => JSON.stringify(value ?? null))"
        target = {"context": self.tab}
        answer = self.call("script.evaluate", expression=text, target=target, awaitPromise=True)
        if answer["type"] == "exception":
            raise AssertionError(f"{expression}: {answer['exceptionDetails']['text']}")
        return json.loads(answer["result"]["value"])

    def click(self, selector: str) -> None:
        find = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{find}.scrollIntoView({{ block: 'center' }})")
        x, y = self.evaluate(
            f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({find}.getBoundingClientRect())"
        )
        place = {"type": "pointerMove", "x": round(x), "y": round(y)}
        moves = [place, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.call(
            "input.performActions", context=self.tab, actions=[{"type": "pointer", "id": "mouse", "actions": moves}]
        )

    def choose_files(self, selector: str, *files: Path) -> None:
        """Chooses files in a field for some."""
        found = {"type": "css", "value": selector}
        (node,) = self.call("browsingContext.locateNodes", context=self.tab, locator=found)["nodes"]
        paths = [str(file) for file in files]
        self.call("input.setFiles", context=self.tab, element={"sharedId": node["sharedId"]}, files=paths)

    def close(self) -> None:
        try:
            self.call("browser.close")
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.socket.close()
