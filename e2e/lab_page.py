"""Actions of a visitor in the Lab, for the tests."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

from e2e.page import POLL, ViewPage

IDLE = "() => globalThis.pyappPage?.lab && !pyappPage.lab.runningCell && pyappPage.lab.python.ready"


class LabPage(ViewPage):
    """The Lab in one tab."""

    view = "lab"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.note = page.locator("#lab-note")
        self.status = page.locator("#lab-status")
        self.cells = page.locator("#lab-cells > li")

    def open(self, url: str) -> LabPage:
        self.page.goto(url if "#" in url else f"{url}#lab")
        return self.loaded()

    def loaded(self) -> LabPage:
        self.page.wait_for_function("() => globalThis.pyappPage?.lab !== undefined", timeout=60_000, polling=POLL)
        self.page.evaluate("pyappPage.lab.ready")
        return self

    def wait_idle(self, timeout: float = 90_000) -> LabPage:
        self.page.wait_for_function(IDLE, timeout=timeout, polling=POLL)
        return self

    def cell(self, number: int) -> Locator:
        """The number of a cell counts from 1."""
        return self.cells.nth(number - 1)

    def write(self, *sources: str) -> LabPage:
        """A new notebook with these cells of code."""
        cells = [{"kind": "code", "source": source} for source in sources]
        self.page.evaluate("(cells) => pyappPage.lab.open({ title: 'Test', cells })", cells)
        return self

    def run(self, *sources: str) -> list[list[dict[str, Any]]]:
        """Runs a new notebook with these cells, and returns the outputs of each."""
        self.write(*sources)
        self.page.evaluate("pyappPage.lab.runAll()")
        self.wait_idle()
        return [self.outputs(number) for number in range(1, len(sources) + 1)]

    def outputs(self, number: int) -> list[dict[str, Any]]:
        """What a cell shows, as data."""
        return list(self.page.evaluate(f"pyappPage.lab.cells[{number - 1}].outputs.outputs"))

    def texts(self, number: int) -> str:
        return "".join(output.get("text", "") for output in self.outputs(number))

    def cell_state(self, number: int) -> str:
        return str(self.page.evaluate(f"pyappPage.lab.cells[{number - 1}].state"))
