"""WebKitGTK's small browser in a virtual display, driven by WebDriver: the engine of Safari, as far as Linux has it.

Needs the programs of Debian's packages webkit2gtk-driver and xvfb. Source of the protocol: https://www.w3.org/TR/webdriver2/
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from e2e.driven_browser import DrivenBrowser

PROGRAMS = ("WebKitWebDriver", "Xvfb")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference to an element
START_LIMIT = 60.0  # seconds
CALL_LIMIT = 120.0
# Renders without a graphics card; speaks a language that has a tag (in the locale C the browser's own is "C").
SETTINGS = {
    "LANG": "en_US.UTF-8",
    "LANGUAGE": "en_US",
    "WEBKIT_DISABLE_DMABUF_RENDERER": "1",
    "LIBGL_ALWAYS_SOFTWARE": "1",
    "NO_AT_BRIDGE": "1",
}


def installed() -> bool:
    return all(shutil.which(program) for program in PROGRAMS)


class WebKit(DrivenBrowser):
    """WebKitGTK's MiniBrowser. WebDriver has no access to the console: `errors` stays empty."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__()
        self.processes: list[subprocess.Popen[bytes]] = []
        display = self._start_display(folder)
        environment = {**os.environ, **SETTINGS, "DISPLAY": display, "GDK_BACKEND": "x11", "HOME": str(folder)}
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            environment[name] = str(folder / name.lower())
        with (folder / "driver.log").open("wb") as log:
            command = ["WebKitWebDriver", "--host=127.0.0.1", f"--port={port}"]
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        self.address = f"http://127.0.0.1:{port}"
        self.session = ""
        self._wait(lambda: self.call("GET", "/status")["ready"], "WebKitWebDriver")
        made = self.call("POST", "/session", capabilities={"alwaysMatch": {"acceptInsecureCerts": False}})
        self.session = f"/session/{made['sessionId']}"
        self.call("POST", f"{self.session}/timeouts", script=int(CALL_LIMIT * 1000))

    def _start_display(self, folder: Path) -> str:
        """Starts Xvfb on a free display, whose number it writes."""
        reading, writing = os.pipe()
        with (folder / "display.log").open("wb") as log:
            command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x900x24", "-nolisten", "tcp"]
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, pass_fds=[writing]))
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        if not number:
            self.close()
            pytest.fail(f"Xvfb did not start: {(folder / 'display.log').read_text(errors='replace')[-500:]}")
        return f":{number}"

    def _wait(self, ready: Any, what: str) -> None:
        end = time.monotonic() + START_LIMIT
        while True:
            try:
                if ready():
                    return
            except URLError:
                pass  # it does not listen yet
            if time.monotonic() > end:
                self.close()
                pytest.fail(f"{what} did not start")
            time.sleep(0.1)

    def call(self, method: str, path: str, **params: Any) -> Any:
        """The value of a command's answer."""
        body = json.dumps(params).encode() if method == "POST" else None
        request = Request(f"{self.address}{path}", body, {"Content-Type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=CALL_LIMIT) as answer:
                return json.load(answer)["value"]
        except HTTPError as error:
            said = json.loads(error.read() or b"{}").get("value") or {}
            raise AssertionError(f"{method} {path}: {said.get('error')}: {said.get('message')}") from None

    def open(self, url: str) -> None:
        self.call("POST", f"{self.session}/url", url=url)

    def evaluate(self, expression: str) -> Any:
        script = (
            "const done = arguments[arguments.length - 1];"
            f"Promise.resolve().then(() => ({expression})).then((value) => done([JSON.stringify(value ?? null)]),"
            " (error) => done([null, String(error)]))"
        )
        value, *problem = self.call("POST", f"{self.session}/execute/async", script=script, args=[])
        assert not problem, f"{expression}: {problem[0]}"
        return json.loads(value)

    def click(self, selector: str) -> None:
        element = self.call("POST", f"{self.session}/element", using="css selector", value=selector)[ELEMENT]
        self.call("POST", f"{self.session}/element/{element}/click")

    def close(self) -> None:
        try:
            if getattr(self, "session", ""):
                self.call("DELETE", self.session)
        finally:
            for process in reversed(self.processes):
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
